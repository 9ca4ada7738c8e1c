test_that("a reticulate and a NumPy that do not fit each other are told apart", {
  expect_null(pair_problem("1.28", "1.26.4"))
  expect_null(pair_problem("1.38", "2.0.0"))
  expect_null(pair_problem("1.41.0", "2.4.1"))
  expect_match(pair_problem("1.37.0", "2.0.0"), "reticulate 1.37.0 cannot read the arrays of NumPy 2.0.0")
})

# Runs R code in a session of its own; gives what it printed.
run_r <- function(code, env) {
  script <- tempfile(fileext = ".R")
  on.exit(unlink(script))
  writeLines(code, script)
  library <- dirname(system.file(package = "pybayesridge"))
  env <- c(env, paste0("R_LIBS=", paste(c(library, .libPaths()), collapse = .Platform$path.sep)))
  suppressWarnings(
    system2(file.path(R.home("bin"), "Rscript"), c("--no-init-file", script), stdout = TRUE, stderr = TRUE, env = env)
  )
}

no_python <- c("RETICULATE_PYTHON=/nonexistent/python", "PATH=/usr/bin:/bin")

test_that("without Python a fit fails with a message that says what to do", {
  skip_if(file.exists("/nonexistent"))
  out <- run_r(c(
    "library(pybayesridge)",
    "cat(conditionMessage(tryCatch(bayes_ridge(mpg ~ wt, mtcars), error = identity)), '\\n')",
    "cat(isTRUE(pybayesridge_available()), '\\n')"
  ), no_python)
  expect_match(paste(out, collapse = " "), "install_pybayesridge\\(\\), or let the environment variable RETICULATE_PYTHON")
  expect_match(out[length(out)], "FALSE")
})

test_that("fits that were saved work in a session without Python", {
  skip_without_python()
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  fits <- list(
    em = bayes_ridge(mpg ~ poly(wt, 2) + factor(cyl), mtcars),
    exact = bayes_ridge(mpg ~ splines::ns(hp, 3), mtcars, method = "exact"),
    spike = spike_slab(mpg ~ wt + hp + qsec, mtcars),
    many = bayes_ridge(cbind(mpg, hp) ~ wt, mtcars, method = "fixed", lam = 3)
  )
  saveRDS(fits, file)
  out <- run_r(c(
    "library(pybayesridge)",
    sprintf("fits <- readRDS('%s')", file),
    "numbers <- lapply(fits, function(f) {",
    "  pdf(NULL); plot(f); invisible(capture.output(print(f), print(summary(f))))",
    "  u <- c(coef(f), vcov(f), confint(f), fitted(f), residuals(f), sigma(f), nobs(f), f$log_marginal,",
    "    predict(f, mtcars[3:5, ], 'prediction'), predict(f, mtcars[3:5, ], 'credible', 0.8), model.matrix(f),",
    "    unlist(simulate(f, 2, seed = 4, newdata = mtcars[3:5, ])), if (inherits(f, 'bayes_ridge')) unlist(hyperparameters(f)[, -(1:2)]) else inclusion_prob(f))",
    "  if (requireNamespace('generics', quietly = TRUE)) u <- c(u, generics::tidy(f, conf.int = TRUE)$conf.low)",
    "  u",
    "})",
    "cat(reticulate::py_available(), '\\n')",
    "cat(format(unlist(numbers), digits = 17), sep = '\\n')"
  ), no_python)
  here <- lapply(fits, function(f) {
    u <- c(
      coef(f), vcov(f), confint(f), fitted(f), residuals(f), sigma(f), nobs(f), f$log_marginal,
      predict(f, mtcars[3:5, ], "prediction"), predict(f, mtcars[3:5, ], "credible", 0.8), model.matrix(f),
      unlist(simulate(f, 2, seed = 4, newdata = mtcars[3:5, ])), if (inherits(f, "bayes_ridge")) unlist(hyperparameters(f)[, -(1:2)]) else inclusion_prob(f)
    )
    if (requireNamespace("generics", quietly = TRUE)) u <- c(u, generics::tidy(f, conf.int = TRUE)$conf.low)
    u
  })
  at <- grep("^(TRUE|FALSE) $", out)
  expect_identical(out[at], "FALSE ", info = paste(out, collapse = "\n"))
  expect_equal(as.numeric(out[-seq_len(at)]), unname(unlist(here)), tolerance = 1e-12)
})

test_that("loading the package starts no Python", {
  out <- run_r(c("library(pybayesridge)", "cat(reticulate::py_available(), '\\n')"), character())
  expect_identical(out[length(out)], "FALSE ")
})

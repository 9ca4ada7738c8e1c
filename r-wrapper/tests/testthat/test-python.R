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
  expect_match(paste(out, collapse = " "), "install_pybayesridge\\(\"path/of/the/repository\"\\), or let the environment variable RETICULATE_PYTHON")
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
    sets = spike_slab(mpg ~ wt + hp + factor(cyl), mtcars, method = "exact"),
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

test_that("only paths of the package are installed, and never a name", {
  folder <- tempfile()
  dir.create(file.path(folder, "pbr"), recursive = TRUE)
  dir.create(file.path(folder, "source"))
  writeLines(c("[project]", "name = \"pybayesridge\""), file.path(folder, "source", "pyproject.toml"))
  wheel <- file.path(folder, "pybayesridge-0.1-py3-none-linux_x86_64.whl")
  sdist <- file.path(folder, "pybayesridge-0.1.tar.gz")
  file.create(wheel, sdist, file.path(folder, "other-1.0.whl"))
  old <- setwd(folder)
  on.exit({
    setwd(old)
    unlink(folder, recursive = TRUE)
  })
  full <- normalizePath(folder)
  expect_identical(python_package("source", FALSE), file.path(full, "source"))
  expect_identical(python_package("./source/", TRUE), paste0(file.path(full, "source"), "[report]"))
  expect_identical(python_package(basename(wheel), FALSE), file.path(full, basename(wheel)))
  expect_identical(python_package(sdist, TRUE), paste0(file.path(full, basename(sdist)), "[report]"))
  expect_error(install_pybayesridge(), "'path' is missing: give the path of the repository's folder")
  expect_error(install_pybayesridge("pbr"), "is not the Python package pybayesridge")
  expect_error(install_pybayesridge("other-1.0.whl"), "is not the Python package pybayesridge")
  for (name in c("pybayesridge", "pybayesridge[report]", "pybayesridge==0.1", "git+https://example.org/x", "numpy")) {
    expect_error(install_pybayesridge(name), "there is no file or folder.*not asked of any registry")
  }
  expect_error(install_pybayesridge(c("source", "source")), "'path' must be one path")
  expect_error(install_pybayesridge("~/no such folder of ours"), path.expand("~/no such folder of ours"), fixed = TRUE)
})

test_that("a home folder is where ~ is", {
  home <- tempfile()
  dir.create(file.path(home, "src"), recursive = TRUE)
  on.exit(unlink(home, recursive = TRUE))
  writeLines("name = 'pybayesridge'", file.path(home, "src", "pyproject.toml"))
  out <- run_r("cat(pybayesridge:::python_package('~/src', FALSE))", paste0("HOME=", home))
  expect_identical(out[length(out)], file.path(normalizePath(home), "src"))
})

test_that("nothing is downloaded where no Python has the package", {
  home <- tempfile()
  dir.create(home)
  on.exit(unlink(home, recursive = TRUE))
  code <- c(
    "library(pybayesridge)",
    "cat('asked:', pybayesridge:::required_packages(), '\\n')",
    "cat('managed:', pybayesridge:::without_downloads(Sys.getenv('RETICULATE_USE_MANAGED_VENV')), '\\n')",
    "cat('after:', Sys.getenv('RETICULATE_USE_MANAGED_VENV'), '\\n')"
  )
  own <- c(paste0("HOME=", home), "RETICULATE_PYTHON=", "PATH=/usr/bin:/bin")
  expect_identical(utils::tail(run_r(code, own), 3), c("asked:  ", "managed: no ", "after:  "))
  expect_identical(utils::tail(run_r(code, c(own, "RETICULATE_USE_MANAGED_VENV=yes")), 2), c("managed: yes ", "after: yes "))
  code <- c("library(pybayesridge)", "cat(isTRUE(pybayesridge_available()), attr(pybayesridge_available(), 'reason'))")
  out <- paste(run_r(code, c(own, "UV_OFFLINE=1")), collapse = " ")
  expect_match(out, "FALSE .*install_pybayesridge\\(\"path/of/the/repository\"\\)")
})

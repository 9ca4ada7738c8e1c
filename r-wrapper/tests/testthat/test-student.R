# Student-t noise, against Python and integrals.

outlying_data <- function() {
  set.seed(5)
  d <- data.frame(x = rnorm(30), g = rep(c("a", "b"), 15), w = rep(c(1, 1, 2), 10))
  d$y <- d$x + rt(30, 3)
  d$y[7] <- 12
  d
}

outlying_fit <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) kept <<- bayes_ridge(y ~ x + g, outlying_data(), family = "student-t")
    kept
  }
})

# As quantiles of mixtures, of which one or the other language takes a Newton step more.
quantiles_of_scales <- 1e-8

# Of the trapezoidal rule, and of pieces of stats::integrate().
integrals <- 1e-8

# Densities of rows with their own response, where R lacks nodes of a weight below 1e-7.
light_nodes <- 3e-4

# Of the same fit to columns in another order of operations: nodes are elsewhere, and the sums over them differ as their estimated error.
nodes_elsewhere <- 1e-2

test_that("numbers are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new, df, weights, file):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = pd.DataFrame(d), pd.DataFrame(new)
    res = BayesRidge.from_formula('y ~ x + g', d, family='student-t', df=df, weights=weights).fit()
    res.save(file)
    loo = res.loo()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()), hyper=res.hyperparameters(0.1).to_numpy(),
        mean=res.get_prediction(new).summary_frame(0.1).filter(regex='^mean').to_numpy(), loo=np.asarray(loo.pointwise), p=loo.p_loo,
        pearson=np.asarray(res.resid_pearson), deviance=np.asarray(res.resid_deviance), marginal=res.log_marginal,
    )
", local = TRUE)$reference
  d <- outlying_data()
  fits <- list(
    list(outlying_fit(), NULL, NULL), list(bayes_ridge(y ~ x + g, d, family = "student-t", weights = w, df = 4), 4, "w"),
    list(bayes_ridge(y ~ x + g, d, family = "student-t", df = Inf), Inf, NULL)
  )
  for (each in fits) {
    file <- tempfile(fileext = ".fit")
    ref <- reference(as.list(d), as.list(d[1:4, ]), each[[2]], each[[3]], file)
    fit <- read_fit(file)
    # The fit of R has nodes of its own.
    expect_lt(max(abs(coef(each[[1]]) - ref$coef) / each[[1]]$bse), nodes_elsewhere)
    expect_lt(max(abs(confint(each[[1]], level = 0.9) - ref$ci) / each[[1]]$bse), nodes_elsewhere)
    expect_close(coef(fit), ref$coef)
    expect_close(confint(fit, level = 0.9), ref$ci, quantiles_of_scales)
    expect_close(vcov(fit), ref$cov)
    expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, quantiles_of_scales)
    expect_close(c(logLik(fit)), ref$marginal)
    for (type in c("response", "link")) {
      found <- predict(fit, d[1:4, ], type = type, interval = "credible", level = 0.9, se.fit = TRUE)
      expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), ref$mean, quantiles_of_scales)
    }
    copies <- fit$weights %||% rep(1, 30)
    expect_close(residuals(fit, "pearson"), sqrt(copies) * ref$pearson)
    expect_close(residuals(fit, "deviance"), sqrt(copies) * ref$deviance)
    if (!requireNamespace("loo", quietly = TRUE)) next
    found <- loo::loo(fit)
    # R has a row for every copy, of which Python has the sums.
    expect_close(found$pointwise[, 1], rep(ref$loo / copies, copies))
    expect_close(found$estimates["p_loo", 1], ref$p, light_nodes)
  }
})

test_that("densities of responses are integrals", {
  y <- c(-0.4, 3, 40)
  center <- matrix(c(-1, 0.5, 3, 0, 1, 4, 0, 0, 0, 2, 2, 2), 3)
  spread <- matrix(c(0.5, 0.1, 0.01, 2, 30, 0.2, 1, 1, 1, 1e-4, 0.1, 9), 3)
  noise <- list(sigma = c(0.3, 1, 2, 0.01), df = c(2, 3, Inf, 20))
  found <- log_means_of_student(center, spread, y, noise)
  for (i in 1:3) {
    for (k in 1:4) {
      if (is.infinite(noise$df[k])) next
      value <- function(eta) {
        stats::dt((y[i] - eta) / noise$sigma[k], noise$df[k], log = TRUE) - log(noise$sigma[k]) + stats::dnorm(eta, center[i, k], sqrt(spread[i, k]), log = TRUE)
      }
      # In units of the predictor about its mean, and of the noise about the response.
      ends <- sort(c(center[i, k] + sqrt(spread[i, k]) * c(-20:20), y[i] + noise$sigma[k] * c(-50, -10:10, 50)))
      top <- max(value(ends))
      parts <- vapply(seq_along(ends)[-1], function(j) {
        stats::integrate(function(eta) exp(value(eta) - top), ends[j - 1], ends[j], rel.tol = 1e-10, stop.on.error = FALSE)$value
      }, 0)
      expect_close(found[i, k], log(sum(parts)) + top, integrals)
    }
  }
  expect_close(found[, 3], stats::dnorm(y, center[, 3], sqrt(spread[, 3] + 4), log = TRUE))
})

test_that("quantiles of degrees of freedom are those of their probabilities", {
  expect_identical(moments_of_values(c(Inf, 4, 2), c(0.1, 0.3, 0.6), c(0.5, 0.6, 0.7, 0.95)), c(Inf, 2, 2, 4, Inf))
  expect_identical(moments_of_values(c(Inf, 4, 2), c(0, 0.5, 0.5), 0.025), c(3, 2))
})

test_that("a fit works in a session without Python", {
  skip_without_python()
  fit <- outlying_fit()
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); p <- predict(f, data.frame(x = 1, g = 'a'), interval = 'credible'); h <- hyperparameters(f); stopifnot(all(is.finite(c(p, unlist(h['sigma', ]), confint(f), simulate(f, 2, seed = 1)[[1]], posterior_sample(f, 3))))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(fit)), "Student-t noise")
})

test_that("draws and replicated responses have the noise", {
  skip_without_python()
  fit <- outlying_fit()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  expect_setequal(setdiff(colnames(draws), names(coef(fit))), c("tau2", "sigma", "df"))
  expect_lt(abs(median(draws[, "sigma"]) / hyperparameters(fit)["sigma", "median"] - 1), 0.1)
  # A row's probability of being below a value, of draws and by the draws' densities: in Monte Carlo errors.
  replicated <- as.matrix(simulate(fit, 4000, seed = 2))
  linear <- draws[, names(coef(fit))] %*% model.matrix(fit)[3, ]
  for (at in c(-4, 0, 1)) {
    expected <- mean(stats::pt((at - linear) / draws[, "sigma"], draws[, "df"]))
    expect_lt(abs(mean(replicated[3, ] < at) - expected), 4.5 * sqrt(2 * expected * (1 - expected) / 4000))
  }
  share <- explained_variance(fit)
  expect_true(share$lower < share$mean && share$mean < share$upper)
})

test_that("other functions and files know the family", {
  skip_without_python()
  fit <- outlying_fit()
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_lt(max(abs(coef(again) - coef(fit)) / fit$bse), nodes_elsewhere)
  expect_lt(max(abs(hyperparameters(again)["sigma", ] / hyperparameters(fit)["sigma", ] - 1)), nodes_elsewhere)
  expect_identical(rownames(ppc(fit, c("max", "sd"), draws = 200)), c("max", "sd"))
  expect_close(effects(fit)$mean[1], coef(fit)[["x"]], nodes_elsewhere)
  expect_identical(family(fit)$link, "identity")
  if (requireNamespace("insight", quietly = TRUE)) expect_true(insight::model_info(fit)$is_linear)
  skip_if_not_installed("generics")
  expect_true(is.finite(generics::glance(fit)$loo_absolute_error))
  expect_identical(names(generics::augment(fit, interval = "credible"))[4:7], c(".fitted", ".lower", ".upper", ".resid"))
  expect_close(generics::tidy(fit)$estimate, coef(fit))
})

test_that("what is not there says so", {
  skip_without_python()
  fit <- outlying_fit()
  d <- outlying_data()
  robust <- function(...) bayes_ridge(..., family = "student-t")
  expect_error(sigma(fit), "hyperparameters\\(\\) returns the scale and the degrees of freedom")
  expect_error(pit(fit), "ppc\\(\\) checks responses with Student-t noise")
  expect_error(generics::tidy(fit, exponentiate = TRUE), "coefficients are on the scale of the response")
  expect_error(odds_ratios(fit), "is for fits with family = binomial\\(\\)")
  expect_error(robust(y ~ x, d, df = 1), "df must be above 1")
  expect_error(robust(y ~ x, d, df = "a"), "'df' must be a number")
  expect_error(bayes_ridge(y ~ x, d, df = 3), "'df' is for family = \"student-t\"")
  expect_error(robust(y ~ x, d, sigma2 = 1), "'sigma2' is for family = gaussian\\(\\)")
  expect_error(robust(y ~ x, d, flat_in = "link"), "'flat_in' is for family")
  expect_error(robust(y ~ x, d, method = "em"), "use 'ep' or 'laplace'")
  expect_error(robust(y ~ x + offset(w), d), "an offset is not supported")
  expect_error(robust(cbind(y, x) ~ g, d), "takes one response, not 2")
  expect_error(spike_slab(y ~ x, d, family = "student-t"), "'family' must be")
})

# Negative binomial counts, against Python and MASS.

overdispersed_data <- function() {
  set.seed(6)
  d <- data.frame(x = rnorm(40), g = rep(c("a", "b"), 20), t = rep(c(1, 2, 5, 10), 10))
  d$n <- rnbinom(40, size = 2, mu = d$t * exp(0.5 * d$x))
  d
}

overdispersed_fit <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) kept <<- bayes_ridge(n ~ x + g + offset(log(t)), overdispersed_data(), family = "negative-binomial")
    kept
  }
})

# R's exposures are exponentials of logarithms, so that iterations stop elsewhere in the last digits.
stopped <- 1e-7

# Means of likelihoods are by another rule than Python's.
by_another_rule <- 1e-6

# Of selections, whose lattices end where differences of the last digits may decide.
selected <- 1e-3

test_that("numbers are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new, dispersion):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = pd.DataFrame(d), pd.DataFrame(new)
    res = BayesRidge.from_formula('n ~ x + g', d, family='negative-binomial', exposure='t', dispersion=dispersion).fit()
    loo = res.loo()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        hyper=res.hyperparameters(0.1).to_numpy(), mean=res.get_prediction(new, exposure='t').summary_frame(0.1).filter(regex='^mean').to_numpy(),
        linear=res.get_prediction(new, which='linear', exposure='t').summary_frame(0.1).to_numpy(), loo=np.asarray(loo.pointwise), p=loo.p_loo,
        pearson=np.asarray(res.resid_pearson), deviance=np.asarray(res.resid_deviance), ratios=res.rate_ratios(0.1).to_numpy(),
    )
", local = TRUE)$reference
  d <- overdispersed_data()
  given <- bayes_ridge(n ~ x + g + offset(log(t)), d, family = structure(list(family = "Negative Binomial(2)", link = "log", variance = local({
    .Theta <- 2
    function(mu) mu + mu^2 / .Theta
  })), class = "family"))
  for (fit in list(overdispersed_fit(), given)) {
    ref <- reference(as.list(d), as.list(d[1:4, ]), if (identical(fit, given)) 0.5)
    expect_close(coef(fit), ref$coef, stopped)
    expect_close(confint(fit, level = 0.9), ref$ci, stopped)
    expect_close(vcov(fit), ref$cov, stopped)
    expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, stopped)
    for (type in c("response", "link")) {
      found <- predict(fit, d[1:4, ], type = type, interval = "credible", level = 0.9, se.fit = TRUE)
      expected <- ref[[if (type == "link") "linear" else "mean"]]
      expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), expected, stopped)
    }
    expect_close(residuals(fit, "pearson"), ref$pearson, stopped)
    expect_close(residuals(fit, "deviance"), ref$deviance, stopped)
    expect_close(as.matrix(rate_ratios(fit, 0.9)), ref$ratios, stopped)
    if (!requireNamespace("loo", quietly = TRUE)) next
    found <- loo::loo(fit)
    expect_close(found$pointwise[, 1], ref$loo, stopped)
    expect_close(found$estimates["p_loo", 1], ref$p, by_another_rule)
  }
})

test_that("probabilities of counts are integrals", {
  y <- c(0, 3, 50)
  each <- list(where = matrix(c(-1, 0.5, 3, 0, 1, 4), 3), scale2 = matrix(c(0.5, 0.1, 0.01, 2, 0.3, 0.2), 3))
  alpha <- c(0.3, 1e-4)
  found <- log_means_of_overdispersed(each$where, each$scale2, y, 2, alpha)
  expected <- found
  for (i in 1:3) {
    for (k in 1:2) {
      at <- function(eta) stats::dnbinom(y[i], size = 1 / alpha[k], mu = 2 * exp(eta)) * stats::dnorm(eta, each$where[i, k], sqrt(each$scale2[i, k]))
      ends <- each$where[i, k] + c(-9, 9) * sqrt(each$scale2[i, k])
      expected[i, k] <- log(stats::integrate(at, ends[1], ends[2], rel.tol = 1e-10)$value)
    }
  }
  expect_close(found, expected, 1e-7)
})

test_that("families are those of MASS", {
  skip_without_python()
  skip_if_not_installed("MASS")
  d <- overdispersed_data()
  fit <- bayes_ridge(n ~ x + g, d, family = MASS::negative.binomial(4), exposure = t, unpenalized = "x", method = "fixed", lam = 1e-4)
  expect_identical(fit$dispersion, 0.25)
  theirs <- stats::glm(n ~ x + g + offset(log(t)), data = d, family = MASS::negative.binomial(4))
  # Posterior means and the mode, in standard errors.
  expect_lt(max(abs(coef(fit) - coef(theirs)) / sqrt(diag(vcov(theirs)) / summary(theirs)$dispersion)), 0.2)
  own <- family(fit)
  expect_close(own$dev.resids(d$n, fitted(fit), 1), MASS::negative.binomial(4)$dev.resids(d$n, fitted(fit), 1))
  expect_close(own$variance(2), MASS::negative.binomial(4)$variance(2))
  expect_error(bayes_ridge(n ~ x, d, family = MASS::negative.binomial(2, link = "sqrt")), "'family' must be .*\"negative-binomial\"")
})

test_that("a fit works in a session without Python", {
  skip_without_python()
  fit <- overdispersed_fit()
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); n <- data.frame(x = 1, g = 'a', t = 2); p <- predict(f, n, interval = 'credible'); h <- hyperparameters(f); stopifnot(all(is.finite(c(p, h$upper, confint(f), simulate(f, 2, seed = 1)[[1]])))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(fit)), "negative binomial family, log link")
})

test_that("draws and replicated counts have the dispersion", {
  skip_without_python()
  fit <- overdispersed_fit()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  alpha <- hyperparameters(fit)["alpha", ]
  expect_lt(abs(median(draws[, "alpha"]) / alpha$median - 1), 0.1)
  counts <- as.matrix(simulate(fit, 4000, seed = 2))
  mean <- fitted(fit)
  # Of the row with the smallest mean, whose linear predictor is nearly known: in Monte Carlo errors.
  row <- which.min(mean)
  expected <- mean(stats::dnbinom(0, size = 1 / draws[, "alpha"], mu = exp(draws[, c("(Intercept)", "x", "gb")] %*% model.matrix(fit)[row, ]) * overdispersed_data()$t[row]))
  expect_lt(abs(mean(counts[row, ] == 0) - expected), 4.5 * sqrt(2 * expected * (1 - expected) / 4000))
  share <- explained_variance(fit)
  expect_true(share$lower < share$mean && share$mean < share$upper)
})

test_that("questions, files and refusals know the family", {
  skip_without_python()
  fit <- overdispersed_fit()
  expect_identical(rownames(ppc(fit, c("zeros", "sd"), draws = 200)), c("zeros", "sd"))
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(coef(again), coef(fit))
  expect_close(as.matrix(hyperparameters(again)), as.matrix(hyperparameters(fit)))
  d <- overdispersed_data()
  expect_error(bayes_ridge(n - 1 ~ x, d, family = "negative-binomial"), "family = \"negative-binomial\" takes counts")
  expect_error(bayes_ridge(n ~ x, d, family = "negative-binomial", sigma2 = 1), "'sigma2' is for family = gaussian\\(\\)")
  expect_error(bayes_ridge(n ~ x, d, exposure = t), "for family = poisson\\(\\) or \"negative-binomial\"")
})

test_that("selections are those of Python, with the dispersion integrated out or given", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, dispersion):
    import numpy as np, pandas as pd
    from pybayesridge import SpikeSlab
    res = SpikeSlab.from_formula('n ~ x + g', pd.DataFrame(d), family='negative-binomial', exposure='t', dispersion=dispersion).fit()
    loo = res.loo()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), prob=np.asarray(res.inclusion_prob), evidence=res.log_evidence,
        hyper=res.hyperparameters(0.1).to_numpy() if dispersion is None else None, loo=np.asarray(loo.pointwise), p=loo.p_loo,
        ratios=res.rate_ratios(0.1).to_numpy(),
    )
", local = TRUE)$reference
  d <- overdispersed_data()
  fits <- list(
    spike_slab(n ~ x + g + offset(log(t)), d, family = "negative-binomial"),
    spike_slab(n ~ x + g, d, family = "negative-binomial", exposure = t, dispersion = 0.5)
  )
  for (fit in fits) {
    ref <- reference(as.list(d), fit$settings$model$dispersion)
    expect_close(coef(fit), ref$coef, selected)
    expect_close(confint(fit, level = 0.9), ref$ci, selected)
    expect_close(inclusion_prob(fit), ref$prob, selected)
    expect_close(fit$log_evidence, ref$evidence, selected)
    expect_close(as.matrix(rate_ratios(fit, 0.9)), ref$ratios, selected)
    if (!is.null(ref$hyper)) expect_close(as.matrix(hyperparameters(fit, 0.9))[, c("mean", "lower", "upper")], ref$hyper[1, ], selected)
    if (!requireNamespace("loo", quietly = TRUE)) next
    found <- loo::loo(fit)
    expect_close(found$pointwise[, 1], ref$loo, selected)
    expect_close(found$estimates["p_loo", 1], ref$p, selected)
  }
  expect_output(print(summary(fits[[1]])), "negative binomial family, log link")
  expect_identical(fits[[1]]$learned, c("prior_inclusion", "slab_var", "alpha"))
  expect_true("alpha" %in% colnames(posterior_sample(fits[[1]], 10, hyper = TRUE)))
  expect_identical(dim(simulate(fits[[1]], 2, seed = 1)), c(40L, 2L))
  expect_error(hyperparameters(fits[[2]]), "is for fits of bayes_ridge\\(\\), and of spike_slab\\(\\) with method = \"exact\"")
  poisson <- spike_slab(n ~ x + g, d, family = poisson(), exposure = t)
  expect_identical(rownames(compare_evidence(poisson = poisson, overdispersed = fits[[1]]))[1], "overdispersed")
})

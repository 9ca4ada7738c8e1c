# Beta-binomial shares, against Python and integrals.

share_data <- function() {
  set.seed(8)
  d <- data.frame(x = rnorm(25), g = factor(rep(1:5, 5)), w = rep(c(1, 2, 1, 1, 1), 5), m = rep(c(4, 12, 1, 30, 7), 5))
  share <- plogis(0.8 * d$x - 0.3)
  d$y <- rbinom(25, d$m, rbeta(25, 4 * share, 4 * (1 - share)))
  d
}

share_fit <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) {
      kept <<- bayes_ridge(cbind(y, m - y) ~ x + I(x^2), share_data(), family = "beta-binomial", method = "laplace", weights = w)
    }
    kept
  }
})

# Means of likelihoods are by another rule than Python's, and without nodes of a weight below 1e-7.
by_other_nodes <- 1e-4

# Of the same fit to columns in another order of operations, in posterior standard deviations.
where_iterations_stop <- 1e-2

# The quadrature of means of logistic curves, and quantiles of which one language takes a Newton step more.
other_quadrature <- 1e-7

test_that("numbers are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new, dispersion, file):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = pd.DataFrame(d), pd.DataFrame(new)
    model = BayesRidge.from_formula('y ~ x + I(x**2)', d, family='beta-binomial', trials='m', weights='w', dispersion=dispersion)
    res = model.fit('laplace')
    res.save(file)
    loo = res.loo()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()), hyper=res.hyperparameters(0.1).to_numpy(),
        mean=res.get_prediction(new).summary_frame(0.1).to_numpy(), linear=res.get_prediction(new, which='linear').summary_frame(0.1).to_numpy(),
        loo=np.asarray(loo.pointwise), p=loo.p_loo, pearson=np.asarray(res.resid_pearson), deviance=np.asarray(res.resid_deviance),
        marginal=res.log_marginal, ratios=res.odds_ratios(0.1).to_numpy(),
    )
", local = TRUE)$reference
  d <- share_data()
  for (dispersion in list(NULL, 0.2)) {
    file <- tempfile(fileext = ".fit")
    ref <- reference(as.list(d), as.list(d[1:4, ]), dispersion, file)
    fit <- read_fit(file)
    if (is.null(dispersion)) {
      # The fit of R has nodes of its own.
      expect_lt(max(abs(coef(share_fit()) - ref$coef) / share_fit()$bse), where_iterations_stop)
      expect_lt(max(abs(confint(share_fit(), level = 0.9) - ref$ci) / share_fit()$bse), where_iterations_stop)
    }
    expect_close(coef(fit), ref$coef)
    expect_close(confint(fit, level = 0.9), ref$ci, other_quadrature)
    expect_close(vcov(fit), ref$cov)
    expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, other_quadrature)
    expect_close(c(logLik(fit)), ref$marginal)
    new <- cbind(1, d$x, d$x^2)[1:4, -1]
    for (type in c("response", "link")) {
      found <- predict(fit, new, type = type, interval = "credible", level = 0.9, se.fit = TRUE)
      expected <- ref[[if (type == "link") "linear" else "mean"]]
      expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), expected, other_quadrature)
    }
    expect_close(residuals(fit, "pearson"), sqrt(d$w) * ref$pearson)
    expect_close(residuals(fit, "deviance"), sqrt(d$w) * ref$deviance, other_quadrature)
    expect_close(as.matrix(odds_ratios(fit, 0.9)), ref$ratios, other_quadrature)
    if (!requireNamespace("loo", quietly = TRUE)) next
    found <- loo::loo(fit)
    # R has a row for every copy, of which Python has the sums.
    expect_close(found$pointwise[, 1], rep(ref$loo / d$w, d$w))
    expect_close(found$estimates["p_loo", 1], ref$p, by_other_nodes)
  }
})

# Of the trapezoidal rule, and of pieces of stats::integrate().
integrals <- 1e-8

test_that("probabilities of successes are integrals", {
  y <- c(0, 3, 50, 1, 400)
  f <- c(4, 0, 70, 0, 3)
  center <- matrix(c(-1, 0.5, 3, 0, 1, 4, 8, -12, 1, -6), 5)
  spread <- matrix(c(0.5, 0.1, 0.01, 4, 2, 3, 0.3, 20, 1, 0.2), 5)
  for (alpha in list(c(0.3, 1e-6), c(5, 1e-2), c(1e-9, 1e-3))) {
    found <- log_means_of_shares(center, spread, y, f, alpha)
    for (i in seq_along(y)) {
      for (k in 1:2) {
        s <- 1 / alpha[k]
        value <- function(eta) {
          a <- plogis(eta) * s
          b <- plogis(-eta) * s
          # As sums, whose digits do not depend on s.
          up <- vapply(a, function(at) sum(log(at + seq_len(y[i]) - 1)), 0)
          down <- vapply(b, function(at) sum(log(at + seq_len(f[i]) - 1)), 0)
          up + down - sum(log(s + seq_len(y[i] + f[i]) - 1)) + dnorm(eta, center[i, k], sqrt(spread[i, k]), log = TRUE)
        }
        sd <- sqrt(spread[i, k])
        ends <- center[i, k] + sd * seq(-60, 60, by = 0.5)
        top <- max(value(ends))
        near <- range(which(value(ends) > top - 45)) + c(-1, 1)
        ends <- ends[max(near[1], 1):min(near[2], length(ends))]
        parts <- vapply(seq_along(ends)[-1], function(j) {
          integrate(function(eta) exp(value(eta) - top), ends[j - 1], ends[j], rel.tol = 1e-10, stop.on.error = FALSE)$value
        }, 0)
        expect_close(found[i, k], log(sum(parts)) + top, integrals)
      }
    }
  }
})

test_that("a fit works in a session without Python", {
  skip_without_python()
  fit <- share_fit()
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); p <- predict(f, data.frame(x = 1), interval = 'credible'); h <- hyperparameters(f); stopifnot(all(is.finite(c(p, h$upper, confint(f), simulate(f, 2, seed = 1)[[1]])))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(fit)), "beta-binomial family, logit link")
})

test_that("draws and replicated successes have the dispersion", {
  skip_without_python()
  fit <- share_fit()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  expect_lt(abs(median(draws[, "alpha"]) / hyperparameters(fit)["alpha", "median"] - 1), 0.1)
  counts <- as.matrix(simulate(fit, 4000, seed = 2))
  row <- 4L
  trials <- share_data()$m[row]
  share <- plogis(draws[, names(coef(fit))] %*% model.matrix(fit)[row, ])
  s <- 1 / draws[, "alpha"]
  for (y in c(0, 5, trials)) {
    expected <- mean(exp(lchoose(trials, y) + lbeta(share * s + y, (1 - share) * s + trials - y) - lbeta(share * s, (1 - share) * s)))
    # In Monte Carlo errors.
    expect_lt(abs(mean(counts[row, ] == y) - expected), 4.5 * sqrt(2 * expected * (1 - expected) / 4000) + 1e-3)
  }
  share <- explained_variance(fit)
  expect_true(share$lower < share$mean && share$mean < share$upper)
})

test_that("other functions and files know the family", {
  skip_without_python()
  fit <- share_fit()
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_lt(max(abs(coef(again) - coef(fit)) / fit$bse), where_iterations_stop)
  expect_identical(again$trials, fit$trials)
  expect_identical(rownames(ppc(fit, "sd", draws = 200)), "sd")
  expect_true(all(is.finite(effects(fit)$mean)))
  own <- family(fit)
  expect_identical(own$link, "logit")
  # With next to no dispersion the deviance is that of binomial counts.
  expect_close(beta_binomial_object(1e-9)$dev.resids(c(0.2, 1), c(0.3, 0.9), c(10, 5)), stats::binomial()$dev.resids(c(0.2, 1), c(0.3, 0.9), c(10, 5)), 1e-6)
  if (requireNamespace("insight", quietly = TRUE)) expect_true(insight::model_info(fit)$is_binomial)
  skip_if_not_installed("generics")
  expect_true(is.finite(generics::glance(fit)$loo_auc))
  expect_identical(names(generics::augment(fit, interval = "credible"))[5:7], c(".fitted", ".lower", ".upper"))
  expect_close(generics::tidy(fit, exponentiate = TRUE)$estimate, exp(coef(fit)))
})

test_that("what is not there says so", {
  skip_without_python()
  d <- share_data()
  d$yes <- as.numeric(d$y > 2)
  shares <- function(...) bayes_ridge(..., family = "beta-binomial", method = "laplace")
  expect_error(pit(shares(cbind(y, m - y) ~ x, d)), "checks shares of trials")
  expect_error(shares(yes ~ x, d), "takes cbind\\(successes, failures\\): single yes/no responses")
  expect_error(shares(cbind(yes, 1 - yes) ~ x, d), "all rows have one trial")
  expect_error(shares(cbind(y, m - y) ~ x, d, dispersion = -1), "dispersion")
  expect_error(predict(share_fit(), d, interval = "prediction"), "give 'trials', a number or the name of a variable")
  expect_error(bayes_ridge(y ~ x, d, dispersion = 1), "'dispersion' is for family = \"negative-binomial\" or \"beta-binomial\"")
  expect_error(spike_slab(cbind(y, m - y) ~ x, d, family = "beta-binomial"), "'family' must be")
  if (requireNamespace("MASS", quietly = TRUE)) {
    expect_error(bayes_ridge(y ~ x, d, family = MASS::negative.binomial(2), dispersion = 1), "give the dispersion once")
  }
  counted <- bayes_ridge(y ~ x, d, family = "negative-binomial", dispersion = 0.5, method = "fixed", lam = 1)
  expect_identical(counted$dispersion, 0.5)
})

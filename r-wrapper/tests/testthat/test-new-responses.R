# Prediction intervals of new counts, and of new responses with Student-t noise, against Python, R's distributions and draws.

# Of the search, in scales of the noise.
found_by_search <- 1e-4

# Five standard errors of a share of 5 % of 40,000 draws.
by_draws <- 0.0055

some_counts <- function() {
  set.seed(11)
  d <- data.frame(a = rnorm(64), t = runif(64, 0.5, 3), g = factor(rep(1:8, 8)))
  d$k <- rpois(64, d$t * exp(0.5 + 0.6 * d$a) * rgamma(64, 2, 2))
  d$y <- d$a + 0.3 * rt(64, 3)
  d
}

new_rows_of_counts <- data.frame(a = c(-1, 0, 2, NA), t = c(1, 10, 300, 1), g = factor(c(1, 2, 9, 1), levels = 1:9))

test_that("the search finds quantiles of R's distributions", {
  of <- function(up_to) {
    list(where = matrix(log(c(0.01, 3, 5e4)), 3L), scale = matrix(0, 3L, 1L), weight = 1, whole = TRUE, up_to = up_to,
      around = function(eta) cbind(-1, 2 * exp(eta) + 10))
  }
  poisson <- of(function(y, eta) matrix(ppois(y, exp(eta)), nrow(eta)))
  overdispersed <- of(function(y, eta) matrix(pnbinom(y, size = 2, mu = exp(eta)), nrow(eta)))
  for (p in c(0.005, 0.5, 0.975)) {
    expect_identical(quantiles_of_new(list(poisson), p), qpois(p, c(0.01, 3, 5e4)))
    expect_identical(quantiles_of_new(list(overdispersed), p), qnbinom(p, size = 2, mu = c(0.01, 3, 5e4)))
  }
  poisson$where <- matrix(c(-800, 60, 800), 3L)
  expect_identical(quantiles_of_new(list(poisson), 0.5), c(0, Inf, Inf))
})

test_that("intervals are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new, formula, family, selection):
    import pandas as pd
    from pybayesridge import BayesRidge, SpikeSlab
    d, new = pd.DataFrame(d), pd.DataFrame(new)
    own = {} if family == 'student-t' else {'exposure': 't'}
    res = (SpikeSlab if selection else BayesRidge).from_formula(formula, d, family=family, **own).fit()
    return res.get_prediction(new, **own).conf_int(alpha=0.1, obs=True)
")$reference
  d <- some_counts()
  new <- new_rows_of_counts[1:3, ]
  counts <- function(...) bayes_ridge(..., data = d, exposure = d$t)
  each <- list(
    list(counts(k ~ a, family = poisson()), "k ~ a", "poisson", FALSE),
    list(counts(k ~ a, family = "negative-binomial"), "k ~ a", "negative-binomial", FALSE),
    list(counts(k ~ a + (1 | g), family = poisson()), "k ~ a + (1 | g)", "poisson", FALSE),
    list(spike_slab(k ~ a, d, family = poisson(), exposure = d$t), "k ~ a", "poisson", TRUE),
    list(bayes_ridge(y ~ a, d, family = "student-t"), "y ~ a", "student-t", FALSE)
  )
  for (one in each) {
    python <- unname(reference(d, new, one[[2L]], one[[3L]], one[[4L]]))
    exposure <- if (one[[3L]] != "student-t") "t"
    ours <- unname(predict(one[[1L]], new, interval = "prediction", level = 0.9, exposure = exposure)[, c("lwr", "upr")])
    if (is.null(exposure)) expect_lt(max(abs(ours - python)), found_by_search) else expect_equal(ours, python, tolerance = 1e-3)
  }
})

test_that("intervals are those of draws, also of pooled fits and of augment()", {
  skip_without_python()
  d <- some_counts()
  fit <- bayes_ridge(k ~ a, d, family = "negative-binomial", exposure = d$t)
  ours <- predict(fit, interval = "prediction", level = 0.9)
  drawn <- as.matrix(simulate(fit, 40000, seed = 1))
  expect_true(all(rowMeans(drawn <= ours[, "lwr"]) > 0.05 - by_draws & rowMeans(drawn < ours[, "lwr"]) < 0.05 + by_draws))
  expect_true(all(rowMeans(drawn <= ours[, "upr"]) > 0.95 - by_draws & rowMeans(drawn < ours[, "upr"]) < 0.95 + by_draws))
  missing <- predict(fit, new_rows_of_counts, interval = "prediction")
  expect_true(all(is.na(missing[4L, ])) && !anyNA(missing[1:3, ]))
  if (requireNamespace("generics", quietly = TRUE)) {
    expect_equal(generics::augment(fit, interval = "prediction", conf.level = 0.9)$.upper, unname(ours[, "upr"]))
  }
  both <- fit_imputed(list(d, d), function(data) bayes_ridge(k ~ a, data, family = "negative-binomial", exposure = data$t))
  expect_equal(predict(both, new_rows_of_counts, interval = "prediction"), missing)
})

test_that("no new yes/no response has an interval", {
  skip_without_python()
  fit <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  expect_error(predict(fit, interval = "prediction"), "one of two values and has no interval")
})

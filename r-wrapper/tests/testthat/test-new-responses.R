# Prediction intervals of new counts, of new numbers of successes, and of new responses with Student-t noise, against Python, R's
# distributions and draws.

# Of the search, in scales of the noise.
found_by_search <- 1e-4

# Of a distribution function that is known, relative to a quantile or absolute.
of_search <- 1e-9

# Of the beta-binomial distribution function, as in Python.
of_sums <- 1e-10
of_integrals <- 1e-5

# Five standard errors of a share of 5 % of 40,000 draws.
by_draws <- 0.0055

some_counts <- function() {
  set.seed(11)
  d <- data.frame(a = rnorm(64), t = runif(64, 0.5, 3), g = factor(rep(1:8, 8)))
  d$k <- rpois(64, d$t * exp(0.5 + 0.6 * d$a) * rgamma(64, 2, 2))
  d$y <- d$a + 0.3 * rt(64, 3)
  d$m <- rep(c(1, 5, 12, 30), 16)
  share <- plogis(0.3 + 0.8 * d$a)
  d$s <- rbinom(64, d$m, rbeta(64, 5 * share, 5 - 5 * share))
  d
}

new_rows_of_counts <- data.frame(a = c(-1, 0, 2, NA), t = c(1, 10, 300, 1), g = factor(c(1, 2, 9, 1), levels = 1:9))

test_that("the search finds quantiles of R's distributions", {
  of <- function(up_to) {
    list(where = matrix(log(c(0.01, 3, 5e4)), 3L), scale = matrix(0, 3L, 1L), weight = 1, whole = TRUE, up_to = up_to,
      around = function(eta, extent) cbind(-1, 2 * exp(eta) + 10))
  }
  poisson <- of(function(y, eta, extent) matrix(ppois(y, exp(eta)), nrow(eta)))
  overdispersed <- of(function(y, eta, extent) matrix(pnbinom(y, size = 2, mu = exp(eta)), nrow(eta)))
  for (p in c(0.005, 0.5, 0.975)) {
    expect_identical(quantiles_of_new(list(poisson), p), qpois(p, c(0.01, 3, 5e4)))
    expect_identical(quantiles_of_new(list(overdispersed), p), qnbinom(p, size = 2, mu = c(0.01, 3, 5e4)))
  }
  poisson$where <- matrix(c(-800, 60, 800), 3L)
  expect_identical(quantiles_of_new(list(poisson), 0.5), c(0, Inf, Inf))
})

test_that("the search finds quantiles of t distributions, however far out", {
  law <- function(df) {
    list(
      where = matrix(c(-1e6, 0, 3), 3L), scale = matrix(0, 3L, 1L), weight = 1, whole = FALSE,
      up_to = function(y, eta, extent) matrix(pt(y - eta, df), nrow(eta)), around = function(eta, extent) cbind(eta - 10, eta + 10)
    )
  }
  for (df in c(0.5, 3, Inf)) {
    for (p in c(1e-6, 0.3, 0.5, 0.999)) {
      expected <- qt(p, df) + c(-1e6, 0, 3)
      expect_lt(max(abs(quantiles_of_new(list(law(df)), p) - expected) / pmax(abs(expected), 1)), of_search)
    }
  }
})

test_that("the beta-binomial distribution function is the sum of its terms", {
  for (alpha in c(1e-3, 0.3, 20)) {
    for (trials in c(1, 7, few_trials, few_trials + 1, 20000)) {
      mean <- c(1e-4, 0.2, 0.9)
      y <- unique(round(seq(0, trials, length.out = 12)))
      fit <- list(posterior = list(weight = matrix(1)), dispersion = alpha)
      for (m in mean) {
        k <- 0:trials
        shape <- c(m, 1 - m) / alpha
        terms <- exp(lchoose(trials, k) + lbeta(k + shape[1L], trials - k + shape[2L]) - lbeta(shape[1L], shape[2L]))
        found <- shares_up_to(y, rep(qlogis(m), length(y)), rep(trials, length(y)), fit)
        expect_lt(max(abs(found - cumsum(terms)[y + 1])), if (trials <= few_trials) of_sums else of_integrals)
      }
    }
  }
  expect_identical(shares_up_to(c(-1, 3, 4), numeric(3), c(3, 3, 3), fit), c(0, 1, 1))
})

test_that("intervals of successes are those of the binomial distribution where the probability is known", {
  of <- function(trials) {
    list(
      where = matrix(qlogis(0.3), length(trials), 1L), scale = matrix(1e-9, length(trials), 1L), weight = 1, whole = TRUE,
      extent = trials, up_to = successes_given(list(link = "logit"), successes_up_to)$up_to, around = function(eta, extent) cbind(-1, extent)
    )
  }
  trials <- c(1, 7, 100, 5000)
  for (p in c(0.025, 0.5, 0.975)) expect_identical(quantiles_of_new(list(of(trials)), p), qbinom(p, trials, 0.3))
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

test_that("intervals of new successes are those of Python and of draws", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference_of_successes(d, new, formula, family, link, method, selection):
    import pandas as pd
    from pybayesridge import BayesRidge, SpikeSlab
    model = (SpikeSlab if selection else BayesRidge).from_formula(formula, pd.DataFrame(d), family=family, link=link, trials='m')
    return model.fit(method).get_prediction(pd.DataFrame(new), trials=[3, 40, 2500]).conf_int(alpha=0.1, obs=True)
")$reference_of_successes
  d <- some_counts()
  new <- new_rows_of_counts[1:3, ]
  response <- function(right) stats::reformulate(right, quote(cbind(s, m - s)))
  each <- list(
    list(bayes_ridge(response("a"), d, family = binomial()), "a", "binomial", "logit", NULL, FALSE),
    list(bayes_ridge(response("a"), d, family = binomial("probit")), "a", "binomial", "probit", NULL, FALSE),
    list(bayes_ridge(response("a"), d, family = "beta-binomial"), "a", "beta-binomial", "logit", NULL, FALSE),
    list(bayes_ridge(response(c("a", "(1 | g)")), d, family = binomial()), "a + (1 | g)", "binomial", "logit", NULL, FALSE),
    list(spike_slab(response("a"), d, family = binomial()), "a", "binomial", "logit", NULL, TRUE),
    list(spike_slab(response("a"), d, family = binomial(), method = "ep"), "a", "binomial", "logit", "ep", TRUE)
  )
  for (one in each) {
    python <- unname(do.call(reference, c(list(d, new, paste("s ~", one[[2L]])), one[3:6])))
    ours <- unname(predict(one[[1L]], new, interval = "prediction", level = 0.9, trials = c(3, 40, 2500))[, c("lwr", "upr")])
    expect_equal(ours, python, tolerance = 1e-3)
  }
  fit <- each[[3L]][[1L]]
  ours <- predict(fit, interval = "prediction", level = 0.9)
  drawn <- as.matrix(simulate(fit, 40000, seed = 1))
  expect_true(all(rowMeans(drawn <= ours[, "lwr"]) > 0.05 - by_draws & rowMeans(drawn < ours[, "lwr"]) < 0.05 + by_draws))
  expect_true(all(rowMeans(drawn <= ours[, "upr"]) > 0.95 - by_draws & rowMeans(drawn < ours[, "upr"]) < 0.95 + by_draws))
  if (requireNamespace("generics", quietly = TRUE)) {
    expect_equal(generics::augment(fit, interval = "prediction", conf.level = 0.9)$.upper, unname(ours[, "upr"]))
    new_data <- generics::augment(fit, newdata = d, interval = "prediction", conf.level = 0.9)
    expect_equal(new_data$.lower, unname(ours[, "lwr"]))
  }
  named <- predict(fit, d, interval = "prediction", level = 0.9, trials = "m")
  expect_equal(unname(named[, c("lwr", "upr")]), unname(ours[, c("lwr", "upr")]))
  both <- fit_imputed(list(d, d), function(data) bayes_ridge(cbind(s, m - s) ~ a, data, family = "beta-binomial"))
  expect_equal(predict(both, d, interval = "prediction", level = 0.9, trials = "m"), named)
  expect_error(predict(fit, new, interval = "prediction"), "depends on their numbers of trials: give 'trials'")
  expect_error(predict(fit, new, interval = "prediction", trials = 2.5), "must be whole numbers")
  expect_error(predict(fit, new, interval = "prediction", trials = 0), "must be positive")
  expect_error(predict(fit, new, trials = "n"), "not a variable of 'newdata'")
  expect_error(predict(bayes_ridge(k ~ a, d, family = poisson()), new, trials = 3), "'trials' is for fits with family")
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
  several <- bayes_ridge(cbind(gear, carb) ~ wt, mtcars, family = binomial())
  expect_error(predict(several, mtcars[1:2, ], interval = "prediction"), "depends on their numbers of trials: give 'trials'")
  expect_identical(dim(predict(several, mtcars[1:2, ], interval = "prediction", trials = "gear")), c(2L, 3L))
})

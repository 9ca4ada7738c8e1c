# Fits by the exact posterior of sets of columns: what R works out of the kept sets. Numbers against Python's are in
# test-export.R; these are of what a fit does, and of draws.

cars_fit <- function(...) spike_slab(mpg ~ wt + hp + factor(cyl) + qsec, mtcars, method = "exact", ...)

crowd <- function(n = 60, p = 20) {
  set.seed(7)
  x <- matrix(rnorm(n * p), n, dimnames = list(NULL, paste0("v", seq_len(p))))
  x[, 2] <- x[, 1] + 0.05 * x[, 2]
  list(x = x, y = x[, 1] + 0.8 * x[, 5] + rnorm(n))
}

test_that("an exact fit answers like the others", {
  skip_without_python()
  fit <- cars_fit()
  expect_identical(fit$method, "exact")
  expect_true(fit$enumerated)
  expect_true(all(inclusion_se(fit) == 0))
  expect_identical(names(inclusion_se(fit, by = "group")), names(inclusion_prob(fit, by = "group")))
  expect_identical(fit$inclusion_prob[["factor(cyl)6"]], fit$inclusion_prob[["factor(cyl)8"]])
  expect_output(print(fit), "median model")
  expect_output(print(summary(fit)), "Inclusion probabilities of terms")
  expect_output(print(summary(fit, level = 0.9)), "Included columns: mean [0-9.]+, 90 % interval [0-5] to [0-5]")
  expect_output(print(summary(fit, level = 0.9)), "Included groups: mean [0-9.]+, 90 % interval [0-4] to [0-4]")
  sizes <- hyperparameters(fit)[c("size", "groups_included"), "mean"]
  expect_close(sizes, c(fit$expected_size, sum(inclusion_prob(fit, by = "group"))))
  expect_named(hyperparameters(fit), c("mean", "median", "lower", "upper"))
  expect_equal(sum(top_models(fit, 16)$probability), 1)
  expect_close(as.numeric(logLik(fit)), fit$log_evidence)
  expect_error(AIC(fit), "number of parameters")
  expect_s3_class(update(fit, . ~ wt + hp), "spike_slab")
  inside <- predict(fit, mtcars[1:3, ], "credible")
  outside <- predict(fit, mtcars[1:3, ], "prediction")
  expect_true(all(outside[, 2] < inside[, 2] & inside[, 2] < inside[, 1] & inside[, 1] < inside[, 3] & inside[, 3] < outside[, 3]))
  expect_close(predict(fit, mtcars), fitted(fit), 1e-8)
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(fit))
  expect_silent(plot(fit, which = "coefficients"))
  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE)
  expect_named(tidied, c("term", "estimate", "std.error", "inclusion_prob", "inclusion_se", "conf.low", "conf.high"))
  expect_true(all(c("log_evidence_se", "inclusion_se", "agreement") %in% names(generics::glance(fit))))
  expect_true(".lower" %in% names(generics::augment(fit, interval = "prediction")))
})

test_that("probabilities of a sampled fit have errors, twins are a set, and a seed gives the same fit", {
  skip_without_python()
  d <- crowd()
  fit <- spike_slab(x = d$x, y = d$y, method = "exact", mcse = 0.02, seed = 3)
  expect_false(fit$enumerated)
  expect_true(all(inclusion_se(fit)[-1] > 0 | fit$inclusion_prob[-1] == 1))
  expect_lte(max(inclusion_se(fit)), 0.02)
  expect_identical(inclusion_se(fit)[["(Intercept)"]], 0)
  expect_identical(inclusion_se(fit, "group"), inclusion_se(fit)[-1])
  sets <- credible_sets(fit)
  expect_setequal(sets$column[sets$set == sets$set[sets$column == "v1"]], c("v1", "v2"))
  expect_true(all(sets$probability >= 0.95))
  pairs <- pair_inclusion(fit, c("v1", "v2", "v5"))
  expect_lt(pairs["v1", "v2"], min(diag(pairs)))
  expect_true("MC s.e." %in% colnames(summary(fit)$coefficients))
  expect_output(print(fit), "largest Monte Carlo s.e.")
  expect_output(print(summary(fit)), "MC s.e.")
  again <- spike_slab(x = d$x, y = d$y, method = "exact", mcse = 0.02, seed = 3)
  expect_identical(again[c("coefficients", "inclusion_prob", "posterior")], fit[c("coefficients", "inclusion_prob", "posterior")])
  expect_warning(spike_slab(x = d$x, y = d$y, method = "exact", mcse = 1e-4, maxiter = 2000), "NOT CONVERGED")
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(fit))
  expect_silent(plot(fit, sets = FALSE))
})

test_that("draws of an exact fit are those of its posterior, zeros among them", {
  skip_without_python()
  size <- 20000
  # A sampled fit draws from some thousands of states that it keeps.
  kept <- 2000
  d <- crowd()
  fits <- list(
    spike_slab(mpg ~ wt + drat + factor(cyl) + qsec, mtcars, method = "exact", unpenalized = "qsec", weights = hp),
    cars_fit(noise_var = 6, prior_inclusion = 0.4),
    spike_slab(x = d$x, y = d$y, method = "exact", intercept = FALSE, mcse = 0.05)
  )
  for (fit in fits) {
    set.seed(2)
    draws <- posterior_sample(fit, size)
    sd <- sqrt(diag(vcov(fit)))
    error <- 5 / sqrt(if (fit$enumerated) size else kept)
    p <- fit$inclusion_prob
    own <- 3 * pmax(inclusion_se(fit), 0)
    expect_true(all(abs(colMeans(draws != 0) - p) <= error * sqrt(p * (1 - p)) + own + 1e-3))
    expect_lt(max(abs(colMeans(draws) - coef(fit)) / (error * sd + own * max(abs(coef(fit))) + 1e-3 * max(sd))), 1)
    same <- p > 0.5
    expect_lt(max(abs(apply(draws, 2, stats::sd) / sd - 1)[same]), 0.1)
    limits <- confint(fit, level = 0.8)
    inside <- colMeans(draws >= rep(limits[, 1], each = size) & draws <= rep(limits[, 2], each = size))
    expect_true(all(inside >= 0.8 - 0.05))
  }
  fit <- fits[[2]]
  y <- simulate(fit, 5000, seed = 1, newdata = mtcars[1:2, ])
  p <- predict(fit, mtcars[1:2, ], "prediction")
  expect_lt(max(abs(t(apply(as.matrix(y), 1, quantile, c(0.025, 0.975))) - p[, 2:3])), 0.06 * max(p[, 3] - p[, 2]))
  expect_error(posterior_sample(fit, 2, kind = "gaussian"), "by expectation propagation")
})

test_that("without an intercept a prediction may be zero for certain", {
  skip_without_python()
  set.seed(3)
  x <- matrix(rnorm(80), 20, dimnames = list(NULL, letters[1:4]))
  fit <- spike_slab(x = x, y = rnorm(20), method = "exact", intercept = FALSE)
  limits <- predict(fit, x[1:3, ], "credible", level = 0.2)
  expect_identical(unname(limits[, 2:3]), matrix(0, 3, 2))
  wide <- predict(fit, x[1:3, ], "credible", level = 0.999)
  expect_true(all(wide[, 2] < 0 & wide[, 3] > 0))
})

test_that("columns that are always or never in", {
  skip_without_python()
  fit <- spike_slab(mpg ~ wt + hp + qsec, mtcars, method = "exact", prior_inclusion = c(wt = 1, hp = 0, qsec = 0.5))
  expect_identical(unname(fit$inclusion_prob[c("wt", "hp")]), c(1, 0))
  expect_identical(unname(confint(fit, "hp")[1, ]), c(0, 0))
  expect_false("wt" %in% credible_sets(fit)$column)
  expect_true(is.nan(hyperparameters(fit)["prior_inclusion", "mean"]))
  expect_true(all(is.finite(vcov(fit))))
})

test_that("evidence is compared within a method, with its error", {
  skip_without_python()
  small <- spike_slab(mpg ~ wt, mtcars, method = "exact")
  large <- cars_fit()
  table <- compare_evidence(small, large)
  expect_identical(table$log_evidence_se, c(0, 0))
  expect_equal(sum(table$probability), 1)
  expect_error(compare_evidence(small, spike_slab(mpg ~ wt, mtcars, method = "ep", hyper = "maximize")), "cannot be compared")
})

test_that("what a fit cannot answer is refused by name", {
  skip_without_python()
  ep <- spike_slab(mpg ~ wt + hp, mtcars, method = "ep")
  for (ask in list(credible_sets, top_models, pair_inclusion)) {
    expect_error(ask(ep), "use spike_slab\\(method = \"exact\"\\)")
  }
  expect_error(hyperparameters(ep), "method = \"exact\"")
  expect_true(all(is.na(inclusion_se(ep)[c("wt", "hp")])))
  expect_identical(inclusion_se(ep, by = "group"), replace(inclusion_prob(ep, by = "group"), TRUE, NA_real_))
  expect_identical(select_columns(ep, 0.99)$column[1], "wt")
  fit <- cars_fit()
  expect_error(pair_inclusion(fit, "wr"), "did you mean 'wt'")
  expect_error(credible_sets(fit, coverage = 1), "'coverage' must be a number between 0 and 1")
  expect_error(credible_sets(fit, min_abs_corr = -1), "'min_abs_corr'")
  expect_error(select_columns(fit, 2), "'fdr'")
  expect_error(select_columns(lm(mpg ~ wt, mtcars)), "for fits of spike_slab")
  expect_error(top_models(fit, 0), "'k'")
  expect_error(cars_fit(seed = -1), "'seed' must be a whole number")
  expect_error(cars_fit(seed = 1.5), "'seed' must be a whole number")
  expect_error(cars_fit(mcse = 0), "mcse must be positive")
  expect_error(cars_fit(chains = 1.5), "chains must be a positive integer")
  expect_error(cars_fit(damping = 0.2), "damping is an option of")
  expect_error(cars_fit(start = ep), "start is for")
  expect_error(cars_fit(expected_size = 9), "expected_size is 9 for 4 columns or groups")
  expect_error(spike_slab(mpg ~ wt, mtcars, method = "ep", mcse = 0.1), "mcse is an option of")
})

test_that("a fit with nothing to select, or nothing to explain, works as well", {
  skip_without_python()
  fit <- spike_slab(mpg ~ wt, mtcars, method = "exact", unpenalized = "wt", noise_var = 7)
  expect_close(coef(fit), coef(lm(mpg ~ wt, mtcars)), 1e-8)
  expect_output(print(summary(fit)), "exact")
  expect_warning(flat <- spike_slab(I(0 * mpg) ~ wt + hp, mtcars, method = "exact"), "fit the response exactly")
  expect_output(print(summary(flat)), "exact")
})

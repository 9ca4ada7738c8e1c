# Draws for the package 'posterior': those of posterior_sample(), with names and hyperparameters.

# Monte Carlo: standard errors of a mean, and relative error of a standard deviation of independent draws.
mean_errors <- 5
sd_error <- 0.1
many <- 20000

test_that("draws have the posterior's moments and hyperparameters", {
  skip_without_python()
  skip_if_not_installed("posterior")
  fit <- bayes_ridge(mpg ~ wt + hp, mtcars)
  draws <- posterior::as_draws_df(fit, n = many)
  expect_identical(posterior::variables(draws), c(names(coef(fit)), "tau2", "sigma2"))
  table <- posterior::summarise_draws(draws, "mean", "sd")
  error <- (table$mean[1:3] - coef(fit)) / (fit$bse / sqrt(many))
  expect_lt(max(abs(error)), mean_errors)
  expect_lt(max(abs(table$sd[1:3] / fit$bse - 1)), sd_error)
  of_noise <- hyperparameters(fit)["sigma2", ]
  expect_lt(abs(mean(draws$sigma2 < of_noise$median) - 0.5), mean_errors * 0.5 / sqrt(many))
  joint <- cov(as.matrix(as.data.frame(draws)[, 1:3]))
  expect_lt(max(abs(cov2cor(joint) - cov2cor(vcov(fit)))), 0.05)
})

test_that("draws are repeated and leave the session's generator alone", {
  skip_without_python()
  skip_if_not_installed("posterior")
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  set.seed(4)
  before <- .Random.seed
  first <- posterior::as_draws_matrix(fit, n = 10)
  expect_identical(.Random.seed, before)
  expect_identical(posterior::as_draws_matrix(fit, n = 10), first)
  expect_false(identical(posterior::as_draws_matrix(fit, n = 10, seed = 1), first))
  set.seed(4)
  expect_equal(unclass(posterior::as_draws_matrix(fit, n = 10, seed = NULL)), {
    set.seed(4)
    unclass(posterior::as_draws_matrix(posterior_sample(fit, 10, hyper = TRUE)))
  })
  expect_error(posterior::as_draws_matrix(fit, kind = "gaussian"), "'kind' is for fits of spike_slab")
  expect_error(posterior::as_draws_df(fit, draws = 3), "no argument 'draws'")
  expect_error(posterior::as_draws_df(fit, n = 0), "'n' must be")
  expect_error(posterior::as_draws_df(fit, seed = -1), "'seed' must be")
})

test_that("all formats, several targets and binomial fits have draws", {
  skip_without_python()
  skip_if_not_installed("posterior")
  several <- bayes_ridge(cbind(mpg, qsec) ~ wt, mtcars)
  draws <- posterior::as_draws_matrix(several, n = 50)
  expect_identical(
    colnames(draws),
    c(paste0("mpg:", c("(Intercept)", "wt", "tau2", "sigma2")), paste0("qsec:", c("(Intercept)", "wt", "tau2", "sigma2")))
  )
  yes <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  expect_identical(posterior::variables(posterior::as_draws(yes, n = 5)), c("(Intercept)", "wt", "tau2"))
  expect_identical(posterior::ndraws(posterior::as_draws_list(yes, n = 5)), 5L)
  expect_identical(posterior::ndraws(posterior::as_draws_array(yes, n = 5)), 5L)
  expect_identical(posterior::ndraws(posterior::as_draws_rvars(yes, n = 5)), 5L)
  named <- bayes_ridge(mpg ~ sigma2, transform(mtcars, sigma2 = wt))
  expect_error(posterior::as_draws_df(named), "name of a hyperparameter \\('sigma2'\\)")
})

test_that("draws of a selection have its zeros and hyperparameters", {
  skip_without_python()
  skip_if_not_installed("posterior")
  fit <- spike_slab(mpg ~ wt + hp + drat, mtcars, method = "exact")
  draws <- posterior::as_draws_matrix(fit, n = many)
  expect_identical(colnames(draws), c(names(coef(fit)), "sigma2", "slab_var", "prior_inclusion"))
  share <- colMeans(unclass(draws)[, names(coef(fit))] != 0)
  p <- inclusion_prob(fit)
  expect_lt(max(abs(share - p) / sqrt(pmax(p * (1 - p), 1 / many) / many)), mean_errors)
  table <- hyperparameters(fit)
  for (name in c(sigma2 = "noise_var", slab_var = "slab_var", prior_inclusion = "prior_inclusion")) {
    column <- unclass(draws)[, if (name == "noise_var") "sigma2" else name]
    below <- c(mean(column <= table[name, "lower"]), mean(column <= table[name, "upper"]))
    # Hyperparameters of the states are discrete: a quantile may have some probability of its own.
    expect_lt(max(abs(below - c(0.025, 0.975))), if (name == "prior_inclusion") 0.05 else 0.01)
  }
  ep <- spike_slab(mpg ~ wt + hp + drat, mtcars, method = "ep")
  expect_identical(posterior::variables(posterior::as_draws_df(ep, n = 5)), c(names(coef(ep)), "sigma2"))
  expect_true(all(posterior::as_draws_matrix(ep, n = 50, kind = "gaussian")[, "wt"] != 0))
  yes <- spike_slab(am ~ wt + hp, mtcars, family = binomial(), chains = 1, mcse = 0.1)
  draws <- posterior::as_draws_matrix(yes, n = many)
  expect_identical(colnames(draws), c(names(coef(yes)), "slab_var", "prior_inclusion"))
  of_slab <- hyperparameters(yes)["slab_var", ]
  expect_lt(abs(mean(draws[, "slab_var"] <= of_slab$upper) - 0.975), 0.05)
  given <- spike_slab(mpg ~ wt + hp, mtcars, method = "exact", prior_inclusion = 0.5)
  expect_false("prior_inclusion" %in% posterior::variables(posterior::as_draws_df(given, n = 5)))
})

test_that("intervals of many targets at once are those of each", {
  skip_without_python()
  set.seed(1)
  x <- matrix(rnorm(150), 30)
  y <- cbind(x[, 1] + rnorm(30), rnorm(30), 20 * x[, 2] + rnorm(30), 3, x[, 3])
  fit <- suppressWarnings(bayes_ridge(x = x, y = y))
  # More than one kind of mixture, and no more than fits into one table.
  nodes <- vapply(1:5, function(i) length(components(fit$posterior, i, negligible)$keep), 0L)
  expect_gt(length(unique(nodes)), 1L)
  expect_close(confint(fit), do.call(rbind, lapply(1:30, function(i) confint(fit, i))))
  rows <- x[1:2, ] + 0.1
  limits <- predict(fit, rows, interval = "prediction")
  for (i in 1:5) expect_close(limits[, c("lwr", "upr"), i], row_intervals(fit, rows, i, tails(0.95), c(1, 1)))
  expect_close(summary(fit)$coefficients[[3]][, 3:4], confint(fit)[13:18, ])
})

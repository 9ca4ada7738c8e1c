# Draws and what they are draws of.

# Shares and quantiles of this many draws.
drawn <- 20000
share_error <- 5 * sqrt(0.25 / drawn)

average <- function(...) suppressWarnings(spike_slab(mpg ~ wt + hp + qsec + drat, mtcars, method = "ep", hyper = "average", ...))

# P(draw < limit) and P(draw <= limit) must hold the probability of the limit between them.
expect_quantiles <- function(draws, limits, probabilities) {
  wobble <- 1e-9 * apply(abs(draws), 2, max)
  for (i in seq_along(probabilities)) {
    under <- colMeans(draws < rep(limits[, i] - wobble, each = nrow(draws)))
    up_to <- colMeans(draws <= rep(limits[, i] + wobble, each = nrow(draws)))
    expect_lt(max(under), probabilities[i] + share_error)
    expect_gt(min(up_to), probabilities[i] - share_error)
  }
}

fits_of_selection <- function() {
  set.seed(5)
  x <- matrix(rnorm(20 * 100), 20)
  list(
    exact = spike_slab(mpg ~ ., mtcars),
    learned = spike_slab(mpg ~ ., mtcars, method = "ep"),
    unpenalized = spike_slab(mpg ~ wt + hp + qsec + drat, mtcars, unpenalized = "hp"),
    averaged = average(),
    groups = spike_slab(mpg ~ factor(cyl) + wt + poly(hp, 2) + factor(gear), mtcars, prior_inclusion = 0.4, slab_var = 1, noise_var = 6, method = "ep"),
    wide = suppressWarnings(spike_slab(method = "ep", x = x, y = drop(x[, 1] * 2 + rnorm(20)), prior_inclusion = 0.05, slab_var = 2, noise_var = 1))
  )
}

test_that("draws of a selection have its zeros and its quantiles", {
  skip_without_python()
  set.seed(9)
  for (fit in fits_of_selection()) {
    draws <- posterior_sample(fit, drawn)
    expect_identical(dim(draws), c(as.integer(drawn), length(coef(fit))))
    penalized <- sort(fit$posterior$at)
    out <- colMeans(draws[, penalized] == 0)
    expect_lt(max(abs(out - (1 - inclusion_prob(fit)[penalized]))), share_error)
    expect_quantiles(draws[, penalized], confint(fit, level = 0.9)[penalized, ], c(0.05, 0.95))
    expect_quantiles(draws[, penalized], confint(fit, level = 0.5)[penalized, ], c(0.25, 0.75))
  }
})

test_that("columns of a group are in the same draws", {
  skip_without_python()
  set.seed(9)
  fit <- spike_slab(mpg ~ factor(cyl) + wt + poly(hp, 2), mtcars, prior_inclusion = 0.4, slab_var = 1, noise_var = 6)
  draws <- posterior_sample(fit, 2000) != 0
  expect_identical(draws[, "factor(cyl)6"], draws[, "factor(cyl)8"])
  expect_identical(draws[, "poly(hp, 2)1"], draws[, "poly(hp, 2)2"])
  expect_lt(abs(mean(draws[, "factor(cyl)6"]) - inclusion_prob(fit, "group")[["factor(cyl)"]]), 5 * sqrt(0.25 / 2000))
  expect_false(identical(draws[, "factor(cyl)6"], draws[, "wt"]))
})

test_that("a column that is always in is drawn as the Gaussian has it", {
  skip_without_python()
  set.seed(9)
  fit <- spike_slab(mpg ~ wt + hp + qsec, mtcars, prior_inclusion = 1, slab_var = 1, noise_var = 6)
  draws <- posterior_sample(fit, drawn)
  expect_lt(max(abs(colMeans(draws) - coef(fit)) / fit$bse), 5 / sqrt(drawn))
  expect_lt(max(abs(cor(draws) - cov2cor(vcov(fit)))), 0.05)
})

test_that("an averaged fit can be drawn from however few draws there are", {
  skip_without_python()
  fit <- average()
  expect_gt(length(fit$posterior$weight), 3)
  grouped <- suppressWarnings(spike_slab(mpg ~ wt + factor(cyl) + drat, mtcars, method = "ep", hyper = "average"))
  set.seed(1)
  for (object in list(fit, grouped)) {
    for (n in 1:4) {
      draws <- posterior_sample(object, n)
      expect_identical(dim(draws), c(n, length(coef(object))))
      expect_true(all(is.finite(draws)))
      expect_identical(dim(simulate(object, n, newdata = mtcars[1:3, ])), c(3L, n))
    }
  }
  expect_error(posterior_sample(bayes_ridge(mpg ~ wt, mtcars), kind = "gaussian"), "'kind' is for fits of spike_slab")
  expect_error(posterior_sample(fit, 0), "'n' must be a positive whole number")
  expect_error(posterior_sample(fit, 2.5), "'n' must be a positive whole number")
  expect_error(simulate(fit, -1), "'nsim' must be a positive whole number")
  expect_identical(dim(posterior_sample(fit, 2, hyper = TRUE)), c(2L, length(coef(fit)) + 1L))
})

test_that("simulate leaves the session's generator as it was, as for lm", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  set.seed(3)
  before <- .Random.seed
  first <- simulate(fit, 2, seed = 1)
  expect_identical(.Random.seed, before)
  expect_identical(simulate(fit, 2, seed = 1), first)
  expect_error(simulate(fit, 2, seed = 1, newdata = data.frame(nothing = 1)))
  expect_identical(.Random.seed, before)
  ols <- lm(mpg ~ wt, mtcars)
  expect_equal(attr(first, "seed"), attr(simulate(ols, 2, seed = 1), "seed"))
  free <- simulate(fit, 2)
  expect_identical(attr(free, "seed"), before)
  expect_false(identical(.Random.seed, before))
})

# The extension points of 'marginaleffects', called as that package calls them.

rounding <- 1e-10
errors <- 5
draws <- 4000

own <- function(name) getFromNamespace(paste0(name, ".pybayesridge_fit"), "pybayesridge")

test_that("coefficients, covariance and changed coefficients fit together", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt * factor(cyl), mtcars)
  b <- own("get_coef")(fit)
  expect_identical(names(b), rownames(own("get_vcov")(fit)))
  expect_identical(own("get_vcov")(fit, vcov = TRUE), vcov(fit))
  expect_null(own("get_vcov")(fit, vcov = FALSE))
  expect_error(own("get_vcov")(fit, vcov = "HC3"), "'vcov' must be TRUE or FALSE")
  # The delta method for a prediction is exact: it is linear in the coefficients.
  new <- data.frame(wt = 3, cyl = 6, rowid = 7)
  step <- 1e-3
  slope <- vapply(seq_along(b), function(j) {
    moved <- own("get_predict")(own("set_coef")(fit, replace(b, j, b[j] + step)), new)
    expect_null(attr(moved, "posterior_draws"))
    (moved$estimate - predict(fit, new)) / step
  }, 0)
  expect_equal(sqrt(drop(slope %*% vcov(fit) %*% slope)), unname(predict(fit, new, se.fit = TRUE)$se.fit), tolerance = 1e-6)
  expect_error(own("set_coef")(fit, 1:2), "'coefs' must have 6 numbers")
})

test_that("predictions have draws of the posterior", {
  skip_without_python()
  new <- data.frame(wt = c(2, 3, NA), hp = 100, rowid = c(4L, 9L, 1L))
  fits <- list(
    bayes_ridge(mpg ~ wt + hp, mtcars),
    spike_slab(mpg ~ wt + hp, mtcars, method = "exact"),
    spike_slab(mpg ~ wt + hp, mtcars, method = "ep"),
    bayes_ridge(am ~ wt + hp, mtcars, family = binomial()),
    spike_slab(am ~ wt + hp, mtcars, family = binomial(), chains = 1, mcse = 0.1)
  )
  for (fit in fits) {
    found <- own("get_predict")(fit, newdata = new, type = "response")
    expect_identical(found$rowid, new$rowid)
    expect_close(found$estimate[1:2], predict(fit, new)[1:2], rounding)
    expect_true(is.na(found$estimate[3]))
    sample <- attr(found, "posterior_draws")
    expect_identical(dim(sample), c(3L, 4000L))
    limits <- predict(fit, new, interval = "credible")
    below <- rbind(rowMeans(sample < limits[, 2]), rowMeans(sample < limits[, 3]))[, 1:2]
    expect_lt(max(abs(below - c(0.025, 0.975))), errors * sqrt(0.025 * 0.975 / draws))
    again <- own("get_predict")(fit, newdata = transform(new, wt = wt + 1))
    again <- attr(again, "posterior_draws")[1, ]
    # Coefficients of a short run are more accurate than its states.
    if (identical(fit$enumerated, FALSE)) next
    # One more unit of weight is one coefficient in each draw, on the scale of the link.
    link <- if (family(fit)$family == "binomial") qlogis else identity
    change <- link(again) - link(sample[1, ])
    expect_lt(abs(mean(change) - coef(fit)["wt"]) / (fit$bse["wt"] / sqrt(draws)), errors)
    expect_lt(abs(sd(change) / fit$bse["wt"] - 1), 0.15)
  }
  linear <- own("get_predict")(fits[[4]], newdata = new, type = "link")
  expect_close(linear$estimate[1:2], predict(fits[[4]], new, type = "link")[1:2], rounding)
  expect_error(own("get_predict")(fits[[1]], newdata = new, type = "link"), "should be")
  several <- bayes_ridge(cbind(mpg, qsec) ~ wt, mtcars)
  expect_error(own("get_predict")(several, new), "fits of one target")
})

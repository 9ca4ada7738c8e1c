# Pictures of 'ggplot2' show the numbers of confint(), coef() and inclusion_prob().

rounding <- 1e-12

test_that("coefficients and intervals are drawn", {
  skip_without_python()
  skip_if_not_installed("ggplot2")
  fit <- bayes_ridge(mpg ~ wt + hp + qsec, mtcars)
  picture <- ggplot2::autoplot(fit, level = 0.8, standardized = FALSE, intercept = TRUE)
  expect_s3_class(picture, "ggplot")
  shown <- rev(names(coef(fit)))
  expect_identical(as.character(picture$data$term), shown)
  expect_close(picture$data$estimate, coef(fit)[shown], rounding)
  limits <- confint(fit, level = 0.8)[shown, ]
  expect_close(cbind(picture$data$lower, picture$data$upper), limits, rounding)
  drawn <- ggplot2::ggplot_build(picture)$data
  expect_close(drawn[[2]]$xend, limits[, 2], rounding)
  expect_close(drawn[[3]]$x, coef(fit)[shown], rounding)
  scaled <- ggplot2::autoplot(fit, max_shown = 2)$data
  sd <- apply(mtcars[c("wt", "hp", "qsec")], 2, function(v) sqrt(mean((v - mean(v))^2)))
  largest <- sort(abs(coef(fit)[-1] * sd), decreasing = TRUE)[1:2]
  expect_close(sort(abs(scaled$estimate), decreasing = TRUE), largest, 1e-8)
  several <- bayes_ridge(cbind(mpg, qsec) ~ wt + hp, mtcars)
  second <- ggplot2::autoplot(several, target = "qsec", standardized = FALSE)$data
  expect_close(second$estimate, coef(several)[c("hp", "wt"), "qsec"], rounding)
  yes <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  expect_close(ggplot2::autoplot(yes, standardized = FALSE)$data$estimate, coef(yes)["wt"], rounding)
})

test_that("inclusion probabilities are drawn", {
  skip_without_python()
  skip_if_not_installed("ggplot2")
  fit <- spike_slab(mpg ~ wt + hp + factor(cyl), mtcars, method = "exact")
  picture <- ggplot2::autoplot(fit)
  p <- inclusion_prob(fit, by = "group")
  expect_identical(as.character(picture$data$term), rev(names(p)))
  expect_close(ggplot2::ggplot_build(picture)$data[[3]]$x, rev(p), rounding)
  expect_identical(nrow(ggplot2::autoplot(fit, "coefficients")$data), 4L)
  yes <- spike_slab(am ~ wt + hp, mtcars, family = binomial(), chains = 1, mcse = 0.5)
  expect_close(ggplot2::autoplot(yes)$data$inclusion_prob, inclusion_prob(yes)[c("hp", "wt")], rounding)
  expect_error(ggplot2::autoplot(fit, levels = 0.9), "no argument 'levels': did you mean 'level'")
  expect_error(ggplot2::autoplot(bayes_ridge(mpg ~ wt, mtcars), "inclusion"), "coefficients")
  expect_error(ggplot2::autoplot(fit, "coefficients", level = 2), "'level' must be")
})

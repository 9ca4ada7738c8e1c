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

test_that("every picture of plot() is one of autoplot(), with the same numbers", {
  skip_without_python()
  skip_if_not_installed("ggplot2")
  pdf(NULL)
  on.exit(dev.off())
  fits <- list(
    bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial()),
    spike_slab(am ~ wt + hp, mtcars, family = binomial(), chains = 1, mcse = 0.5),
    spike_slab(mpg ~ wt, mtcars), bayes_ridge(mpg ~ wt, mtcars)
  )
  for (fit in fits) {
    for (which in pictures_of(fit)) {
      expect_silent(plot(fit, which = which))
      picture <- ggplot2::autoplot(fit, which)
      expect_gt(nrow(ggplot2::layer_data(picture, 2L)), 0L)
    }
  }
  yes <- fits[[1L]]
  area <- function(table) sum(diff(table$false_positive) * (table$true_positive[-1L] + table$true_positive[-nrow(table)]) / 2)
  curve <- ggplot2::autoplot(yes, "roc")
  expect_close(area(curve$data), yes$loo_auc, 1e-8)
  expect_identical(curve$labels$title, sprintf("cbind(ncases, ncontrols): leave-one-out ROC curve, area %.3f", yes$loo_auc))
  drawn <- ggplot2::layer_data(curve, 2L)
  expect_close(c(drawn$x, drawn$y), c(curve$data$false_positive, curve$data$true_positive), rounding)
  bins <- ggplot2::autoplot(yes, "calibration", bins = 3)$data
  expect_identical(nrow(bins), 3L)
  expect_true(all(bins$lower < bins$share & bins$share < bins$upper))
  events <- sum(esoph$ncases)
  expect_lt(abs(sum(ggplot2::autoplot(yes, "calibration", bins = 1)$data$share) - events / sum(esoph$ncases + esoph$ncontrols)), 1e-8)
})

test_that("limits, labels and points of a plot are the user's", {
  skip_without_python()
  pdf(NULL)
  on.exit(dev.off())
  fit <- bayes_ridge(mpg ~ ., mtcars)
  sel <- spike_slab(mpg ~ ., mtcars)
  for (object in list(fit, sel)) {
    expect_silent(plot(object, xlim = c(-2, 3), ylab = "term", xlab = "x", main = "A", col = "red", pch = 4, cex = 2, lwd = 2))
    expect_equal(par("usr")[1:2], c(-2, 3) + c(-1, 1) * 0.04 * 5)
    expect_silent(plot(object, ylim = c(0, 4), cex.main = 0.5, bty = "n", sub = "sub"))
    expect_equal(par("usr")[3:4], c(0, 4) + c(-1, 1) * 0.04 * 4)
    expect_error(plot(object, type = "l"), "'type'")
  }
})

test_that("a plot of inclusion probabilities has every term once", {
  skip_without_python()
  fit <- spike_slab(mpg ~ factor(cyl) + poly(hp, 2) + wt + qsec, mtcars, unpenalized = "qsec")
  p <- inclusion_bars(fit, intercept = FALSE)
  expect_setequal(names(p), c("factor(cyl)", "poly(hp, 2)", "wt", "qsec"))
  expect_identical(p[["poly(hp, 2)"]], inclusion_prob(fit, "group")[["poly(hp, 2)"]])
  expect_identical(p[["qsec"]], 1)
  expect_setequal(names(inclusion_bars(fit, intercept = TRUE)), c("(Intercept)", names(p)))
  single <- spike_slab(mpg ~ wt + hp, mtcars)
  expect_identical(inclusion_bars(single, intercept = FALSE), inclusion_prob(single)[c("wt", "hp")])
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(fit))
})

test_that("names of any length stand within the margin", {
  skip_without_python()
  room <- function(names, width) {
    pdf(NULL, width = width, height = 5)
    on.exit(dev.off())
    d <- stats::setNames(mtcars[c("mpg", "wt", "hp")], c("y", names))
    fit <- bayes_ridge(x = as.matrix(d[-1]), y = d$y)
    drawn <- NULL
    plot(fit, xlab = "x")
    graphics::plot.new()
    layout <- name_margin(names)
    widths <- graphics::strwidth(layout$labels, units = "inches", cex = name_size)
    expect_true(all(widths + name_gap() <= layout$inches))
    expect_lte(layout$inches, 0.6 * width)
    layout
  }
  expect_identical(room(c("a", "b"), 7)$labels, c("a", "b"))
  long <- "a rather long name of a column, as surveys have"
  expect_identical(room(c(long, "WWWWWWWWWWWWWWWWWWWW"), 9)$labels, c(long, "WWWWWWWWWWWWWWWWWWWW"))
  expect_match(room(c(strrep("W", 200), "b"), 7)$labels[1], "W[.]{3}$")
})

test_that("a picture that a fit does not have is refused by the names of those that it has", {
  skip_without_python()
  skip_if_not_installed("ggplot2")
  pdf(NULL)
  on.exit(dev.off())
  ridge <- bayes_ridge(mpg ~ wt, mtcars)
  yes <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  sel <- spike_slab(mpg ~ wt, mtcars)
  for (draw in list(plot, ggplot2::autoplot)) {
    expect_error(draw(ridge, which = "fit"), "^'which' must be \"coefficients\" for this fit, not \"fit\"$")
    expect_error(draw(ridge, which = "roc"), "must be \"coefficients\"")
    expect_error(draw(yes, which = "inclusion"), "\"coefficients\" or \"calibration\" or \"roc\"")
    expect_error(draw(sel, which = 2), "\"inclusion\" or \"coefficients\" for this fit$")
    expect_error(draw(yes, which = c("roc", "calibration")), "'which' must be")
  }
  expect_silent(plot(ridge, which = "coefficients"))
})

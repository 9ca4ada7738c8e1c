# Questions that Python answers, against what R works out itself.

# Python's quantiles and R's; derivatives by differences.
by_both <- 1e-7
by_differences <- 1e-6

cars_fit <- function(...) bayes_ridge(mpg ~ wt + poly(hp, 2) + factor(cyl), data = mtcars, ...)

test_that("contrasts are rows of the coefficients, however they are written", {
  skip_without_python()
  fit <- cars_fit()
  found <- contrast(fit, "factor(cyl)8 - factor(cyl)6, wt = -3, poly(hp, 2)1", alpha = 0.1)
  expect_identical(rownames(found), c("factor(cyl)8 - factor(cyl)6", "wt = -3", "poly(hp, 2)1"))
  rows <- rbind(c(0, 0, 0, 0, -1, 1), c(0, 1, 0, 0, 0, 0), c(0, 0, 1, 0, 0, 0))
  expect_close(found$mean, drop(rows %*% coef(fit)) + c(0, 3, 0), by_both)
  expect_close(found$sd, sqrt(diag(rows %*% vcov(fit) %*% t(rows))), by_both)
  limits <- confint(fit, c("wt", "poly(hp, 2)1"), level = 0.9)
  expect_close(as.matrix(found[2:3, c("lower", "upper")]), limits + c(3, 0), by_both)
  same <- contrast(fit, c(cyl = "`factor(cyl)8` - `factor(cyl)6`"), alpha = 0.1)
  expect_identical(rownames(same), "cyl")
  expect_close(unlist(same), unlist(found[1, ]))
  expect_close(unlist(contrast(fit, rows, alpha = 0.1)[1, ]), unlist(found[1, ]))
  expect_close(unlist(contrast(fit, c("factor(cyl)8" = 1, "factor(cyl)6" = -1), alpha = 0.1)), unlist(found[1, ]))
  expect_output(print(found), "90 % intervals.*prob_positive")
  expect_s3_class(found, "data.frame")
  expect_error(contrast(fit, "wt - weight"), "weight")
  expect_error(contrast(fit, matrix(1, 1, 2)), "2 columns, and there are 6 coefficients")
  expect_error(contrast(fit, c(weight = 1)), "'weight', which is not a coefficient")
  expect_error(contrast(lm(mpg ~ wt, mtcars), "wt"), "is for fits of bayes_ridge")
})

test_that("contrasts of matrices, added intercepts, several targets and selections", {
  skip_without_python()
  x <- as.matrix(mtcars[c("wt", "hp")])
  two <- bayes_ridge(x = x, y = as.matrix(mtcars[c("mpg", "qsec")]), model = FALSE)
  found <- contrast(two, "(Intercept) + 3*wt", target = "qsec")
  expect_close(found$mean, coef(two)[1, "qsec"] + 3 * coef(two)[2, "qsec"], by_both)
  expect_error(contrast(two, "wt"), "target")
  sets <- spike_slab(mpg ~ wt + hp, mtcars, method = "exact")
  found <- contrast(sets, "wt, wt - hp")
  expect_close(found$prob_zero[1], 1 - inclusion_prob(sets)[["wt"]], by_both)
  expect_close(found$mean[2], coef(sets)[["wt"]] - coef(sets)[["hp"]], by_both)
  yes <- bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial())
  above <- odds_ratios(yes)["wt", "prob_above_1"]
  expect_close(contrast(yes, "wt")$prob_positive, above, 1e-6)
})

test_that("terms stand for their coefficients in joint contrasts", {
  skip_without_python()
  fit <- cars_fit()
  joint <- joint_contrast(fit, "factor(cyl)")
  expect_named(joint, c("content", "mcse"))
  expect_identical(joint, joint_contrast(fit, "factor(cyl)6, factor(cyl)8"))
  # The Wald ellipsoid of draws.
  set.seed(1)
  draws <- posterior_sample(fit, 20000)[, 5:6]
  apart <- function(d) rowSums((d %*% solve(vcov(fit)[5:6, 5:6])) * d)
  zero <- apart(t(coef(fit)[5:6]))
  content <- mean(apart(draws - rep(coef(fit)[5:6], each = 20000)) <= zero)
  expect_lt(abs(content - joint[["content"]]), 4 * sqrt(2) * max(joint[["mcse"]], sqrt(0.25 / 20000)))
  expect_error(joint_contrast(spike_slab(mpg ~ wt, mtcars, method = "ep"), "wt"), "exact")
})

test_that("terms stand for their coefficients in joint contrasts beside terms with a variance of their own", {
  skip_without_python()
  set.seed(1)
  rows <- data.frame(wt = rnorm(60), gear = factor(rep(3:5, 20)), carb = factor(rep(1:4, each = 15)))
  rows$grade <- findInterval(rows$wt + rlogis(60), c(-1, 1))
  for (family in c("gaussian", "ordinal")) {
    method <- if (family == "ordinal") "laplace" else "exact"
    fit <- bayes_ridge(grade ~ (1 | carb) + wt * gear, rows, family = family, method = method)
    expect_identical(joint_contrast(fit, "wt:gear"), joint_contrast(fit, "wt:gear4, wt:gear5"))
    expect_identical(joint_contrast(fit, "gear"), joint_contrast(fit, "gear4, gear5"))
    expect_identical(joint_contrast(fit, "(1|carb)"), joint_contrast(fit, paste0("carb[", 1:4, "]", collapse = ", ")))
    expect_error(joint_contrast(fit, "carb"), "names 'carb', which is not a coefficient")
  }
})

test_that("terms may be written in another order, with other spaces, and as the formula of a fit that was read has them", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt * factor(cyl) + poly(hp, 2), data = mtcars)
  both <- joint_contrast(fit, "wt:factor(cyl)6, wt:factor(cyl)8")
  expect_identical(joint_contrast(fit, "wt:factor(cyl)"), both)
  expect_identical(joint_contrast(fit, "factor(cyl) : wt"), both)
  expect_identical(joint_contrast(fit, "poly(hp,2)"), joint_contrast(fit, "poly(hp, 2)1, poly(hp, 2)2"))
  one <- suppressWarnings(bayes_ridge(mpg ~ 1, data = mtcars))
  expect_error(joint_contrast(one, "wt:cyl"), "which is not a coefficient")
  path <- tempfile(fileext = ".fit")
  on.exit(unlink(path))
  reticulate::py_run_string("
def save(y, x, t, path):
    import pandas as pd
    from pybayesridge import BayesRidge
    BayesRidge.from_formula('y ~ t * x', pd.DataFrame({'y': y, 'x': x, 't': t})).fit().save(path)
", local = TRUE)$save(mtcars$mpg, mtcars$wt, as.character(mtcars$cyl), path)
  read <- read_fit(path)
  expect_identical(joint_contrast(read, "x:t"), joint_contrast(read, "t[T.6]:x, t[T.8]:x"))
  expect_identical(joint_contrast(read, "`t`"), joint_contrast(read, "t[T.6], t[T.8]"))
})

test_that("effects are those of rows that predict() codes", {
  skip_without_python()
  fit <- cars_fit()
  found <- effects(fit)
  expect_identical(found$variable, c("wt", "hp", "cyl", "cyl"))
  expect_identical(found$change, c("per unit", "per unit", "6 - 4", "8 - 4"))
  moved <- function(fit, data, ...) mean(predict(fit, transform(data, ...)))
  expect_close(found$mean[c(1, 4)], c(coef(fit)[["wt"]], coef(fit)[["factor(cyl)8"]]), by_both)
  slope <- (moved(fit, mtcars, hp = mtcars$hp + 1e-3) - moved(fit, mtcars, hp = mtcars$hp - 1e-3)) / 2e-3
  expect_close(found$mean[2], slope, by_differences)
  expect_close(
    effects(fit, "hp", values = c(100, 200))$mean, moved(fit, mtcars, hp = 200) - moved(fit, mtcars, hp = 100), by_both
  )
  expect_warning(effects(fit, "hp", values = c(100, 2000)), "outside the range")
  expect_error(effects(fit, "weight"), "not a variable of the fit")
  some <- mtcars[1:5, ]
  expect_close(effects(fit, "hp", values = c(100, 200), data = some)$mean, moved(fit, some, hp = 200) - moved(fit, some, hp = 100), by_both)
  steps <- bayes_ridge(mpg ~ I(wt > 3) + hp, mtcars)
  expect_error(effects(steps, "wt"), "no derivative.*values = c\\(a, b\\)")
  expect_close(effects(steps, "wt", values = c(2, 4))$mean, coef(steps)[[2]], by_both)
  spline <- bayes_ridge(mpg ~ splines::ns(log(hp), 3) + wt, mtcars)
  slope <- (moved(spline, mtcars, hp = mtcars$hp + 1e-3) - moved(spline, mtcars, hp = mtcars$hp - 1e-3)) / 2e-3
  expect_close(effects(spline, "hp")$mean, slope, 1e-4)
  matrices <- bayes_ridge(x = as.matrix(mtcars[c("wt", "hp")]), y = mtcars$mpg)
  expect_close(effects(matrices)$mean, coef(matrices)[-1], by_both)
})

test_that("effects treat missing values, factors and weights as the fit does", {
  skip_without_python()
  data <- transform(mtcars, gear = factor(gear), vs = vs == 1)
  data$hp[3] <- NA
  fit <- bayes_ridge(mpg ~ gear + vs + log(hp), data)
  expect_identical(fit$nobs, 31L)
  found <- effects(fit)
  expect_identical(found$change, c("4 - 3", "5 - 3", "TRUE - FALSE", "per unit"))
  expect_close(found$mean[1:3], coef(fit)[2:4], by_both)
  expect_close(found$mean[4], mean(coef(fit)[["log(hp)"]] / data$hp, na.rm = TRUE), by_differences)
  expect_error(effects(fit, "gear", values = c("3", "7")), "no level '7'")
})

test_that("effects on probabilities are those of average probabilities", {
  skip_without_python()
  yes <- bayes_ridge(am ~ wt + hp, data = mtcars, family = binomial())
  found <- effects(yes, "hp", values = c(100, 200))
  at <- function(value) mean(predict(yes, transform(mtcars, hp = value)))
  expect_close(found$mean, at(200) - at(100), 0.01)
  linear <- effects(yes, "hp", values = c(100, 200), which = "linear")
  expect_close(linear$mean, 100 * coef(yes)[["hp"]], by_both)
  trials <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, data = transform(esoph, agegp = factor(agegp, ordered = FALSE)), family = binomial())
  expect_identical(nrow(effects(trials)), 5L)
})

test_that("checks and comparisons have Python's numbers", {
  skip_without_python()
  fit <- cars_fit()
  sensitivity <- prior_sensitivity(fit)
  expect_identical(rownames(sensitivity), names(coef(fit)))
  expect_close(sensitivity$mean, coef(fit))
  expect_close(sensitivity$sd, fit$bse)
  checks <- ppc(fit, c("mean", "max"))
  expect_identical(rownames(checks), c("mean", "max"))
  expect_close(checks$observed, c(mean(mtcars$mpg), max(mtcars$mpg)))
  own <- ppc(fit, list(largest = max), draws = 200)
  expect_close(own$observed, max(mtcars$mpg))
  expect_error(ppc(fit, list(max)), "named list")
  values <- pit(fit)
  expect_named(values, rownames(mtcars))
  expect_true(all(values > 0 & values < 1))
  models <- compare_models(ridge = fit, selection = spike_slab(mpg ~ wt + hp, mtcars, method = "ep"))
  expect_named(models, c("term", "value", "ridge", "selection"))
  wt <- models[models$term == "wt" & models$value == "estimate", ]
  expect_close(wt$ridge, coef(fit)[["wt"]])
  expect_output(print(models), "ridge +selection.*poly\\(hp, 2\\)1")
  expect_error(pit(bayes_ridge(am ~ wt, mtcars, family = binomial())), "calibration")
  expect_error(compare_models(lm(mpg ~ wt, mtcars)), "not a fit")
})

test_that("a fit that Python does not reproduce gets no answer", {
  skip_without_python()
  fit <- cars_fit()
  fit$settings$model$prior <- list(3, 3)
  expect_error(contrast(fit, "wt"), "fitted again in Python the coefficients differ")
  lost <- cars_fit(model = FALSE)
  lost$call$data <- quote(nowhere)
  expect_error(contrast(lost, "wt"), "model = TRUE")
})

test_that("without Python there is a sentence", {
  skip_if(isTRUE(tryCatch(pybayesridge_available(), error = function(e) FALSE)), "there is Python")
  fit <- structure(list(coefficients = c(x1 = 1), targets = "y"), class = c("bayes_ridge", "pybayesridge_fit"))
  expect_error(contrast(fit, "x1"), "contrast\\(\\) is computed by Python, which is not available here.*posterior_sample")
  # What is computed here instead needs more of a fit than this one has.
  expect_warning(try(sets_left_out(fit, 1L, environment()), silent = TRUE), "looked for by Python alone")
})

test_that("joint tests of emmeans are refused", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  fit <- bayes_ridge(breaks ~ wool * tension, data = warpbreaks)
  expect_error(emmeans::joint_tests(fit), "joint_contrast")
  grid <- emmeans::emmeans(fit, "tension")
  expect_error(emmeans::test(grid, joint = TRUE), "not defined for a Bayesian fit")
  expect_s3_class(summary(grid, frequentist = TRUE), "data.frame")
  expect_s4_class(contrast(grid, "pairwise"), "emmGrid")
  expect_s3_class(emmeans::contrast(fit, "woolB"), "pybayesridge_table")
})

test_that("loo() warns where expectation propagation could differ without a row", {
  skip_without_python()
  skip_if_not_installed("loo")
  set.seed(3)
  x <- matrix(rnorm(40), 10)
  x[1, ] <- 1.5
  fit <- spike_slab(x = x, y = drop(x %*% c(1, 1, 0, 0)) + rnorm(10), method = "ep")
  fit$posterior$negative[] <- 1
  expect_warning(loo::loo(fit), "row\\(s\\) may be inaccurate: '1'")
  fit$posterior$negative[] <- 0
  expect_silent(loo::loo(fit))
})

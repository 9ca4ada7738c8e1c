test_that("columns are those of model.matrix, contrasts and splines included", {
  skip_without_python()
  d <- warpbreaks
  d$o <- factor(rep(1:3, 18), ordered = TRUE)
  for (formula in list(
    breaks ~ wool * tension, breaks ~ 0 + tension, breaks ~ tension - 1 + wool, breaks ~ o + wool,
    breaks ~ I(as.numeric(o)^2) + poly(as.numeric(o), 2), breaks ~ tension:wool
  )) {
    fit <- suppressWarnings(bayes_ridge(formula, d))
    expect_identical(names(coef(fit)), colnames(model.matrix(formula, d)))
  }
  sums <- bayes_ridge(breaks ~ tension, d, contrasts = list(tension = "contr.sum"))
  expect_named(coef(sums), c("(Intercept)", "tension1", "tension2"))
  expect_close(predict(sums, d[1:9, ]), fitted(sums)[1:9])
})

test_that("terms that depend on the data are made of the data of the fit", {
  skip_without_python()
  for (formula in list(
    dist ~ poly(speed, 3), dist ~ splines::ns(speed, 4), dist ~ splines::bs(speed, df = 5), dist ~ scale(speed)
  )) {
    fit <- bayes_ridge(formula, cars)
    expect_close(predict(fit, cars[7, , drop = FALSE]), fitted(fit)[7])
  }
})

test_that("interpolating penalties find lm's coefficients under every coding", {
  skip_without_python()
  for (coding in c("contr.treatment", "contr.sum", "contr.helmert", "contr.poly")) {
    arguments <- list(breaks ~ wool * tension, warpbreaks, contrasts = list(wool = coding, tension = coding))
    fit <- do.call(bayes_ridge, c(arguments, method = "fixed", lam = 0))
    ols <- do.call(lm, arguments)
    expect_close(coef(fit), coef(ols))
    expect_close(fit$df_model, 5)
    expect_close(predict(fit, warpbreaks[1:4, ]), predict(ols, warpbreaks[1:4, ]))
  }
})

test_that("subset, weights and na.action work as in lm", {
  skip_without_python()
  d <- airquality
  same <- function(fit, ols) {
    expect_close(fitted(fit)[!is.na(fitted(fit))], fitted(ols)[!is.na(fitted(ols))], 1e-9)
    expect_identical(names(fitted(fit)), names(fitted(ols)))
    expect_identical(which(is.na(residuals(fit))), which(is.na(residuals(ols))))
    expect_identical(nobs(fit), nobs(ols))
  }
  for (call in list(
    quote(lm(Ozone ~ Wind + Temp, d)),
    quote(lm(Ozone ~ Wind, d, subset = Month > 5)),
    quote(lm(Ozone ~ Wind, d, weights = Temp)),
    quote(lm(Ozone ~ Wind + Solar.R, d, subset = Month > 5, weights = Temp, na.action = na.exclude))
  )) {
    ols <- eval(call)
    call[[1]] <- quote(bayes_ridge)
    call$method <- "fixed"
    call$lam <- 0
    same(eval(call), ols)
  }
  excluded <- bayes_ridge(Ozone ~ Wind + Solar.R, d, na.action = na.exclude)
  expect_length(fitted(excluded), nrow(d))
  expect_length(residuals(excluded), nrow(d))
  expect_equal(nrow(predict(excluded, interval = "credible")), nrow(d))
  expect_error(bayes_ridge(Ozone ~ Wind, d, na.action = na.fail), "missing values")
  expect_match(summary(bayes_ridge(Ozone ~ Wind, d))$notes, "37 observations deleted", all = FALSE)
})

test_that("functions of the caller are found where predict is called", {
  skip_without_python()
  inside <- function() {
    square <- function(v) v^2
    degree <- 2
    d <- cars
    fit <- bayes_ridge(dist ~ square(speed) + poly(speed, degree), d)
    list(
      predict(fit, d[3, ]), predict(fit, interval = "credible")[3, 1], fitted(fit)[3],
      model.matrix(fit)[3, 2], nrow(model.frame(fit))
    )
  }
  out <- inside()
  expect_close(out[[1]], out[[3]])
  expect_close(out[[2]], out[[3]])
  expect_equal(out[[4]], 49)
  expect_identical(out[[5]], 50L)
})

test_that("formula, terms, model.frame, model.matrix and update answer as for lm", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt + log(hp), mtcars)
  ols <- lm(mpg ~ wt + log(hp), mtcars)
  expect_equal(formula(fit), formula(ols), ignore_attr = TRUE)
  expect_identical(attr(terms(fit), "term.labels"), attr(terms(ols), "term.labels"))
  expect_equal(model.frame(fit), model.frame(ols), ignore_attr = TRUE)
  expect_equal(model.matrix(fit), model.matrix(ols), ignore_attr = "assign")
  more <- update(fit, . ~ . + qsec, method = "exact")
  expect_identical(names(coef(more)), c("(Intercept)", "wt", "log(hp)", "qsec"))
  expect_identical(more$method, "exact")
  kept <- bayes_ridge(mpg ~ wt, mtcars, model = TRUE)
  expect_equal(kept$model, model.frame(mpg ~ wt, mtcars), ignore_attr = TRUE)
})

test_that("intercept-only and dot formulas work", {
  skip_without_python()
  flat <- suppressWarnings(bayes_ridge(mpg ~ 1, mtcars))
  expect_close(coef(flat), mean(mtcars$mpg))
  expect_equal(dim(predict(flat, mtcars[1:3, ], "prediction")), c(3L, 3L))
  expect_identical(names(coef(bayes_ridge(mpg ~ . - hp, mtcars))), c("(Intercept)", setdiff(names(mtcars)[-1], "hp")))
})

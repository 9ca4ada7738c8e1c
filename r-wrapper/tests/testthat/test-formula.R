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

test_that("terms of other packages are refused with what can be written instead", {
  skip_without_python()
  expect_error(
    spike_slab(mpg ~ wt + (1 | cyl), mtcars),
    "term '1 \\| cyl': random effects .* for bayes_ridge\\(\\)\\. Write factor\\(cyl\\), .* I\\(1 \\| cyl\\)"
  )
  expect_error(spike_slab(mpg ~ (wt || cyl), mtcars), "Write wt \\* factor\\(cyl\\)")
  expect_error(spike_slab("mpg ~ hp:(vs | am)", mtcars), "I\\(vs \\| am\\)")
  expect_error(
    spike_slab(mpg ~ s(wt), mtcars),
    "term 's\\(wt\\)': smooth curves are for bayes_ridge\\(\\)\\. .* splines::ns\\(wt, df = 4\\)"
  )
  expect_error(spike_slab(mpg ~ te(wt, hp), mtcars), "smooth terms")
  for (fitter in list(bayes_ridge, spike_slab)) expect_error(fitter(mpg ~ wt + offset(hp), mtcars), "offset is not supported")
  expect_error(bayes_ridge(mpg ~ te(wt, hp), mtcars), "smooth terms")
  # What is inside a function, or on the left, is R's own.
  either <- bayes_ridge(I(vs | am) ~ I(vs | am == 1) + ifelse(vs | am, wt, hp), mtcars, family = binomial())
  expect_length(coef(either), 3L)
  expect_length(coef(bayes_ridge(vs | am ~ wt, mtcars, family = binomial())), 2L)
  expect_error(bayes_ridge(mpg ~ hp:(vs | am), mtcars), "a logical 'or' is I\\(a \\| b\\)")
  s <- function(v) v^2
  expect_error(bayes_ridge(mpg ~ s(wt), mtcars), "a function s of yours: rename yours")
  expect_close(coef(bayes_ridge(mpg ~ {s(wt)}, mtcars)), coef(bayes_ridge(mpg ~ I(wt^2), mtcars)))
  expect_identical(names(spike_slab(mpg ~ s(wt), mtcars)$coefficients), c("(Intercept)", "s(wt)"))
})

test_that("what a formula used when it was fitted is what it uses for predictions", {
  skip_without_python()
  fitted_elsewhere <- function() {
    k <- 3
    ends <- c(2.5, 3.5)
    bayes_ridge(mpg ~ I(wt^k) + splines::ns(hp, knots = c(100, 180) + k) + log(disp) + cut(wt, c(0, ends, 9)), mtcars, model = FALSE)
  }
  fit <- fitted_elsewhere()
  k <- 1
  log <- function(x) x
  ends <- 2
  expect_close(predict(fit, mtcars), fitted(fit))
  expect_close(predict(fit, mtcars[1:3, ], "credible")[, "fit"], fitted(fit)[1:3])
  expect_close(predict(fit, interval = "credible")[, "fit"], fitted(fit))
  expect_close(model.matrix(fit)[, 2], mtcars$wt^3)
  expect_close(coef(update(fit, . ~ .)), coef(fit))
  kept <- unserialize(serialize(fit, NULL))
  expect_close(predict(kept, mtcars), fitted(fit))
  # A column stands before a constant of the same name, and rows of the session are no constants.
  d <- transform(mtcars, k = 2)
  power <- bayes_ridge(mpg ~ I(wt^k), d)
  expect_close(predict(power, transform(d[1:2, ], k = 1)), drop(cbind(1, d$wt[1:2]) %*% coef(power)))
  weight <- mtcars$wt
  outside <- bayes_ridge(mpg ~ weight, mtcars)
  expect_null(outside$scope)
  expect_close(predict(outside, data.frame(weight = 3)), sum(coef(outside) * c(1, 3)))
})

test_that("a function of the session that has changed since the fit is refused", {
  skip_without_python()
  square <- function(v) v^2
  fit <- bayes_ridge(mpg ~ square(wt), mtcars)
  square <- function(v) {
    # The same function, written again.
    v^2
  }
  expect_error(predict(fit, mtcars[1, ]), "'square' of the formula is not what it was")
  square <- function(v)   v^2
  expect_close(predict(fit, mtcars[1, ]), fitted(fit)[1])
  square <- sqrt
  expect_error(predict(fit, mtcars[1, ]), "define it as it was")
  expect_error(predict(fit, interval = "credible"), NA)
  expect_equal(deparse1(formula(fit)), "mpg ~ square(wt)")
})

test_that("functions of factors have the levels of the fit in new data", {
  skip_without_python()
  d <- transform(mtcars, carb = factor(carb))
  fit <- bayes_ridge(mpg ~ as.integer(carb) + relevel(carb, "4"):wt, d)
  rows <- d[d$carb %in% c("2", "4"), ][1:3, ]
  expect_close(predict(fit, droplevels(rows)), predict(fit, d)[rownames(rows)])
  expect_close(predict(fit, transform(rows, carb = as.character(carb))), predict(fit, d)[rownames(rows)])
  expect_error(predict(fit, transform(rows, carb = factor("5"))), "new level")
})

test_that("predictions of new rows are refused where a term depends on all rows", {
  skip_without_python()
  for (f in list(mpg ~ I(wt - mean(wt)), mpg ~ hp + I(wt / max(wt)), mpg ~ rank(wt), mpg ~ cumsum(wt), mpg ~ I(wt > median(wt)))) {
    fit <- bayes_ridge(f, mtcars)
    expect_error(predict(fit, mtcars[1:3, ]), "depend on all rows of the data")
    expect_length(predict(fit), 32L)
    expect_close(predict(fit, interval = "credible")[, "fit"], fitted(fit))
  }
  d <- transform(mtcars, cyl = factor(cyl), g = rep(c("a", "b"), 16))
  d$wt[2] <- NA
  own <- list(
    mpg ~ scale(wt), mpg ~ poly(hp, 2) * cyl, mpg ~ splines::ns(hp, 3) + g, mpg ~ I(wt^2) + ifelse(hp > 100, "a", "b"),
    mpg ~ log(wt) + factor(gear) + interaction(cyl, am), mpg ~ . - disp
  )
  for (f in own) expect_null(bayes_ridge(f, d)$scope$all_rows)
  # A function of a function that keeps what it took from the data: R keeps it of the outer one alone.
  nested <- bayes_ridge(mpg ~ scale(poly(wt, 2)) + hp, mtcars)
  expect_error(predict(nested, mtcars[1:5, ]), "depend on all rows of the data")
  # Variables that are no columns of a data frame.
  mpg <- mtcars$mpg
  wt <- mtcars$wt
  apart <- list(
    bayes_ridge(mpg ~ I(wt - mean(wt))), bayes_ridge(mpg ~ I(wt - mean(wt)), as.list(mtcars)),
    bayes_ridge(mpg ~ I(wt - mean(wt)), list2env(mtcars)), bayes_ridge(mpg ~ I(wt - mean(wt)), subset = wt > 3)
  )
  for (fit in apart) expect_error(predict(fit, mtcars[1:3, ]), "depend on all rows of the data")
  inside <- bayes_ridge(mpg ~ poly(wt, 2) + I(wt^2), subset = wt > 3)
  expect_close(predict(inside, mtcars[wt > 3, ][1:3, ]), fitted(inside)[1:3])
  expect_null(inside$scope$values)
  expect_null(bayes_ridge(mpg ~ wt, d, subset = am == 1)$scope$all_rows)
})

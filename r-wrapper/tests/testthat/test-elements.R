# Elements that are computed when they are asked for, and posteriors that keep the rows in place of what is as large.

# A share of the largest number: R's products of rows and Python's.
same_products <- 1e-9

saved <- function(fit) unserialize(serialize(fit, NULL))

bytes <- function(fit) length(serialize(fit, NULL))

wide_data <- function(n = 20L, p = 60L) {
  set.seed(5)
  x <- matrix(rnorm(n * p, 10), n, dimnames = list(paste0("row", seq_len(n)), paste0("v", seq_len(p))))
  list(x = x, y = x[, 1L] + rnorm(n), rows = x[1:3, ] + 0.1, weights = runif(n, 0.5, 2))
}

test_that("standard deviations, fitted values and residuals are those of Python", {
  skip_without_python()
  set.seed(1)
  x <- matrix(rnorm(200), 40)
  y <- cbind(a = x[, 1] + rnorm(40), b = rnorm(40))
  fit <- saved(bayes_ridge(x = x, y = y))
  expect_false(any(c("bse", "fitted.values", "residuals") %in% names(fit)))
  python <- python_ridge(y, x, x[1:2, ], method = "exact")
  expect_close(fit$bse, python$coef * 0 + python$bse)
  expect_identical(dimnames(fit$bse), dimnames(coef(fit)))
  expect_close(fit[["fitted.values"]], python$fitted)
  expect_close(fit$residuals, python$resid)
  expect_identical(fit$fitted, fitted(fit))
  expect_null(fit$nothing)
  expect_null(fit[["fitted"]])
  one <- bayes_ridge(mpg ~ wt, mtcars)
  expect_identical(names(one$residuals), rownames(mtcars))
  expect_close(one$residuals + one$fitted.values, mtcars$mpg)
  expect_close(sqrt(diag(vcov(one))), one$bse)
  expect_true(all(c("fitted.values", "residuals") %in% names(bayes_ridge(mpg ~ wt, mtcars, model = FALSE))))
})

test_that("a wide ridge that keeps its columns answers as one that keeps singular vectors", {
  skip_without_python()
  d <- wide_data()
  small <- saved(bayes_ridge(x = d$x, y = d$y, weights = d$weights, unpenalized = "v3"))
  whole <- bayes_ridge(x = d$x, y = d$y, weights = d$weights, unpenalized = "v3", model = FALSE)
  expect_null(small$posterior$right)
  expect_identical(dim(whole$posterior$right), c(59L, 18L))
  expect_identical(small$x, d$x)
  expect_null(whole$x)
  expect_close(right_of(small$posterior), whole$posterior$right, same_products)
  expect_close(outside_of(small$posterior, 1:59), whole$posterior$outside, same_products)
  expect_close(small$bse, whole$bse, same_products)
  expect_close(vcov(small), vcov(whole), same_products)
  expect_close(confint(small), confint(whole), same_products)
  predicted <- function(fit) predict(fit, d$rows, interval = "prediction", se.fit = TRUE)
  expect_close(unlist(predicted(small)), unlist(predicted(whole)), same_products)
  expect_identical(names(fitted(small)), rownames(d$x))
  expect_close(fitted(small), fitted(whole), same_products)
  expect_identical(case.names(small), rownames(d$x))
  draws <- lapply(list(small, whole), function(fit) {
    set.seed(2)
    posterior_sample(fit, 5)
  })
  expect_close(draws[[1]], draws[[2]], same_products)
  expect_lt(bytes(small), 1.8 * 8 * length(d$x) + 2e4)
})

test_that("columns that are nearly alone in their direction have their share outside the row space", {
  skip_without_python()
  d <- wide_data()
  d$x[, 1L] <- d$x[, 1L] * 3e3
  fit <- function(model) bayes_ridge(x = d$x, y = d$y, standardize = FALSE, model = model)
  small <- fit(NULL)
  whole <- fit(FALSE)
  expect_false(is.null(small$posterior$half))
  expect_lt(min(whole$posterior$outside), 1e-6)
  expect_close(log(outside_of(small$posterior, 1:60)), log(whole$posterior$outside), same_products)
})

test_that("a wide selection keeps rows once, whatever the number of nodes", {
  skip_without_python()
  d <- wide_data(20L, 120L)
  fit <- function(model) {
    suppressWarnings(spike_slab(x = d$x, y = d$y, weights = d$weights, unpenalized = "v3", method = "ep", model = model))
  }
  small <- saved(fit(NULL))
  whole <- fit(FALSE)
  expect_gt(nrow(small$posterior$weight), 1L)
  expect_null(small$posterior$rows)
  expect_identical(dim(whole$posterior$rows), c(20L, 119L))
  expect_close(standard_columns(small$posterior), whole$posterior$rows, same_products)
  expect_close(sqrt(diag(vcov(small))), small$bse, same_products)
  expect_close(vcov(small), vcov(whole), same_products)
  predicted <- function(fit) predict(fit, d$rows, interval = "prediction", se.fit = TRUE)
  expect_close(unlist(predicted(small)), unlist(predicted(whole)), same_products)
  draws <- lapply(list(small, whole), function(fit) {
    set.seed(2)
    posterior_sample(fit, 5)
  })
  expect_close(draws[[1]], draws[[2]], same_products)
  root <- 8 * length(d$x) * nrow(small$posterior$weight)
  expect_lt(bytes(small), 0.8 * root)
})

test_that("a wide matrix is kept where it takes the place of what is as large, unless 'model' says otherwise", {
  input <- list(x = matrix(0, 2, 3))
  expect_identical(made_in_r(input, NULL, TRUE), c("bse", "resid", "fittedvalues", "right", "rows"))
  expect_identical(made_in_r(input, FALSE, TRUE), "bse")
  expect_null(made_in_r(input, FALSE, TRUE, "ep"))
  expect_identical(made_in_r(list(x = t(input$x)), NULL, TRUE, "ep"), c("resid", "fittedvalues"))
  expect_identical(made_in_r(input, NULL, FALSE), character())
  large <- list(x = matrix(0, 2, 5e5 + 1))
  expect_identical(made_in_r(large, NULL, TRUE, "ep"), c("resid", "fittedvalues", "right", "rows"))
  expect_null(made_in_r(large, NULL, TRUE, "exact"))
})

test_that("the summary of many coefficients has the deviations of those that it shows", {
  skip_without_python()
  d <- wide_data(20L, 70L)
  fit <- bayes_ridge(x = d$x, y = d$y)
  table <- summary(fit)$coefficients
  expect_identical(nrow(table), 30L)
  expect_close(table[, "SD"], fit$bse[rownames(table)])
  expect_close(sqrt(diag(vcov(fit))), fit$bse)
})

test_that("fits that release 0.1.0 made are refused where they would be taken for something else", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  earlier <- fit
  attr(earlier, "names")[names(earlier) == "facts"] <- "earlier_facts"
  expect_error(print(earlier), "release 0.1.0")
  expect_error(summary(earlier), "release 0.1.0")
  expect_identical(confint(earlier), confint(fit))
  expect_identical(predict(earlier, mtcars[1:2, ]), predict(fit, mtcars[1:2, ]))
  yes_no <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  class(yes_no) <- c("bayes_ridge_binomial", "bayes_ridge", "pybayesridge_fit")
  for (ask in list(predict, residuals, confint, summary, print, deviance, simulate, odds_ratios)) {
    expect_error(ask(yes_no), "release 0.1.0")
  }
  expect_error(pool_fits(list(yes_no, yes_no)), "release 0.1.0")
})

# Fits keep small data by themselves, so that methods at the fit's own rows work wherever the fit was made.

made_in_a_function <- function(...) {
  d <- transform(mtcars, heavy = wt > 3, w = qsec)
  square <- function(v) v^2
  f <- mpg ~ square(hp) + heavy + factor(cyl)
  bayes_ridge(f, d, weights = w, ...)
}

made_of_matrices <- function(fitter, ...) {
  columns <- as.matrix(mtcars[2:4])
  fitter(x = columns, y = mtcars$mpg, ...)
}

test_that("methods at own rows work for fits made in functions", {
  skip_without_python()
  for (fit in list(made_in_a_function(), made_of_matrices(bayes_ridge), made_of_matrices(spike_slab))) {
    fit <- unserialize(serialize(fit, NULL))
    expect_close(predict(fit, interval = "prediction")[, "fit"], fitted(fit))
    expect_identical(nrow(model.matrix(fit)), 32L)
    expect_identical(dim(simulate(fit, 2)), c(32L, 2L))
    skip_if_not_installed("generics")
    table <- generics::augment(fit, interval = "credible")
    expect_close(table$.fitted, fitted(fit))
    expect_close(table$.upper, predict(fit, interval = "credible")[, "upr"])
  }
  expect_identical(names(model.frame(made_in_a_function()))[1:3], c("mpg", "square(hp)", "heavy"))
  expect_true(all(c("cyl", "disp", "hp") %in% names(generics::augment(made_of_matrices(bayes_ridge)))))
})

test_that("'model' says what is kept", {
  skip_without_python()
  expect_s3_class(made_in_a_function()$model, "data.frame")
  expect_null(made_in_a_function(model = FALSE)$model)
  expect_error(predict(made_in_a_function(model = FALSE), interval = "credible"), "model = TRUE")
  expect_null(made_of_matrices(bayes_ridge, model = FALSE)$x)
  expect_identical(dim(made_of_matrices(spike_slab)$x), c(32L, 3L))
  expect_error(bayes_ridge(mpg ~ wt, mtcars, model = NA), "'model' must be TRUE, FALSE or NULL")
  expect_true(keeps_data(NULL, 1e6))
  expect_false(keeps_data(NULL, 1e6 + 1))
  expect_true(keeps_data(TRUE, 1e9))
  expect_false(keeps_data(FALSE, 1))
})

test_that("a saved fit is its numbers and a small frame, and no environment", {
  skip_without_python()
  wrapped <- function() {
    ballast <- rnorm(1e6)
    weighted <- transform(mtcars, w = qsec)
    bayes_ridge(mpg ~ wt + poly(hp, 2) + splines::ns(qsec, 3), weighted, weights = w)
  }
  fit <- wrapped()
  has_environment <- function(value) {
    if (is.environment(value) || is.function(value)) return(TRUE)
    inside <- c(if (is.list(value)) unclass(value), attributes(value))
    any(vapply(inside, has_environment, NA))
  }
  expect_false(has_environment(unclass(fit)))
  frame <- length(serialize(model.frame(mpg ~ wt + poly(hp, 2) + splines::ns(qsec, 3), mtcars), NULL))
  without <- length(serialize(update(fit, model = FALSE, data = transform(mtcars, w = qsec)), NULL))
  expect_lt(length(serialize(fit, NULL)) - without, 2 * frame)
  expect_lt(without, 30000)
})

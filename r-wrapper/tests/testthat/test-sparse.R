# Columns of the package Matrix.

sparse_problem <- function() {
  set.seed(4)
  x <- Matrix::rsparsematrix(60, 25, 0.2, dimnames = list(NULL, paste0("v", 1:25)))
  list(x = x, y = as.vector(3 * (x[, 1] - x[, 2] + (x[, 3] != 0)) + rnorm(60)))
}

test_that("sparse columns give the numbers of dense ones", {
  skip_without_python()
  skip_if_not_installed("Matrix")
  d <- sparse_problem()
  dense <- as.matrix(d$x)
  for (method in c("em", "exact", "gcv")) {
    ours <- bayes_ridge(x = d$x, y = d$y, method = method, unpenalized = "v3", model = TRUE)
    theirs <- bayes_ridge(x = dense, y = d$y, method = method, unpenalized = "v3")
    # Both end where log lambda is known to 1e-8.
    expect_close(coef(ours), coef(theirs), 1e-6)
    expect_identical(names(coef(ours)), names(coef(theirs)))
    expect_close(confint(ours), confint(theirs), 1e-6)
    expect_true("fitted.values" %in% names(ours))
    expect_close(predict(ours, d$x[1:3, ]), fitted(ours)[1:3])
    expect_close(predict(ours, interval = "credible")[, "fit"], fitted(ours))
  }
  logical <- d$x[, 3:8] != 0
  expect_close(coef(bayes_ridge(x = logical, y = d$y)), coef(bayes_ridge(x = dense[, 3:8] != 0, y = d$y)), 1e-6)
  expect_close(coef(spike_slab(x = d$x, y = d$y, method = "ep")), coef(spike_slab(x = dense, y = d$y, method = "ep")))
})

test_that("sparse columns that are not finite are named", {
  skip_if_not_installed("Matrix")
  d <- sparse_problem()
  d$x[2, 7] <- NA
  expect_error(bayes_ridge(x = d$x, y = d$y), "'v7'")
})

test_that("the share of explained variance is that of the draws of the coefficients", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ ., data = mtcars, weights = wt)
  found <- explained_variance(fit)
  expect_identical(dimnames(found), list("mpg", c("mean", "median", "lower", "upper")))
  set.seed(3)
  draws <- posterior_sample(fit, 20000, hyper = TRUE)
  x <- as.matrix(mtcars[setdiff(names(mtcars), "mpg")])
  w <- mtcars$wt / mean(mtcars$wt)
  centred <- sweep(x, 2L, colSums(w * x) / sum(w))
  size <- colSums(w * (centred %*% t(draws[, colnames(x)]))^2)
  share <- size / (size + nrow(x) * draws[, "sigma2"])
  for (part in list(c("median", 0.5), c("lower", 0.025), c("upper", 0.975))) {
    p <- as.numeric(part[2L])
    expect_lt(abs(mean(share <= found[[part[1L]]]) - p), 5 * sqrt(p * (1 - p) / 10000))
  }
})

test_that("the session's generator is left as it was, and the answer repeats", {
  skip_without_python()
  fit <- bayes_ridge(cbind(mpg, qsec) ~ wt + hp, data = mtcars)
  set.seed(1)
  expected <- runif(1)
  set.seed(1)
  first <- explained_variance(fit, level = 0.5)
  expect_identical(runif(1), expected)
  expect_identical(explained_variance(fit, level = 0.5), first)
  expect_identical(rownames(first), c("mpg", "qsec"))
  expect_error(explained_variance(1), "bayes_ridge")
  expect_error(explained_variance(spike_slab(mpg ~ wt, mtcars, method = "ep")), "method = \"exact\"")
})

test_that("of a selection it is that of the draws, beyond the unpenalised columns", {
  skip_without_python()
  fit <- spike_slab(mpg ~ wt + hp + qsec, mtcars, unpenalized = "wt", weights = cyl, method = "exact")
  found <- explained_variance(fit, level = 0.9)
  expect_identical(dimnames(found), list("mpg", c("mean", "median", "lower", "upper")))
  set.seed(3)
  draws <- posterior_sample(fit, 20000, hyper = TRUE)
  w <- mtcars$cyl / mean(mtcars$cyl)
  x <- residuals(lm(cbind(hp, qsec) ~ wt, mtcars, weights = cyl))
  size <- colSums(w * (x %*% t(draws[, c("hp", "qsec")]))^2)
  share <- size / (size + nrow(x) * draws[, "sigma2"])
  for (part in list(c("median", 0.5), c("upper", 0.95))) {
    p <- as.numeric(part[2L])
    expect_lt(abs(mean(share <= found[[part[1L]]]) - p), 5 * sqrt(p * (1 - p) * (1 / 20000 + 1 / 4000)))
  }
  # No column is in with a probability that the lower limit shows.
  none <- spike_slab(mpg ~ noise, transform(mtcars, noise = sin(1:32)), method = "exact")
  expect_identical(explained_variance(none)$lower, 0)
})

test_that("of a selection it is Python's, and so is the refusal", {
  skip_without_python()
  python <- reticulate::py_run_string("
def share(file):
    import warnings
    import pybayesridge
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        fit = pybayesridge.load(file)
    try:
        return fit.explained_variance(rng=1).to_list()
    except ValueError as error:
        return str(error)
", local = TRUE)
  set.seed(5)
  many <- matrix(rnorm(30 * 18), 30)
  fits <- list(
    spike_slab(mpg ~ wt + factor(cyl) + qsec, mtcars, unpenalized = "wt", weights = hp),
    suppressWarnings(spike_slab(x = many, y = many[, 1] + rnorm(30), mcse = 0.05)),
    suppressWarnings(spike_slab(
      cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial("probit"), mcse = 0.5, maxiter = 200
    ))
  )
  file <- tempfile(fileext = ".fit")
  on.exit(unlink(file))
  for (fit in fits) {
    suppressWarnings(save_fit(fit, file))
    theirs <- python$share(file)
    set.seed(3)
    share <- explained_in_rows(fit, 20000L, environment(), penalized = TRUE)
    expect_lt(abs(mean(share) - theirs[1L]), 5 * sd(share) * sqrt(2 / 4000))
    for (i in 2:4) {
      p <- c(0.5, 0.025, 0.975)[i - 1L]
      error <- 5 * sqrt(p * (1 - p) * (1 / 20000 + 1 / 4000))
      # Without a column the share is 0 with a positive probability.
      expect_lte(mean(share < theirs[i]), p + error)
      expect_gte(mean(share <= theirs[i]), p - error)
    }
  }
  ep <- spike_slab(mpg ~ wt + qsec, mtcars, method = "ep")
  save_fit(ep, file)
  reason <- "the share of variance explained needs the joint posterior of the columns: use "
  expect_error(explained_variance(ep), reason)
  expect_match(python$share(file), reason)
})

test_that("rows of yes/no responses count as often as they have trials", {
  skip_without_python()
  of_counts <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial())
  persons <- esoph[rep(seq_len(nrow(esoph)), esoph$ncases + esoph$ncontrols), ]
  persons$case <- unlist(Map(function(yes, no) rep(1:0, c(yes, no)), esoph$ncases, esoph$ncontrols))
  of_persons <- bayes_ridge(case ~ agegp, persons, family = binomial())
  expect_lt(max(abs(explained_variance(of_counts) - explained_variance(of_persons))), 0.02)
})

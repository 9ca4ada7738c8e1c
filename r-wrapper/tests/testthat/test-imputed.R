# Pooled fits against mixtures by hand, and against Python's pooled results.

# Quantiles of mixtures: R takes Newton's steps, Python halves brackets to 1e-7 of their width.
quantile_error <- 1e-6

# Three completed versions of one data set.
completed <- function(n = 30) {
  set.seed(5)
  d <- data.frame(a = rnorm(n), g = rep(c("u", "v", "w"), n / 3), w = seq(1, 2, length.out = n))
  d$b <- 0.6 * d$a + rnorm(n)
  d$y <- d$a + (d$g == "v") + rnorm(n)
  d$z <- d$a - d$b + rnorm(n)
  d$yes <- as.numeric(d$y + rnorm(n) > 0)
  lapply(1:3, function(i) {
    d$b[1:10] <- 0.6 * d$a[1:10] + rnorm(10)
    d
  })
}

new <- data.frame(a = c(0, 1, NA, -2), b = c(1, -1, 0, 2), g = c("u", "v", "u", "w"))

models <- list(
  ridge = function(d) bayes_ridge(y ~ a + poly(b, 2) + g, data = d, weights = w),
  null = function(d) bayes_ridge(y ~ I(w^2) + cos(9 * b), data = d, method = "em"),
  two = function(d) bayes_ridge(cbind(y, z) ~ a + b, data = d, unpenalized = "a"),
  binomial = function(d) bayes_ridge(yes ~ a + b, data = d, family = binomial()),
  sets = function(d) spike_slab(y ~ a + b + g, data = d),
  no_intercept = function(d) spike_slab(y ~ 0 + a + b, data = d, noise_var = 1),
  ep = function(d) spike_slab(y ~ a + b + g, data = d, method = "ep")
)

python_pooled <- function(fits, rows, alpha) {
  files <- vapply(fits, function(fit) {
    file <- tempfile(fileext = ".fit")
    save_fit(fit, file)
    file
  }, "")
  on.exit(unlink(files))
  reticulate::py_run_string("
def pooled(files, rows, alpha):
    import numpy as np
    import pybayesridge
    from pybayesridge.results.contrast import combined
    out = pybayesridge.pool([pybayesridge.load(file) for file in files])
    targets = out._data.targets
    given = [np.column_stack([np.ones(len(r)), r]) if f.model.data.intercept_name else r for r, f in zip(rows, out.fits)]
    found = [combined(out, given, np.zeros(len(given[0])), alpha, i) for i in range(len(targets))]
    limits = [np.asarray(out.conf_int(alpha)).reshape(-1, len(targets), 2)[:, i] for i in range(len(targets))]
    return dict(
        params=np.asarray(out.params), bse=np.asarray(out.bse), share=np.asarray(out.between_share),
        cov=[np.asarray(out.cov_params(t)) for t in targets],
        limits=limits,
        rows=[each.quantiles[:, 0] for each in found], mean=[each.center[:, 0] for each in found],
        sd=[each.sd[:, 0] for each in found],
        inclusion=np.asarray(out.inclusion_prob) if hasattr(out._first, 'inclusion_prob') else None,
    )
", local = TRUE)$pooled(as.list(files), rows, alpha)
}

test_that("pooled fits have Python's numbers, for every kind of fit", {
  skip_without_python()
  sets <- completed()
  for (name in names(models)) {
    pooled <- suppressWarnings(fit_imputed(sets, models[[name]]))
    table <- new[c(1, 2, 4), ]
    table$w <- 1
    rows <- lapply(pooled$fits, function(fit) without_ones(new_rows(fit, table, na.pass, globalenv())$x))
    python <- suppressWarnings(python_pooled(pooled$fits, rows, 0.1))
    expect_close(coef(pooled), python$params)
    expect_close(pooled$bse, python$bse)
    expect_close(pooled$between_share, python$share, 1e-8)
    if (!is.null(python$inclusion)) expect_close(inclusion_prob(pooled), python$inclusion)
    k <- length(coefficient_names(pooled))
    linear <- if (name == "binomial") list(type = "link") else list()
    found <- do.call(predict, c(list(pooled, table, "credible", 0.9, se.fit = TRUE), linear))
    for (i in seq_along(pooled$targets)) {
      expect_close(vcov(pooled, target = i), python$cov[[i]])
      expect_close(confint(pooled, level = 0.9)[(i - 1) * k + seq_len(k), ], python$limits[[i]], quantile_error)
      rows_of_target <- array(found$fit, c(3, 3, length(pooled$targets)))[, , i]
      expect_close(rows_of_target[, 1], python$mean[[i]], 1e-8)
      expect_close(rows_of_target[, 2:3], python$rows[[i]], quantile_error)
      expect_close(as.matrix(found$se.fit)[, i], python$sd[[i]], 1e-8)
    }
  }
})

test_that("intervals are quantiles of the mixture of draws, with noise too", {
  skip_without_python()
  sets <- completed()
  pooled <- fit_imputed(sets, models$ridge)
  limits <- predict(pooled, transform(new[1, ], w = 1), interval = "prediction", level = 0.9)
  below <- vapply(pooled$fits, function(fit) {
    post <- fit$posterior
    x <- split_rows(fit, new_rows(fit, transform(new[1, ], w = 1), na.pass, globalenv())$x)
    each <- mixture_of(functionals(post, x$x, x$z), components(post), post, 1)
    at <- (limits[2:3] - drop(x$z %*% post$y_on_z)) / post$y_norm
    vapply(at, function(a) sum(each$weight * pt((a - each$where) / sqrt(each$scale2), post$df)), 0)
  }, numeric(2))
  expect_close(rowMeans(below), c(0.05, 0.95), 1e-5)
  set.seed(1)
  draws <- posterior_sample(pooled, 20000)
  expect_identical(colnames(draws), names(coef(pooled)))
  # Four standard errors of means and shares of 20,000 draws.
  expect_lt(max(abs(colMeans(draws) - coef(pooled)) / pooled$bse), 4 / sqrt(20000))
  inside <- t(draws) > confint(pooled)[, 1] & t(draws) < confint(pooled)[, 2]
  expect_lt(max(abs(rowMeans(inside) - 0.95)), 4 * sqrt(0.95 * 0.05 / 20000))
  # Draws of the fits are mixed.
  expect_lt(abs(cor(draws[, 2], seq_len(20000))), 4 / sqrt(20000))
  expect_identical(colnames(posterior_sample(pooled, 2, hyper = TRUE)), c(names(coef(pooled)), "tau2", "sigma2"))
})

test_that("the methods of a pooled fit have the shapes of those of one fit", {
  skip_without_python()
  sets <- completed()
  pooled <- fit_imputed(sets, models$two)
  one <- pooled$fits[[1]]
  expect_identical(dimnames(coef(pooled)), dimnames(coef(one)))
  expect_identical(dimnames(vcov(pooled)), dimnames(vcov(one)))
  expect_identical(dimnames(confint(pooled, "y:a", 0.5)), dimnames(confint(one, "y:a", 0.5)))
  expect_identical(dimnames(predict(pooled, new, "credible")), dimnames(predict(one, new, "credible")))
  expect_identical(is.na(predict(pooled, new)[3, ]), c(y = TRUE, z = TRUE))
  expect_identical(nobs(pooled), 30L)
  # Targets are independent given the data, and not over imputations.
  means <- vapply(pooled$fits, function(fit) as.vector(coef(fit)), numeric(6))
  between <- tcrossprod(means - rowMeans(means)) / 3
  expect_close(vcov(pooled)[1:3, 4:6], between[1:3, 4:6])
  expect_output(print(pooled), "3 imputed data sets.*Pooled posterior of 3 fits")
  expect_output(print(summary(pooled, level = 0.8)), "Target: z.*10 %.*Between.*30 in each data set")
  skip_if_not_installed("generics")
  tidied <- generics::tidy(pooled, conf.int = TRUE)
  expect_identical(tidied$response, rep(c("y", "z"), each = 3))
  expect_close(tidied$conf.high, confint(pooled)[, 2])
  glanced <- generics::glance(pooled)
  expect_identical(glanced$imputations, c(3L, 3L))
  selection <- fit_imputed(sets, models$sets)
  expect_close(generics::tidy(selection)$inclusion_prob, inclusion_prob(selection))
  expect_output(print(summary(selection)), "Pr\\(incl")
  probabilities <- fit_imputed(sets, models$binomial)
  expect_identical(family(probabilities)$family, "binomial")
  shares <- predict(probabilities, new[1:2, ], interval = "credible", se.fit = TRUE)
  each <- vapply(probabilities$fits, function(fit) predict(fit, new[1:2, ]), numeric(2))
  expect_close(shares$fit[, "fit"], rowMeans(each))
  expect_close(shares$fit[, "lwr"], plogis(predict(probabilities, new[1:2, ], "credible", type = "link")[, "lwr"]))
  expect_error(predict(probabilities, new, interval = "prediction"), "one of two values")
  skip_if_not_installed("posterior")
  expect_identical(dim(posterior::as_draws_matrix(pooled, n = 7)), c(7L, 10L))
  expect_s3_class(posterior::as_draws(selection, n = 7), "draws_df")
})

test_that("a mids object is completed, and mice's own functions accept fits", {
  skip_without_python()
  skip_if_not_installed("mice")
  imp <- mice::mice(mice::nhanes2, m = 3, seed = 1, printFlag = FALSE)
  pooled <- fit_imputed(imp, function(data) bayes_ridge(chl ~ age + bmi, data = data))
  by_list <- fit_imputed(lapply(1:3, function(i) mice::complete(imp, i)), function(d) bayes_ridge(chl ~ age + bmi, d))
  expect_close(coef(by_list), coef(pooled))
  analyses <- with(imp, bayes_ridge(chl ~ age + bmi))
  expect_close(confint(pool_fits(analyses)), confint(pooled))
  # Rubin's rules enlarge the variance between the means, which has the divisor m - 1 there.
  rubin <- summary(mice::pool(analyses))
  expect_close(rubin$estimate, coef(pooled))
  between <- pooled$between_share * pooled$bse^2
  expect_close(rubin$std.error^2, pooled$bse^2 - between + (1 + 1 / 3) * between * 3 / 2)
  expect_error(mice::pool(with(imp, bayes_ridge(cbind(chl, bmi) ~ age))), "several targets: use pool_fits\\(\\)")
  expect_error(bayes_ridge(chl ~ age, imp), "mids object: fit_imputed\\(imp, function\\(data\\) bayes_ridge")
  expect_error(spike_slab(chl ~ age, data = imp), "mids object: fit_imputed\\(imp, function\\(data\\) spike_slab")
})

test_that("fits that have no common posterior are refused", {
  skip_without_python()
  sets <- completed()
  ridge <- models$two
  expect_error(fit_imputed(sets, "ridge"), "'fit' must be a function")
  expect_error(fit_imputed(sets[[1]], ridge), "'data' must be a mids object or a list .* not a data frame")
  expect_error(fit_imputed(sets[1], ridge), "at least two data frames")
  expect_error(fit_imputed(sets, function(d) lm(y ~ a, d)), "data set 1: 'fit' returns an object of class lm")
  expect_error(fit_imputed(sets, function(d) bayes_ridge(y ~ nothing, d)), "data set 1: object 'nothing' not found")
  missing <- sets
  missing[[2]]$a[4:5] <- NA
  expect_error(fit_imputed(missing, ridge), "data set 2: there are still missing values in 2 row")
  fewer <- c(sets[1:2], list(sets[[3]][-1, ]))
  expect_error(fit_imputed(fewer, ridge), "fits 1 and 3 differ in number of rows: 30 and 29")
  without <- c(sets[1:2], list(transform(sets[[3]], g = ifelse(g == "w", "v", g))))
  expect_error(fit_imputed(without, models$ridge), "fits 1 and 3 differ in coefficients.*A level of a factor")
  expect_error(pool_fits(list(ridge(sets[[1]]), models$sets(sets[[1]]))), "differ in their model")
  apart <- bayes_ridge(x = cbind(a = 1:12, b = cos(1:12)), y = as.numeric(1:12 > 6), family = binomial())
  expect_error(pool_fits(list(apart, apart)), "fit 1 has no posterior means, which cannot be pooled: the columns separate the responses")
  expect_error(pool_fits(ridge(sets[[1]])), "'fits' must be a list")
  pooled <- fit_imputed(sets, ridge)
  expect_error(predict(pooled), "'newdata' is required")
  expect_error(predict(pooled, new["a"]), "lacks the variable")
  expect_error(inclusion_prob(pooled), "includes every column")
  for (method in list(fitted, residuals, logLik, deviance, sigma, df.residual, AIC, plot)) {
    expect_error(method(pooled), "is not defined for a pooled fit")
  }
  expect_error(confint(pooled, levle = 0.9), "no argument")
})

test_that("questions for one fit are refused by the name of the element that contains the fits", {
  skip_without_python()
  halves <- split(transform(mtcars, am = rev(am)), rep(1:2, 16))
  ridges <- fit_imputed(halves, function(data) bayes_ridge(mpg ~ wt, data))
  sets <- fit_imputed(halves, function(data) spike_slab(mpg ~ wt + hp, data, unpenalized = "hp"))
  of_one <- list(
    explained_variance, hyperparameters, credible_sets, pair_inclusion, top_models, inclusion_se, select_columns, compare_evidence
  )
  for (ask in of_one) {
    for (pooled in list(ridges, sets)) expect_error(ask(pooled), "not defined for a pooled fit.*element 'fits'")
  }
  expect_error(median_model(ridges), "includes every column")
  expect_identical(inclusion_prob(sets)[["wt"]] > 0.5, TRUE)
  expect_identical(median_model(sets), "wt")
})

test_that("transforms learn from the rows of all data sets together where they differ", {
  skip_without_python()
  sets <- completed()
  all <- do.call(rbind, sets)
  formulas <- list(
    y ~ splines::bs(b, df = 5) + a, y ~ splines::ns(b, df = 3) * g, y ~ poly(b, 2) + scale(b), y ~ scale(a) + scale(b, scale = FALSE)
  )
  for (formula in formulas) {
    pooled <- fit_imputed(sets, function(d) bayes_ridge(formula, data = d))
    wanted <- attr(terms(model.frame(formula, all)), "predvars")
    own <- attr(terms(model.frame(formula, sets[[1]])), "predvars")
    for (fit in pooled$fits) {
      found <- attr(fit$terms, "predvars")
      for (i in seq_along(found)) {
        # What reads no imputed variable keeps what one data set says.
        expect_equal(found[[i]], if ("b" %in% all.vars(found[[i]])) wanted[[i]] else own[[i]])
      }
    }
    coded <- delete.response(pooled$fits[[1]]$terms)
    attr(coded, ".Environment") <- globalenv()
    x <- lapply(sets, function(d) model.matrix(coded, model.frame(coded, d)))
    each <- vapply(seq_along(sets), function(i) drop(x[[i]] %*% coef(pooled$fits[[i]])), numeric(30))
    expect_close(each[, 2], fitted(pooled$fits[[2]]), 1e-8)
    expect_close(predict(pooled, sets[[1]]), rowMeans(vapply(pooled$fits, function(fit) drop(x[[1]] %*% coef(fit)), numeric(30))), 1e-8)
  }
})

test_that("nothing is fitted twice or shared without need, and nothing stays", {
  skip_without_python()
  sets <- completed()
  calls <- 0
  fit <- function(d) {
    calls <<- calls + 1
    bayes_ridge(y ~ splines::ns(a, df = 3) + b, data = d, subset = a > -1, weights = w)
  }
  fit_imputed(sets, fit)
  expect_identical(calls, 3)
  pooled <- fit_imputed(sets, function(d) bayes_ridge(y ~ poly(b, 2) + g, data = d, subset = a > -1, weights = w))
  some <- do.call(rbind, lapply(sets, subset, a > -1))
  expect_equal(attr(pooled$fits[[3]]$terms, "predvars")[[3]], attr(terms(model.frame(y ~ poly(b, 2), some)), "predvars")[[3]])
  expect_error(fit_imputed(sets, function(d) bayes_ridge(y ~ poly(b, 2), data = d, method = "none")), "data set 1")
  alone <- bayes_ridge(y ~ poly(b, 2), data = sets[[2]])
  expect_equal(attr(alone$terms, "predvars"), attr(terms(model.frame(y ~ poly(b, 2), sets[[2]])), "predvars"))
  outside <- function(d) {
    apart <- 2 * d$b
    bayes_ridge(y ~ scale(apart), data = d)
  }
  expect_error(fit_imputed(sets, outside), "'scale\\(apart\\)' cannot be evaluated on the rows of all data sets together")
  expect_error(pool_fits(lapply(sets, models$ridge)), "fits 1 and 2 use different numbers in 'poly\\(b, 2\\)'.*fit_imputed\\(\\)")
  turned <- list(sets[[1]], transform(sets[[2]], g = sub("u", "uu", g)))
  expect_error(fit_imputed(turned, function(d) bayes_ridge(y ~ g, data = d)), "differ in levels of factors: u, v, w and uu, v, w")
})

test_that("pooled fits have odds ratios", {
  skip_without_python()
  sets <- completed()
  pooled <- fit_imputed(sets, models$binomial)
  found <- odds_ratios(pooled, level = 0.9)
  expect_close(found$odds_ratio, exp(coef(pooled)))
  expect_close(as.matrix(found[2:3]), exp(confint(pooled, level = 0.9)))
  expect_close(found$prob_above_1, rowMeans(vapply(pooled$fits, function(fit) odds_ratios(fit)$prob_above_1, numeric(3))))
  expect_identical(odds_ratios(pooled, parm = "b", level = 0.9), found["b", ])
  expect_error(odds_ratios(fit_imputed(sets, models$two)), "for fits with family = binomial")
  probit <- fit_imputed(sets, function(d) bayes_ridge(yes ~ a, data = d, family = binomial("probit")))
  expect_error(odds_ratios(probit), "for the logit link")
})

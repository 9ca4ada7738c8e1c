# All numbers of a spike-and-slab fit, and all that R works out by itself, against Python's.

python_spike <- function(y, x, rows, model = list(), fit = list(), level = 0.9) {
  reference <- reticulate::py_run_string("
def spike_reference(y, x, rows, model, fit, alpha):
    import warnings
    import numpy as np
    from pybayesridge import SpikeSlab
    model, fit = dict(model), dict(fit)
    if 'unpenalized' in model:
        model['unpenalized'] = [int(u) for u in np.atleast_1d(model['unpenalized'])]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = SpikeSlab(y, x, **model).fit(**fit)
    return dict(
        coef=np.asarray(res.params), bse=np.asarray(res.bse), cov=np.asarray(res.cov_params()),
        ci=np.asarray(res.conf_int(alpha)), fitted=np.asarray(res.fittedvalues),
        new=res.get_prediction(rows).summary_frame(alpha).to_numpy(),
        own=res.get_prediction().summary_frame(alpha).to_numpy(),
        pip=np.asarray(res.inclusion_prob), prior=np.asarray(res.prior_by_column()),
        cond_mean=np.asarray(res.cond_mean), cond_var=np.asarray(res.cond_var),
        scalars=np.array([res.log_evidence, res.slab_var, res.noise_var, res.df_model, res.rsquared]),
        median=list(res.median_model()),
    )
", local = TRUE)$spike_reference
  reference(as.double(y), x, rows, model, fit, 1 - level)
}

expect_spike_as_python <- function(ours, y, x, newdata, rows, ...) {
  py <- python_spike(y, x, rows, ...)
  expect_close(coef(ours), py$coef)
  expect_close(ours$bse, py$bse)
  expect_close(vcov(ours), py$cov)
  expect_close(confint(ours, level = 0.9), py$ci)
  expect_close(fitted(ours), py$fitted)
  expect_close(inclusion_prob(ours), py$pip)
  expect_close(ours$prior_inclusion, py$prior)
  expect_close(ours$cond_mean, py$cond_mean)
  expect_close(ours$cond_var, py$cond_var)
  expect_close(c(ours$log_evidence, ours$slab_var, ours$noise_var, ours$df_model, ours$rsquared), py$scalars)
  expect_length(median_model(ours), length(py$median))
  for (where in c("new", "own")) {
    data <- if (where == "new") newdata
    credible <- predict(ours, data, "credible", level = 0.9, se.fit = TRUE)
    expect_close(cbind(credible$fit[, 1], credible$se.fit, credible$fit[, 2:3]), py[[where]][, 1:4])
    expect_close(predict(ours, data, "prediction", level = 0.9)[, 2:3], py[[where]][, 5:6])
  }
}

spike_cases <- list(
  auto = list(),
  ep = list(method = "ep"),
  damped = list(method = "damped"),
  pcep = list(method = "pcep"),
  given = list(prior_inclusion = 0.3, slab_var = 2, noise_var = 5),
  average = list(method = "ep", hyper = "average")
)

for (case in names(spike_cases)) {
  test_that(paste("R has Python's numbers: spike and slab,", case), {
    skip_without_python()
    given <- spike_cases[[case]]
    in_model <- names(given) %in% c("prior_inclusion", "slab_var", "noise_var")
    x <- as.matrix(mtcars[-1])
    fit <- suppressWarnings(do.call(spike_slab, c(list(mpg ~ ., mtcars, model = TRUE), given)))
    expect_spike_as_python(
      fit, mtcars$mpg, x, mtcars[c(2, 9), ], x[c(2, 9), ],
      model = given[in_model], fit = given[!in_model]
    )
  })
}

test_that("a 60 x 300 matrix, unpenalised columns and weights", {
  skip_without_python()
  set.seed(1)
  x <- matrix(rnorm(60 * 300), 60)
  y <- drop(x[, 1:3] %*% c(3, -2, 2)) + rnorm(60)
  fit <- suppressWarnings(spike_slab(x = x, y = y, method = "ep"))
  rows <- matrix(rnorm(2 * 300), 2)
  py <- python_spike(y, x, rows, fit = list(method = "ep"))
  expect_close(coef(fit), py$coef)
  expect_close(fit$bse, py$bse)
  expect_close(inclusion_prob(fit), py$pip)
  expect_close(confint(fit, level = 0.9), py$ci)
  expect_close(predict(fit, rows, "prediction", level = 0.9)[, 2:3], py$new[, 5:6])
  expect_close(predict(fit, rows, "credible", level = 0.9)[, 2:3], py$new[, 3:4])
  expect_identical(median_model(fit), c("x1", "x2", "x3"))
  # A mixture keeps the rows of each member.
  one <- suppressWarnings(spike_slab(x = x, y = y, method = "ep", hyper = "maximize"))
  expect_lt(length(serialize(one, NULL)), 1250 * ncol(x) + 8 * length(x))
  expect_output(print(summary(fit)), "271 coefficients of smaller inclusion probability are left out")
  d <- mtcars
  w <- d$w <- seq(0.5, 2, length.out = 32)
  x <- without_ones(model.matrix(mpg ~ wt + factor(cyl) + hp, mtcars))
  fit <- spike_slab(
    mpg ~ wt + factor(cyl) + hp, d,
    weights = w, unpenalized = "factor(cyl)", model = TRUE,
    prior_inclusion = c(wt = 0.9, hp = 0.1, "factor(cyl)6" = 1, "factor(cyl)8" = 1)
  )
  expect_identical(unname(inclusion_prob(fit)[3:4]), c(1, 1))
  expect_spike_as_python(
    fit, mtcars$mpg, x, mtcars[3:4, ], x[3:4, ],
    model = list(weights = w, unpenalized = c(1, 2), prior_inclusion = c(0.9, 1, 1, 0.1))
  )
})

test_that("draws have the moments of the posterior", {
  skip_without_python()
  set.seed(5)
  fits <- list(
    spike_slab(mpg ~ wt + hp + qsec + drat, mtcars, unpenalized = "hp", method = "ep"),
    suppressWarnings(spike_slab(mpg ~ wt + hp + qsec + drat, mtcars, method = "ep", hyper = "average")),
    {
      x <- matrix(rnorm(20 * 100), 20)
      suppressWarnings(spike_slab(
        x = x, y = drop(x[, 1] * 2 + rnorm(20)), method = "ep", prior_inclusion = 0.05, slab_var = 2, noise_var = 1
      ))
    }
  )
  for (fit in fits) {
    sd <- sqrt(diag(vcov(fit)))
    gaussian <- posterior_sample(fit, 20000, kind = "gaussian")
    expect_lt(max(abs(colMeans(gaussian) - coef(fit)) / fit$bse), 5 / sqrt(20000))
    expect_lt(max(abs(apply(gaussian, 2, stats::sd) / sd - 1)), 0.05)
    expect_lt(max(abs(cor(gaussian) - cov2cor(vcov(fit)))), 0.05)
    draws <- posterior_sample(fit, 20000)
    expect_lt(max(abs(colMeans(draws) - coef(fit)) / fit$bse), 5 / sqrt(20000))
    penalized <- fit$posterior$at
    # Five standard errors of a standard deviation, whose kurtosis is 3 / probability where the rest is zero.
    error <- 5 * sqrt(3 / inclusion_prob(fit) / 20000) / 2
    expect_lt(max((abs(apply(draws, 2, stats::sd) / sd - 1) / error)[penalized]), 1)
  }
  y <- simulate(fits[[1]], 5000, seed = 1, newdata = mtcars[1:2, ])
  p <- predict(fits[[1]], mtcars[1:2, ], "prediction")
  expect_lt(max(abs(t(apply(as.matrix(y), 1, quantile, c(0.025, 0.975))) - p[, 2:3])), 0.06 * max(p[, 3] - p[, 2]))
})

test_that("spike-and-slab fits answer like the others", {
  skip_without_python()
  fit <- spike_slab(mpg ~ ., mtcars)
  expect_output(print(fit), "median model")
  expect_output(print(summary(fit)), "Pr\\(incl\\.\\)")
  expect_identical(colnames(summary(fit)$coefficients)[5], "Pr(incl.)")
  expect_close(as.numeric(logLik(fit)), fit$log_evidence)
  expect_close(sigma(fit)^2, fit$noise_var)
  expect_named(inclusion_prob(fit), names(coef(fit)))
  expect_s3_class(update(fit, . ~ wt + hp), "spike_slab")
  pdf(NULL)
  on.exit(dev.off())
  expect_silent(plot(fit))
  expect_silent(plot(fit, which = "coefficients"))
  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE)
  expect_named(tidied, c("term", "estimate", "std.error", "inclusion_prob", "inclusion_se", "conf.low", "conf.high"))
  glanced <- generics::glance(fit)
  expect_true(all(c("slab_var", "prior_inclusion", "expected_size", "logLik") %in% names(glanced)))
  expect_true(".fitted" %in% names(generics::augment(fit)))
})

test_that("bad input to spike_slab is refused", {
  skip_without_python()
  expect_error(spike_slab(cbind(mpg, hp) ~ wt, mtcars), "one response, got 2")
  expect_error(spike_slab(mpg ~ wt + hp, mtcars, prior_inclusion = c(0.1, 0.2, 0.3)), "there are 2 columns")
  expect_error(spike_slab(mpg ~ wt, mtcars, prior_inclusion = 1.5), "probability lies between 0 and 1")
  expect_error(spike_slab(mpg ~ wt + hp, mtcars, prior_inclusion = c(wt = 0.1, x = 0.2)), "not columns")
  expect_error(spike_slab(mpg ~ wt, mtcars, slab_var = -1), "slab_var must be positive")
  expect_error(spike_slab(mpg ~ wt, mtcars, method = "em"), "should be one of .*auto.*, .*exact.*, .*ep.*, .*damped.*, .*pcep")
  expect_error(hyperparameters(spike_slab(mpg ~ wt, mtcars, method = "ep")), "bayes_ridge")
})

test_that("a fit starts where another ended, and says when it cannot", {
  skip_without_python()
  given <- function(...) {
    spike_slab(mpg ~ ., mtcars, method = "ep", prior_inclusion = 0.3, slab_var = 2, noise_var = 5, ...)
  }
  first <- given(tol = 1e-9)
  expect_lte(given(tol = 1e-6, start = first)$n_iter, 1L)
  file <- tempfile()
  saveRDS(first, file)
  expect_close(coef(given(start = readRDS(file))), coef(first), 1e-6)
  expect_error(spike_slab(mpg ~ wt, mtcars, method = "ep", start = first), "other columns")
  expect_error(spike_slab(mpg ~ wt, mtcars, start = 1), "must be a fit of spike_slab")
})

test_that("fits are compared by evidence", {
  skip_without_python()
  small <- spike_slab(mpg ~ wt, mtcars)
  large <- spike_slab(mpg ~ wt + hp + qsec, mtcars)
  table <- compare_evidence(small, large)
  expect_setequal(rownames(table), c("small", "large"))
  expect_identical(table$difference[1], 0)
  expect_equal(sum(table$probability), 1)
  expect_identical(table["small", "log_evidence"], small$log_evidence)
  expect_identical(rownames(compare_evidence(list(a = small))), "a")
  expect_error(compare_evidence(small, spike_slab(mpg ~ wt, mtcars[1:20, ])), "other rows")
  tiny <- transform(mtcars, mpg = mpg * 1e-12, other = rev(mpg) * 1.1e-12)
  names(tiny)[names(tiny) == "mpg"] <- "y"
  elsewhere <- transform(tiny, y = other)
  expect_error(compare_evidence(spike_slab(y ~ wt, tiny), spike_slab(y ~ wt, elsewhere)), "another response")
  expect_error(compare_evidence(small, 1), "not a fit of spike_slab")
  expect_error(compare_evidence(), "no fits")
})

test_that("terms are in or out together, unless columns are wanted", {
  skip_without_python()
  given <- list(prior_inclusion = 0.4, slab_var = 1, noise_var = 6)
  x <- without_ones(model.matrix(mpg ~ factor(cyl) + wt + poly(hp, 2), mtcars))
  fit_with <- function(...) {
    do.call(spike_slab, c(list(mpg ~ factor(cyl) + wt + poly(hp, 2), mtcars, model = TRUE), given, list(...)))
  }
  by_term <- fit_with()
  expect_spike_as_python(
    by_term, mtcars$mpg, x, mtcars[3:4, ], x[3:4, ],
    model = c(given, list(group = c(1, 1, 2, 3, 3)))
  )
  p <- inclusion_prob(by_term, by = "group")
  expect_identical(names(p), c("factor(cyl)", "wt", "poly(hp, 2)"))
  expect_identical(unname(inclusion_prob(by_term)[2:3]), rep(p[["factor(cyl)"]], 2))
  expect_output(print(summary(by_term)), "Inclusion probabilities of terms")
  by_column <- fit_with(group = NULL)
  expect_spike_as_python(by_column, mtcars$mpg, x, mtcars[3:4, ], x[3:4, ], model = given)
  expect_false(grepl("of terms", paste(capture.output(print(summary(by_column))), collapse = " ")))
  listed <- fit_with(group = list(both = c("factor(cyl)6", "wt")))
  labelled <- spike_slab(
    x = x, y = mtcars$mpg, group = c("a", "b", "a", "c", "d"),
    prior_inclusion = 0.4, slab_var = 1, noise_var = 6
  )
  expect_close(coef(listed), coef(labelled))
  expect_identical(names(inclusion_prob(listed, "group"))[1], "both")
  for (wrong in list("column", 1:3, list("nothing"), list(wt = "factor(cyl)6"), list("wt", "wt"))) {
    expect_error(fit_with(group = wrong), "group")
  }
})

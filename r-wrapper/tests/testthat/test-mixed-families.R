# Groups, curves and bands for responses that are not Gaussian, against Python.

# Means of quantiles of mixtures over variances; laws of variances are tables.
mixtures_over_variances <- 1e-7
tables_of_points <- 2e-3

# Monte Carlo: ten standard errors of the upper end of a share, of 4,000 draws in each language.
draws_of_shares <- 0.1

mixed_counts <- function() {
  set.seed(8)
  d <- data.frame(g = rep(letters[1:8], each = 6), x = rep(-2:3, 8) / 2, t = rep(c(1, 2, 4), 16), m = rep(c(1, 5, 9), 16))
  u <- rnorm(8)[match(d$g, letters)]
  d$n <- rpois(48, d$t * exp(0.4 * d$x + u))
  d$k <- rbinom(48, d$m, stats::plogis(d$x + u))
  d$y <- d$x + u + rt(48, 3)
  d
}

# The method and its accuracy, as `fit`.
python_mixed <- function(d, new, formula, family, ..., fit = list(tol = 0.05)) {
  reference <- reticulate::py_run_string("
def reference(d, new, formula, family, extent, fit):
    import warnings
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = (pd.DataFrame(f).replace('missing', np.nan) for f in (d, new))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = BayesRidge.from_formula(formula, d, family=family, unpenalized='fixed', **extent).fit(**fit)
    own = {'exposure': 't'} if 'exposure' in extent else {}
    def frame(**how):
        return res.get_prediction(new, **own, **how).summary_frame(0.1).filter(regex='^mean').to_numpy()
    trials = {'trials': 10} if 'trials' in extent else {}
    def ends(**how):
        return res.get_prediction(new, **own, **trials, **how).conf_int(0.1, obs=True)
    loo = res.loo()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        components=res.variance_components(0.1).to_numpy(), hyper=res.hyperparameters(0.1).to_numpy(),
        loo=np.asarray(loo.pointwise), p=loo.p_loo, explained=np.asarray(res.explained_variance(0.1)), ratios=res.ratios(0.1).to_numpy() if family != 'student-t' else None,
        ends=ends(), ends_zero=ends(new_levels='zero'), ends_population=ends(groups=False),
        sample=frame(), zero=frame(new_levels='zero'), population=frame(groups=False), linear=frame(which='linear'),
    )
", local = TRUE)$reference
  plain <- function(f) lapply(f, function(a) if (is.numeric(a)) a else ifelse(is.na(a), "missing", a))
  reference(plain(d), plain(new), formula, family, reticulate::dict(...), fit)
}

mixed_fit <- local({
  kept <- list()
  function(name) {
    if (is.null(kept[[name]])) {
      kept[[name]] <<- switch(name,
        binomial = bayes_ridge(cbind(k, m - k) ~ x + (1 | g), mixed_counts(), family = binomial(), unpenalized = "fixed", tol = 0.05),
        poisson = bayes_ridge(n ~ x + (x | g) + offset(log(t)), mixed_counts(), family = poisson(), unpenalized = "fixed", tol = 0.05),
        negative = bayes_ridge(n ~ x + (1 | g) + offset(log(t)), mixed_counts(), family = "negative-binomial", unpenalized = "fixed", method = "laplace", tol = 0.3),
        beta = bayes_ridge(cbind(k, m - k) ~ x + (1 | g), mixed_counts(), family = "beta-binomial", unpenalized = "fixed", method = "laplace", tol = 0.3),
        student = bayes_ridge(y ~ x + (1 | g), mixed_counts(), family = "student-t", unpenalized = "fixed", method = "laplace", tol = 0.3)
      )
    }
    kept[[name]]
  }
})

expect_as_python <- function(fit, ref, new) {
  expect_close(coef(fit), ref$coef, mixtures_over_variances)
  expect_close(confint(fit, level = 0.9), ref$ci, mixtures_over_variances)
  expect_close(vcov(fit), ref$cov, mixtures_over_variances)
  expect_lt(max(abs(unlist(explained_variance(fit, 0.9)) - as.vector(ref$explained))), draws_of_shares)
  found <- as.matrix(variance_components(fit, 0.9))
  expect_close(found, ref$components, tables_of_points)
  expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, tables_of_points)
  for (name in c("sample", "zero", "population", "linear")) {
    how <- list(sample = list(), zero = list(new_levels = "zero"), population = list(re_form = NA), linear = list(type = "link"))[[name]]
    found <- do.call(predict, c(list(fit, new, interval = "credible", level = 0.9, se.fit = TRUE), how))
    expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), ref[[name]], mixtures_over_variances)
  }
  if (requireNamespace("loo", quietly = TRUE)) {
    scores <- loo::loo(fit)
    expect_close(scores$pointwise[, 1], ref$loo, mixtures_over_variances)
    expect_close(scores$estimates["p_loo", 1], ref$p, 1e-5)
  }
}

test_that("mixed logistic models are those of Python", {
  skip_without_python()
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA))
  fit <- mixed_fit("binomial")
  d <- mixed_counts()
  ref <- python_mixed(d, new, "k ~ x + (1 | g)", "binomial", trials = "m")
  expect_as_python(fit, ref, new)
  expect_close(as.matrix(odds_ratios(fit, 0.9)), ref$ratios, mixtures_over_variances)
  expect_identical(VarCorr(fit)$grp, "g")
  expect_identical(dimnames(ranef(fit)$g), list(letters[1:8], "(Intercept)"))
})

test_that("mixed Poisson models with correlated slopes are those of Python", {
  skip_without_python()
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA), t = c(1, 2, 3))
  fit <- mixed_fit("poisson")
  ref <- python_mixed(mixed_counts(), new, "n ~ x + (x | g)", "poisson", exposure = "t")
  expect_as_python(fit, ref, new)
  expect_close(as.matrix(rate_ratios(fit, 0.9)), ref$ratios, mixtures_over_variances)
  expect_identical(VarCorr(fit)$var2, c(NA, NA, "x"))
})

# Scores of linear predictors go to other ends than in Python, and components of little weight are left out.
ends_of_new_responses <- 1e-4

# New responses, also of groups that the fit has not seen: counts and successes equal, others to where Python's search ends.
expect_new_as_python <- function(fit, ref, new, tolerance = 0, ...) {
  how <- list(ends = list(), ends_zero = list(new_levels = "zero"), ends_population = list(re_form = NA))
  for (name in names(how)) {
    found <- do.call(predict, c(list(fit, new, interval = "prediction", level = 0.9, ...), how[[name]]))
    expect_close(found[, c("lwr", "upr")], ref[[name]], tolerance)
  }
}

expect_shape_as_python <- function(fit, ref, name) {
  further <- as.matrix(hyperparameters(fit, 0.9))[name, ]
  expect_close(further, utils::tail(ref$hyper, length(name)))
  expect_identical(rownames(summary(fit)$hyperparameters), name)
}

# Draws have the variances of nodes, of which there are few.
medians_of_coarse_nodes <- 0.3

coarse <- list(method = "laplace", tol = 0.3)

test_that("mixed models of negative binomial counts are those of Python", {
  skip_without_python()
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA), t = c(1, 2, 3))
  fit <- mixed_fit("negative")
  ref <- python_mixed(mixed_counts(), new, "n ~ x + (1 | g)", "negative-binomial", exposure = "t", fit = coarse)
  expect_as_python(fit, ref, new)
  expect_new_as_python(fit, ref, new)
  expect_shape_as_python(fit, ref, "alpha")
  expect_close(as.matrix(rate_ratios(fit, 0.9)), ref$ratios, mixtures_over_variances)
  given <- bayes_ridge(n ~ x + (1 | g), mixed_counts(), family = "negative-binomial", dispersion = 0.5, method = "reml", unpenalized = "fixed")
  expect_identical(rownames(hyperparameters(given)), "sd[g]")
  expect_null(summary(given)$hyperparameters)
})

test_that("mixed models of beta-binomial shares are those of Python", {
  skip_without_python()
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA))
  fit <- mixed_fit("beta")
  ref <- python_mixed(mixed_counts(), new, "k ~ x + (1 | g)", "beta-binomial", trials = "m", fit = coarse)
  expect_as_python(fit, ref, new)
  expect_new_as_python(fit, ref, new, trials = 10)
  expect_shape_as_python(fit, ref, "alpha")
  expect_close(as.matrix(odds_ratios(fit, 0.9)), ref$ratios, mixtures_over_variances)
})

test_that("mixed models with Student-t noise are those of Python", {
  skip_without_python()
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA))
  fit <- mixed_fit("student")
  ref <- python_mixed(mixed_counts(), new, "y ~ x + (1 | g)", "student-t", fit = coarse)
  expect_as_python(fit, ref, new)
  expect_new_as_python(fit, ref, new, ends_of_new_responses)
  expect_shape_as_python(fit, ref, c("sigma", "df"))
  expect_error(bayes_ridge(y ~ x + (1 | g), mixed_counts(), family = "student-t", method = "fixed", lam = 1:2), "relative to the unknown scale of the noise")
})

test_that("fits work in a session without Python", {
  skip_without_python()
  names <- c("binomial", "poisson", "negative", "beta", "student")
  files <- vapply(names, function(name) {
    file <- tempfile(fileext = ".rds")
    saveRDS(mixed_fit(name), file)
    file
  }, "")
  code <- sprintf(
    "library(pybayesridge); stopifnot(!reticulate::py_available()); n <- data.frame(x = 1, g = c('a', 'new'), t = 2); for (file in c(%s)) { f <- readRDS(file); p <- predict(f, n, interval = 'credible'); stopifnot(!anyNA(hyperparameters(f)), all(is.finite(c(p, predict(f, n, interval = 'prediction', trials = if (!is.null(f$trials)) 9), predict(f, n, re_form = NA), confint(f), vcov(f), unlist(simulate(f, 2, seed = 1)))))); s <- summary(f) }; cat('done')",
    paste0("'", files, "'", collapse = ", ")
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(mixed_fit("poisson"))), "Poisson family, log link.*Bands:.*cor\\(g, x\\|g\\)")
  expect_output(print(summary(mixed_fit("student"))), "Student-t noise.*Bands:.*Hyperparameters:.*sigma.*df")
})

test_that("draws have the moments of the posterior and of variances", {
  skip_without_python()
  for (name in c("binomial", "poisson", "negative", "beta", "student")) {
    fit <- mixed_fit(name)
    set.seed(1)
    draws <- posterior_sample(fit, 4000, hyper = TRUE)
    k <- length(coef(fit))
    expect_lt(max(abs(colMeans(draws[, seq_len(k)]) - coef(fit)) / fit$bse * sqrt(4000)), 4.5)
    expect_lt(max(abs(apply(draws[, seq_len(k)], 2, sd) / fit$bse - 1)), 0.1)
    expect_lt(abs(median(sqrt(draws[, "tau2[g]"])) / hyperparameters(fit)["sd[g]", "median"] - 1), if (name %in% c("binomial", "poisson")) 0.1 else medians_of_coarse_nodes)
    shape <- shape_table(fit, 0.95)[1, ]
    if (!is.null(shape)) expect_lt(abs(mean(draws[, rownames(shape)]) - shape$mean) / sd(draws[, rownames(shape)]) * sqrt(4000), 4.5)
    share <- explained_variance(fit)
    expect_true(share$lower < share$mean && share$mean < share$upper)
  }
})

test_that("other tables, questions and files know the bands", {
  skip_without_python()
  fit <- mixed_fit("binomial")
  if (requireNamespace("generics", quietly = TRUE)) {
    expect_identical(generics::tidy(fit, effects = "ran_pars", conf.int = TRUE)$term, "sd__(Intercept)")
    expect_identical(generics::tidy(fit)$term, c("(Intercept)", "x"))
    tables <- lapply(c(FALSE, TRUE), function(ratios) {
      generics::tidy(fit, conf.int = TRUE, exponentiate = ratios, effects = c("fixed", "ran_vals", "ran_pars"))
    })
    scaled <- c("estimate", "conf.low", "conf.high")
    fixed <- tables[[1]]$effect == "fixed"
    expect_equal(log(as.matrix(tables[[2]][fixed, scaled])), as.matrix(tables[[1]][fixed, scaled]))
    expect_equal(tables[[2]][!fixed, ], tables[[1]][!fixed, ])
    expect_equal(tables[[2]]$std.error, tables[[1]]$std.error)
  }
  expect_close(contrast(fit, "`g[a]` - `g[b]`")$mean, coef(fit)["g[a]"] - coef(fit)["g[b]"], mixtures_over_variances)
  expect_identical(nrow(ppc(fit, "mean", draws = 100)), 1L)
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(coef(again), coef(fit))
  expect_error(simulate(fit, newdata = data.frame(x = 1, g = "new")), "the fit has not seen")
  expect_error(residuals(fit, "none"), "should be one of")
  curve <- bayes_ridge(n ~ s(x, k = 4) + offset(log(t)), mixed_counts(), family = poisson(), method = "reml", unpenalized = "fixed")
  expect_named(smooth_curve(curve, at = 0), c("x", "mean", "sd", "lower", "upper"))
  banded <- bayes_ridge(n ~ x + t + m, mixed_counts(), family = poisson(), bands = list(a = "x"), method = "fixed", lam = c(1, 2))
  expect_identical(rownames(variance_components(banded)), c("a", "other"))
})

# Averages of the logistic function over normal variables, and standard deviations of 4,000 draws each.
averages_of_probabilities <- 1e-6
drawn_deviations <- 0.1

test_that("cumulative mixed models are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new, levels):
    import warnings
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = (pd.DataFrame(f).replace('missing', np.nan) for f in (d, new))
    d['r'] = pd.Categorical(d['r'], levels, ordered=True)
    model = BayesRidge.from_formula('r ~ x + (1 | g)', d, family='ordinal', unpenalized='fixed')
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = model.fit(tol=0.05)
    loo = res.loo()
    how = dict(sample={}, zero={'new_levels': 'zero'}, population={'groups': False})
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        cuts=res.cut_points(0.1).to_numpy(), components=res.variance_components(0.1).to_numpy(),
        hyper=res.hyperparameters(0.1).to_numpy(), loo=np.asarray(loo.pointwise), p=loo.p_loo,
        linear=res.get_prediction(new, which='linear').summary_frame(0.1).to_numpy(),
        **{name: res.predict(new, **given).to_numpy() for name, given in how.items()},
        **{'se_' + name: np.asarray(res.get_prediction(new, **given).se) for name, given in how.items()},
    )
", local = TRUE)$reference
  d <- mixed_counts()
  set.seed(2)
  d$r <- cut(d$x + rnorm(8)[match(d$g, letters)] + rlogis(48), c(-Inf, -1, 0.5, Inf), labels = c("low", "mid", "high"), ordered_result = TRUE)
  new <- data.frame(x = c(-1, 0.5, 1), g = c("a", "new", NA))
  fit <- bayes_ridge(r ~ x + (1 | g), d, family = "ordinal", unpenalized = "fixed", tol = 0.05)
  plain <- function(f) lapply(f, function(a) if (is.factor(a)) as.character(a) else if (is.numeric(a)) a else ifelse(is.na(a), "missing", a))
  ref <- reference(plain(d), plain(new), as.list(levels(d$r)))
  expect_close(coef(fit), ref$coef, mixtures_over_variances)
  expect_close(confint(fit, level = 0.9), ref$ci, mixtures_over_variances)
  expect_close(vcov(fit), ref$cov, mixtures_over_variances)
  expect_close(as.matrix(cut_points(fit, 0.9)), ref$cuts, mixtures_over_variances)
  expect_close(as.matrix(variance_components(fit, 0.9)), ref$components, tables_of_points)
  expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, tables_of_points)
  linear <- predict(fit, new, type = "link", interval = "credible", level = 0.9, se.fit = TRUE)
  expect_close(cbind(linear$fit[, 1], linear$se.fit, linear$fit[, 2:3]), ref$linear, mixtures_over_variances)
  for (name in c("sample", "zero", "population")) {
    how <- list(sample = list(), zero = list(new_levels = "zero"), population = list(re_form = NA))[[name]]
    expect_close(do.call(predict, c(list(fit, new), how)), ref[[name]], averages_of_probabilities)
    found <- do.call(predict, c(list(fit, new, se.fit = TRUE), how))
    expect_close(found$se.fit, ref[[paste0("se_", name)]], drawn_deviations)
  }
  draws <- posterior_sample(fit, 500, hyper = TRUE)
  expect_identical(colnames(draws), c(names(coef(fit)), "low|mid", "mid|high", "tau2[g]"))
  expect_identical(VarCorr(fit)$grp, "g")
  expect_identical(rownames(summary(fit)$cut_points), c("low|mid", "mid|high"))
  expect_identical(levels(simulate(fit, 1, seed = 1)[[1]]), levels(d$r))
  if (requireNamespace("loo", quietly = TRUE)) {
    scores <- loo::loo(fit)
    expect_close(scores$pointwise[, 1], ref$loo, mixtures_over_variances)
    expect_close(scores$estimates["p_loo", 1], ref$p, 1e-5)
  }
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), new), predict(fit, new))
})

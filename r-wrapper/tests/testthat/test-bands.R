# Fits with several penalties, against Python's.

# Quantiles of mixtures, of which Python leaves out components that R keeps.
same_limits <- 1e-6

# The law of a share is a sum over points, of which R has a table.
same_shares <- 1e-4

data_of_groups <- function(n = 60) {
  set.seed(2)
  d <- data.frame(x = rnorm(n), t = rexp(n), g = sample(letters[1:5], n, TRUE), h = sample(c("p", "q"), n, TRUE))
  d$y <- d$x + sin(2 * d$t) + rnorm(5)[match(d$g, letters)] + rnorm(n)
  d$x[3] <- d$g[5] <- NA
  d
}

python_bands <- function(d, formula, new, weights = NULL) {
  reference <- reticulate::py_run_string("
def reference(d, new, formula, weights):
    import warnings
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = (pd.DataFrame(f).replace('missing', np.nan) for f in (d, new))
    given = {} if weights is None else {'weights': np.asarray(weights)}
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = BayesRidge.from_formula(formula, d, unpenalized='fixed', **given).fit()
    def frame(**how):
        return res.get_prediction(new, **how).summary_frame(0.1).to_numpy()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        components=res.variance_components(0.1).to_numpy(), loo=np.asarray(res.loo().pointwise),
        sample=frame(), zero=frame(new_levels='zero'), population=frame(groups=False),
    )
", local = TRUE)$reference
  plain <- function(f) lapply(f, function(a) if (is.numeric(a)) a else ifelse(is.na(a), "missing", a))
  reference(plain(d), plain(new), formula, weights)
}

fit_of <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) {
      kept <<- bayes_ridge(y ~ h + s(t, k = 5) + (x || g), data_of_groups(), unpenalized = "fixed")
    }
    kept
  }
})

test_that("numbers are those of Python", {
  skip_without_python()
  d <- data_of_groups()
  fit <- fit_of()
  new <- transform(d[c(1, 2, 4), ], g = c("a", "new", NA), t = c(0.1, 1, 9))
  ref <- python_bands(d, "y ~ h + s(t, k=5) + (x || g)", new)
  expect_close(coef(fit), ref$coef)
  expect_close(confint(fit, level = 0.9), ref$ci, same_limits)
  expect_close(vcov(fit), ref$cov)
  expect_close(ridge_deviations(fit), fit$bse)
  found <- as.matrix(variance_components(fit, 0.9))
  expect_close(found[, 1:5], ref$components[, 1:5], same_limits)
  expect_close(found[, 6:8], ref$components[, 6:8], same_shares)
  for (name in c("sample", "zero", "population")) {
    how <- list(sample = list(), zero = list(new_levels = "zero"), population = list(re_form = NA))[[name]]
    found <- do.call(predict, c(list(fit, new, interval = "credible", level = 0.9, se.fit = TRUE), how))
    wide <- do.call(predict, c(list(fit, new, interval = "prediction", level = 0.9), how))
    expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3], wide[, 2:3]), ref[[name]], same_limits)
  }
  skip_if_not_installed("loo")
  expect_close(loo::loo(fit)$pointwise[, 1], ref$loo)
})

test_that("weights, nested groups and missing values are those of Python", {
  skip_without_python()
  d <- data_of_groups()
  w <- seq(0.5, 2, length.out = nrow(d))
  fit <- bayes_ridge(y ~ x + (1 | g / h), d, weights = w, unpenalized = "fixed")
  ref <- python_bands(d, "y ~ x + (1 | g/h)", d[1:2, ], w)
  expect_close(coef(fit), ref$coef)
  expect_close(confint(fit, level = 0.9), ref$ci, same_limits)
  expect_length(fit$na.action, 2)
  expect_identical(nobs(bayes_ridge(y ~ (1 | g), d, subset = h == "p")), sum(d$h == "p" & !is.na(d$g)))
})

test_that("the argument bands takes lists, positions and labels", {
  skip_without_python()
  by_terms <- bayes_ridge(mpg ~ ., mtcars, bands = list(size = c("disp", "hp", "wt"), other = c("cyl", "drat", "qsec", "vs", "am", "gear", "carb")))
  x <- as.matrix(mtcars[, -1])
  by_place <- bayes_ridge(x = x, y = mtcars$mpg, bands = list(size = c(2, 3, 5)))
  labels <- ifelse(colnames(x) %in% c("disp", "hp", "wt"), "size", "other")
  by_label <- bayes_ridge(x = unname(x), y = mtcars$mpg, bands = labels)
  named <- bayes_ridge(mpg ~ ., mtcars, bands = rev(stats::setNames(labels, colnames(x))))
  for (fit in list(by_place, by_label, named)) expect_close(coef(fit), coef(by_terms), 1e-8)
  expect_identical(rownames(variance_components(by_place)), c("size", "other"))
  expect_error(bayes_ridge(mpg ~ wt, mtcars, bands = list("wt")), "a name for each band")
  expect_error(bayes_ridge(mpg ~ wt + hp, mtcars, bands = "a"), "one label for each of the 2 columns")
  expect_error(bayes_ridge(mpg ~ wt + hp, mtcars, bands = list(a = "q")), "band 'a' names 'q'")
  expect_error(bayes_ridge(mpg ~ wt + hp, mtcars, bands = list(a = "wt", b = "wt")), "already in band 'a'")
  expect_error(bayes_ridge(mpg ~ am + (1 | cyl), mtcars, bands = list(cyl = "am")), "which the formula makes itself")
  expect_error(bayes_ridge(mpg ~ wt + hp, mtcars, bands = list(a = "wt"), method = "gcv"), "with bands use")
})

test_that("several targets have tables of their own", {
  skip_without_python()
  fit <- bayes_ridge(cbind(mpg, qsec) ~ wt + hp + disp, mtcars, bands = list(a = "wt"))
  each <- lapply(c("mpg", "qsec"), function(name) bayes_ridge(stats::reformulate(c("wt", "hp", "disp"), name), mtcars, bands = list(a = "wt")))
  expect_close(coef(fit), c(coef(each[[1]]), coef(each[[2]])), 1e-3)
  expect_identical(dim(hyperparameters(fit)), c(6L, 6L))
  expect_close(variance_components(fit)$mean, c(variance_components(each[[1]])$mean, variance_components(each[[2]])$mean), 1e-2)
  expect_length(summary(fit)$bands, 2)
})

test_that("methods of mixed models answer", {
  skip_without_python()
  fit <- fit_of()
  effects <- ranef(fit)
  expect_identical(names(effects), "g")
  expect_identical(dimnames(effects$g), list(letters[1:5], c("(Intercept)", "x")))
  expect_identical(effects$g$x, unname(coef(fit)[paste0("x|g[", letters[1:5], "]")]))
  limits <- ranef(fit, intervals = TRUE, level = 0.8)
  expect_close(limits$lower, confint(fit, c(paste0("g[", letters[1:5], "]"), paste0("x|g[", letters[1:5], "]")), 0.8)[, 1])
  expect_false(any(grepl("g[", names(fixef(fit)), fixed = TRUE)))
  expect_length(fixef(fit), 2 + 1 + 3)
  table <- VarCorr(fit)
  expect_identical(table$grp, c("g", "g", "Residual"))
  expect_close(table$sdcor[1:2], variance_components(fit)[c("g", "x|g"), "mean"])
  expect_close(table$vcov, table$sdcor^2)
  skip_if_not_installed("nlme")
  expect_identical(nlme::fixef(fit), fixef(fit))
  expect_identical(nlme::VarCorr(fit), table)
  model <- nlme::lme(distance ~ age, nlme::Orthodont, random = ~1)
  expect_identical(ranef(model), nlme::ranef(model))
  expect_error(ranef(bayes_ridge(mpg ~ wt + hp, mtcars, bands = list(a = "wt"))), "terms such as")
  expect_error(variance_components(bayes_ridge(mpg ~ wt, mtcars)), "several penalties")
})

test_that("curves alone are differences of predictions", {
  skip_without_python()
  fit <- fit_of()
  found <- smooth_curve(fit, at = c(0.5, 1.5))
  expect_named(found, c("t", "mean", "sd", "lower", "upper"))
  rows <- predict(fit, data.frame(h = "p", t = c(0.5, 1.5), x = 0), re_form = NA)
  expect_close(diff(found$mean), diff(rows))
  expect_identical(nrow(smooth_curve(fit)), 101L)
  expect_error(smooth_curve(fit, "s(x)"), "'term' must be one of 's\\(t\\)'")
})

test_that("tidy tables are those of broom.mixed", {
  skip_without_python()
  skip_if_not_installed("generics")
  fit <- fit_of()
  expect_identical(generics::tidy(fit)$term, names(fixef(fit)))
  all <- generics::tidy(fit, effects = c("fixed", "ran_vals", "ran_pars"), conf.int = TRUE)
  expect_named(all, c("effect", "group", "level", "term", "estimate", "std.error", "conf.low", "conf.high"))
  expect_identical(utils::tail(all$term, 3), c("sd__(Intercept)", "sd__x", "sd__Observation"))
  expect_close(utils::tail(all$estimate, 3), VarCorr(fit)$sdcor)
  expect_error(generics::tidy(fit, effects = "random"), "'effects' must be among")
  expect_identical(nrow(generics::glance(fit)), 1L)
})

test_that("a fit works in a session without Python, and prints its bands", {
  skip_without_python()
  fit <- fit_of()
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); p <- predict(f, data.frame(h = 'p', t = 1, x = 0, g = 'new'), interval = 'prediction'); v <- variance_components(f); stopifnot(all(is.finite(c(p, as.matrix(v), confint(f), fixef(f))))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(fit)), "Bands:.*P\\(share<1%\\).*s\\(t\\)")
  expect_identical(deparse1(formula(fit)), "y ~ h + s(t, k = 5) + (x || g)")
  expect_identical(attr(terms(fit), "term.labels"), "h")
})

test_that("draws have the moments of the posterior, and of variances", {
  skip_without_python()
  fit <- fit_of()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  k <- length(coef(fit))
  expect_lt(max(abs(colMeans(draws[, seq_len(k)]) - coef(fit)) / fit$bse * sqrt(4000)), 4.5)
  expect_lt(max(abs(apply(draws[, seq_len(k)], 2, sd) / fit$bse - 1)), 0.1)
  sd_of_g <- sqrt(draws[, "tau2[g]"] * draws[, "sigma2"])
  expect_lt(abs(median(sd_of_g) / hyperparameters(fit)["sd[g]", "median"] - 1), 0.1)
  share <- explained_variance(fit)
  expect_true(share$lower < share$mean && share$mean < share$upper)
  expect_error(simulate(fit, newdata = data.frame(h = "p", t = 1, x = 0, g = "new")), "the fit has not seen")
  expect_identical(dim(simulate(fit, 2, seed = 1)), c(58L, 2L))
})

test_that("questions, reports, files and other packages know the bands", {
  skip_without_python()
  fit <- fit_of()
  expect_close(contrast(fit, "`g[a]` - `g[b]`")$mean, coef(fit)["g[a]"] - coef(fit)["g[b]"])
  expect_identical(nrow(effects(fit, "x")), 1L)
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(coef(again), coef(fit))
  expect_close(as.matrix(variance_components(again)), as.matrix(variance_components(fit)), same_limits)
  skip_if_not_installed("emmeans")
  means <- as.data.frame(summary(emmeans::emmeans(fit, ~h, at = list(t = 1)), point.est = mean))
  by_hand <- predict(fit, data.frame(h = c("p", "q"), t = 1, x = 0), re_form = NA)
  expect_lt(max(abs(means$emmean - by_hand)), 0.1)
})

test_that("a fit of Python with groups predicts new ones", {
  skip_without_python()
  file <- tempfile(fileext = ".fit")
  expected <- reticulate::py_run_string("
def write(path):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    rng = np.random.default_rng(3)
    d = pd.DataFrame({'x': rng.normal(size=30), 'g': list('abcdef') * 5})
    d['y'] = d['x'] + rng.normal(size=6)[np.arange(30) % 6] + rng.normal(size=30)
    res = BayesRidge.from_formula('y ~ x + (1 | g)', d).fit()
    res.save(path)
    new = pd.DataFrame({'x': [0.0, 1.0], 'g': ['a', 'new']})
    return [res.get_prediction(new, **how).summary_frame(0.1).to_numpy() for how in ({}, {'groups': False})]
", local = TRUE)$write(file)
  fit <- read_fit(file)
  new <- data.frame(x = 0:1, g = c("a", "new"))
  expect_close(predict(fit, new, interval = "credible", level = 0.9), expected[[1]][, c(1, 3, 4)], same_limits)
  expect_close(predict(fit, new, interval = "credible", level = 0.9, re_form = NA), expected[[2]][, c(1, 3, 4)], same_limits)
})

test_that("groups of a fit that Python saved are groups here, also with very many levels", {
  skip_without_python()
  file <- tempfile(fileext = ".fit")
  write <- reticulate::py_run_string("
def write(path, levels, formula):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    rng = np.random.default_rng(3)
    n = 4 * levels
    d = pd.DataFrame({'x': rng.normal(size=n), 'h': np.arange(n) % 7, 'g': [f'l{i:03d}' for i in np.arange(n) % levels]})
    d['y'] = d['x'] + rng.normal(size=levels)[np.arange(n) % levels] + rng.normal(size=7)[d['h']] + rng.normal(size=n)
    d['y'] += rng.normal(size=7)[d['h']] * d['x']
    res = BayesRidge.from_formula(formula, d, unpenalized='fixed').fit('reml')
    res.save(path)
    new = pd.DataFrame({'x': [0.0, 1.0], 'g': ['l000', 'new'], 'h': [0, 1]})
    effects = res.random_effects(alpha=0.1)
    return {
        'effects': effects[['mean', 'sd', 'lower', 'upper']].to_numpy(), 'fixed': res.params[:2].to_numpy(),
        'labels': [effects[name].astype(str).tolist() for name in ('group', 'level', 'term')],
        'sd': np.append(res.variance_components()['mean'], res.sigma2 ** 0.5),
        'new': res.get_prediction(new).summary_frame(0.1).to_numpy()[:, [0, 2, 3, 4, 5]],
    }
", local = TRUE)$write
  for (given in list(list(12L, "y ~ x + (1 | g) + (x | h)"), list(520L, "y ~ x + (1 | g) + (1 | h)"))) {
    expected <- write(file, given[[1L]], given[[2L]])
    fit <- read_fit(file)
    found <- ranef(fit, intervals = TRUE, level = 0.9)
    expect_identical(found$group, expected$labels[[1]])
    expect_identical(found$level, expected$labels[[2]])
    expect_identical(sub("(Intercept)", "Intercept", found$term, fixed = TRUE), expected$labels[[3]])
    expect_close(unname(as.matrix(found[4:7])), expected$effects, same_limits)
    expect_identical(names(fixef(fit)), c("(Intercept)", "x"))
    expect_close(unname(fixef(fit)), c(expected$fixed), same_limits)
    variances <- VarCorr(fit)
    count <- length(expected$sd)
    if (given[[1L]] == 520L) expect_close(variances$sdcor, c(expected$sd), same_limits)
    expect_identical(sum(is.na(variances$var2)), if (given[[1L]] == 520L) count else 4L)
    new <- data.frame(x = 0:1, g = c("l000", "new"), h = 0:1)
    expect_close(predict(fit, new, interval = "credible", level = 0.9), expected$new[, 1:3], same_limits)
    expect_close(predict(fit, new, interval = "prediction", level = 0.9), expected$new[, c(1, 4, 5)], same_limits)
    # R's own coding of the groups is Python's, with new, missing and other kinds of levels.
    odd <- data.frame(x = c(0, 1, NA, -1), g = c("l003", NA, "l001", "new"), h = c(0, 9, 3, NA))
    for (groups in c(TRUE, FALSE)) {
      own <- rows_with_groups(fit, odd, groups)
      by_python <- rows_of_python(fit, odd)
      if (!groups) by_python <- without_groups(fit, by_python)
      complete <- !is.na(odd$x)
      expect_identical(is.na(rowSums(own$x)), !complete, ignore_attr = TRUE)
      if (groups) {
        expect_equal(own$x[complete, ], by_python$x[complete, ])
        expect_equal(unseen_of(fit, own), unseen_of(fit, by_python))
      }
    }
    expect_equal(
      predict(fit, odd["x"], interval = "credible", re_form = NA), predict(fit, odd, interval = "credible", re_form = NA)
    )
    expect_equal(rows_with_groups(fit, transform(odd, h = as.character(h)), TRUE), rows_with_groups(fit, odd, TRUE))
    expect_null(rows_with_groups(fit, transform(odd, h = h + 0.5), TRUE))
    expect_null(rows_with_groups(fit, transform(odd, g = 1), TRUE))
    expect_identical(nrow(broom::tidy(fit)), 2L)
    expect_identical(nrow(broom::tidy(fit, effects = "ran_vals")), nrow(expected$effects))
  }
})

test_that("restricted maximum likelihood is that of lme4", {
  skip_without_python()
  skip_if_not_installed("lme4")
  d <- lme4::sleepstudy
  theirs <- lme4::lmer(Reaction ~ Days + (Days || Subject), d)
  ours <- bayes_ridge(Reaction ~ Days + (Days || Subject), d, unpenalized = "fixed", method = "reml")
  # lmer() stops early.
  expect_close(VarCorr(ours)$sdcor, as.data.frame(lme4::VarCorr(theirs))$sdcor, 1e-4)
  expect_close(fixef(ours), lme4::fixef(theirs), 1e-6)
  expect_close(as.matrix(ranef(ours)$Subject), as.matrix(lme4::ranef(theirs)$Subject), 1e-4)
  expect_error(logLik(ours), "integrated out or given")
})

test_that("effects of groups are drawn", {
  skip_without_python()
  fit <- fit_of()
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(fit, "random_effects"), fit)
  expect_error(plot(bayes_ridge(mpg ~ wt, mtcars), "random_effects"), "'which' must be")
  skip_if_not_installed("ggplot2")
  expect_identical(nrow(ggplot2::autoplot(fit, "random_effects")$data), 10L)
})

test_that("imputed data with groups are pooled", {
  skip_without_python()
  d <- stats::na.omit(data_of_groups())
  other <- transform(d, x = x + 0.1 * cos(seq_along(x)))
  pooled <- fit_imputed(list(d, other), function(data) bayes_ridge(y ~ x + s(t, k = 4) + (1 | g), data))
  expect_true(all(is.finite(confint(pooled))))
  expect_error(predict(pooled, transform(d[1, ], g = "new"), interval = "credible"), "does not know the group")
  expect_error(fit_imputed(list(d, other), function(data) bayes_ridge(y ~ s(x, k = 4), data)), "different knots")
})

test_that("a standard deviation that does not exist is Inf, and a finding says so", {
  skip_without_python()
  set.seed(1)
  d <- data.frame(g = rep(c("a", "b"), 20), h = rep(c("a", "b", "c", "d"), 10), y = rnorm(40))
  two <- bayes_ridge(y ~ 1 + (1 | g), d)
  expect_identical(variance_components(two)$sd, Inf)
  expect_true(all(is.finite(as.matrix(variance_components(two)[c("mean", "lower", "upper", "share")]))))
  expect_true("no-variance" %in% two$findings$code)
  four <- bayes_ridge(y ~ 1 + (1 | h), d)
  expect_true(is.finite(variance_components(four)$sd))
  expect_false("no-variance" %in% four$findings$code)
})

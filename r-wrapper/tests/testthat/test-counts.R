# Counts: exposures in R's forms, and all numbers against Python's.

# Fits in Python what R's bayes_ridge() fits; `x` and `rows` without R's column of ones.
python_counts <- function(y, x, rows, ..., exposure = NULL, weights = NULL, new_exposure = NULL, level = 0.9) {
  reference <- reticulate::py_run_string("
def reference(y, x, rows, exposure, weights, new_exposure, fit, alpha):
    import warnings
    import numpy as np
    from pybayesridge import BayesRidge
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = BayesRidge(y, x, family='poisson', exposure=exposure, weights=weights).fit(**(fit or {}))
        loo = res.loo() if np.isfinite(res.loo_log_score) else None
    own, new = (
        [res.get_prediction(at, which=which, exposure=e).summary_frame(alpha).filter(regex='^mean').to_numpy() for which in ('mean', 'linear')]
        for at, e in ((None, None), (rows, new_exposure))
    )
    return dict(
        coef=np.asarray(res.params), bse=np.asarray(res.bse), cov=np.asarray(res.cov_params()) if np.isfinite(res.bse).all() else None,
        ci=np.asarray(res.conf_int(alpha)), fitted=np.asarray(res.fittedvalues), resid=np.asarray(res.resid),
        own=own, new=new, hyper=res.hyperparameters(alpha).to_numpy(), log_marginal=res.log_marginal,
        loo=np.asarray(res.loo_means), scores=[res.loo_log_score, res.loo_deviance], events=res.n_events,
        rates=res.rate_ratios(alpha).to_numpy(), elpd=loo and loo.elpd, p_loo=loo and loo.p_loo,
    )
", local = TRUE)$reference
  reference(as.double(y), x, rows, exposure, weights, new_exposure, if (...length()) list(...), 1 - level)
}

# Means over normal densities are by another rule than Python's.
integrated <- 1e-7

expect_counts <- function(fit, newdata, py, ..., level = 0.9) {
  expect_close(coef(fit), py$coef)
  expect_close(fit$bse, py$bse)
  expect_close(vcov(fit), py$cov)
  expect_close(confint(fit, level = level), py$ci)
  expect_close(fitted(fit), py$fitted)
  expect_close(residuals(fit), py$resid)
  expect_close(c(fit$loo_log_score, fit$loo_deviance), unlist(py$scores))
  expect_close(fit$loo_means, py$loo)
  expect_identical(fit$n_events, py$events)
  expect_close(as.numeric(logLik(fit)), py$log_marginal)
  expect_close(as.matrix(hyperparameters(fit, level)), py$hyper)
  expect_close(as.matrix(rate_ratios(fit, level)), py$rates)
  for (where in c("own", "new")) {
    given <- if (where == "own") list(fit) else list(fit, newdata, ...)
    for (type in c("response", "link")) {
      expected <- py[[where]][[if (type == "response") 1 else 2]]
      found <- do.call(predict, c(given, list(type = type, interval = "credible", level = level, se.fit = TRUE)))
      expect_close(found$fit, expected[, c(1, 3, 4)])
      expect_close(found$se.fit, expected[, 2])
      expect_close(do.call(predict, c(given, list(type = type))), expected[, 1])
    }
  }
}

d <- within(esoph, {
  years <- 1 + (seq_len(nrow(esoph)) %% 5) / 2
  n <- ncases + 2
  w <- 1 + seq_len(nrow(esoph)) %% 2
})
x <- unname(without_ones(model.matrix(~ agegp + tobgp + alcgp, d)))
at <- c(5, 50)

test_that("R has Python's numbers, with exposures in three forms", {
  skip_without_python()
  for (method in c("ep", "laplace", "em", "loocv", "fixed")) {
    given <- c(list(method = method), if (method == "fixed") list(lam = 3))
    fit <- do.call(bayes_ridge, c(list(n ~ agegp + tobgp + alcgp, d, family = poisson()), given))
    expect_counts(fit, d[at, ], do.call(python_counts, c(list(d$n, x, x[at, ]), given)))
  }
  py <- python_counts(d$n, x, x[at, ], exposure = d$years, weights = d$w, new_exposure = d$years[at])
  of_argument <- bayes_ridge(n ~ agegp + tobgp + alcgp, d, family = "poisson", exposure = years, weights = w)
  expect_counts(of_argument, d[at, ], py, exposure = d$years[at])
  expect_close(predict(of_argument, d[at, ], exposure = "years"), py$new[[1]][, 1])
  expect_close(predict(of_argument, d[at, ]) * d$years[at], py$new[[1]][, 1])
  of_formula <- bayes_ridge(n ~ agegp + tobgp + alcgp + offset(log(years)), d, family = poisson, weights = w)
  again <- python_counts(d$n, x, x[at, ], exposure = exp(log(d$years)), weights = d$w, new_exposure = d$years[at])
  expect_counts(of_formula, d[at, ], again)
  of_matrix <- bayes_ridge(x = x, y = d$n, family = poisson(), exposure = d$years, weights = d$w)
  expect_counts(of_matrix, x[at, ], py, exposure = d$years[at])
  skip_if_not_installed("loo")
  score <- loo::loo(of_formula)
  expect_close(score$estimates[c("elpd_loo", "p_loo"), 1], c(again$elpd, again$p_loo), integrated)
  expect_s3_class(of_formula, c("bayes_ridge", "pybayesridge_generalized", "pybayesridge_fit"), exact = TRUE)
})

test_that("more columns than rows, large counts and one dominant count", {
  skip_without_python()
  set.seed(1)
  wide <- matrix(round(rnorm(10 * 30), 2), 10)
  for (y in list(c(0, 0, 3, 1, 0, 7, 2, 0, 1, 4), c(1e6, 9e5, 2e6, 1e6 + 1:7), c(rep(0, 9), 500))) {
    fit <- suppressWarnings(bayes_ridge(x = wide, y = y, family = poisson()))
    py <- python_counts(y, wide, wide[1:2, ])
    expect_close(coef(fit), py$coef)
    expect_close(predict(fit, wide[1:2, ], interval = "credible", level = 0.9), py$new[[1]][, c(1, 3, 4)])
    skip_if_not_installed("loo")
    if (sum(y > 0) == 1) {
      expect_error(loo::loo(fit), "row '10' has no leave-one-out density: without it all counts are 0")
    } else {
      expect_close(loo::loo(fit)$estimates[c("elpd_loo", "p_loo"), 1], c(py$elpd, py$p_loo), integrated)
    }
  }
})

test_that("what cannot be counts is refused", {
  skip_without_python()
  b <- transform(mtcars, none = 0, below = carb - 2, share = carb / 2, zero = carb - 1, lost = c(NA, carb[-1]), f = factor(gear))
  refused <- function(formula, message, ...) expect_error(bayes_ridge(formula, b, family = poisson(), ...), message)
  refused(none ~ wt, "all counts are 0.*at least one event")
  refused(below ~ wt, "the response is negative: row\\(s\\) 'Datsun 710'")
  refused(share ~ wt, "fractions \\(of rates give the counts.*row\\(s\\) 'Datsun 710'.*others")
  refused(f ~ wt, "takes counts, which are numbers, not factor")
  refused(cbind(carb, gear) ~ wt, "one count for each row, not 2 columns")
  expect_error(
    bayes_ridge(carb ~ wt, b, family = poisson(), exposure = zero),
    "'exposure' must be positive and finite, and not missing: not so in row\\(s\\) 'Datsun 710'"
  )
  refused(carb ~ wt + offset(log(zero)), "offset\\(\\) in the formula.*must be positive.*'Datsun 710'")
  expect_error(bayes_ridge(carb ~ wt + offset(log(gear)), b, family = poisson(), exposure = gear), "give exposures once")
  expect_error(bayes_ridge(carb ~ wt, b, family = poisson(), exposure = "gear"), "variable lengths differ")
  refused(carb ~ wt, "'sigma2' is for family = gaussian\\(\\)", sigma2 = 1)
  refused(carb ~ wt, "exact", method = "exact")
  expect_error(bayes_ridge(mpg ~ wt, b, exposure = gear), "'exposure' is for family = poisson\\(\\)")
  expect_error(bayes_ridge(am ~ wt, b, family = binomial(), exposure = gear), "'exposure' is for family = poisson\\(\\)")
  expect_error(bayes_ridge(am ~ wt + offset(gear), b, family = binomial()), "an offset is not supported$")
  expect_error(
    bayes_ridge(x = as.matrix(b["wt"]), y = b$carb, family = poisson(), exposure = b$lost),
    "'exposure' must be positive and finite, and not missing"
  )
  fit <- bayes_ridge(carb ~ wt, b, family = poisson())
  expect_error(sigma(fit), "not defined for a poisson fit")
  expect_error(odds_ratios(fit), "family = binomial\\(\\)")
  expect_error(rate_ratios(bayes_ridge(am ~ wt, b, family = binomial())), "family = poisson\\(\\)")
  expect_error(predict(fit, type = "link", interval = "prediction"), "needs type = \"response\"")
  expect_error(predict(fit, b[1:3, ], exposure = 1:2), "a number, or a numeric vector")
  expect_error(predict(fit, b[1:3, ], exposure = "hours"), "names 'hours'")
  expect_error(predict(fit, b[1:3, ], exposure = 0), "'exposure' must be positive and finite: not so")
  expect_error(pit(fit), "ppc\\(\\) checks counts")
  expect_error(plot(fit, "roc"), "'which' must be \"coefficients\"")
  of_formula <- bayes_ridge(carb ~ wt + offset(log(gear)), b, family = poisson())
  expect_error(predict(of_formula, b[1:3, ], exposure = 2), "leave out 'exposure'")
  expect_error(predict(of_formula, b[1:3, "wt", drop = FALSE]), "lacks the variable\\(s\\) 'gear'")
  expect_error(predict(of_formula, transform(b[1:3, ], gear = 0)), "not so in row\\(s\\) 'Mazda RX4'")
  missing <- bayes_ridge(carb ~ wt, transform(b, gear = c(NA, gear[-1])), family = poisson(), exposure = gear)
  expect_identical(nobs(missing), 31L)
  expect_match(summary(missing)$notes, "1 observation deleted", all = FALSE)
  newdata <- transform(b[1:3, ], gear = c(4, NA, 4), wt = c(3, 3, NA))
  expect_identical(is.na(predict(of_formula, newdata)), c(FALSE, TRUE, TRUE), ignore_attr = TRUE)
  expect_length(predict(fit, newdata, na.action = na.omit, exposure = c(1, 2, 3)), 2L)
})

test_that("residuals and the deviance are those of a generalised linear model", {
  skip_without_python()
  formula <- n ~ agegp + offset(log(years))
  fit <- bayes_ridge(formula, d, family = poisson(), weights = w)
  y <- d$n
  mu <- fitted(fit)
  expect_close(residuals(fit, "pearson"), sqrt(d$w / mu) * (y - mu))
  expect_close(residuals(fit, "deviance"), sign(y - mu) * sqrt(2 * d$w * (y * log(y / mu) - (y - mu))), 1e-8)
  near <- bayes_ridge(formula, d, family = poisson(), method = "fixed", lam = 1e-6, solver = "laplace")
  expect_lt(abs(deviance(near) / deviance(glm(formula, poisson(), d)) - 1), 0.01)
  repeated <- bayes_ridge(formula, d[rep(seq_len(nrow(d)), d$w), ], family = poisson())
  expect_close(coef(repeated), coef(fit), 1e-4)
  expect_close(deviance(repeated), deviance(fit), 1e-4)
})

test_that("draws, tables, pictures and files", {
  skip_without_python()
  formula <- n ~ agegp + tobgp + offset(log(years))
  fit <- bayes_ridge(formula, d, family = poisson())
  set.seed(1)
  draws <- posterior_sample(fit, 20000, hyper = TRUE)
  expect_lt(max(abs(colMeans(draws[, names(coef(fit))]) - coef(fit)) / (fit$bse / sqrt(20000))), 4.5)
  replicated <- simulate(fit, 4000, seed = 2)
  expect_lt(max(abs(rowMeans(replicated) / fitted(fit) - 1)), 0.1)
  expect_lt(max(abs(rowMeans(simulate(fit, 4000, seed = 2, newdata = d[at, ])) / fitted(fit)[at] - 1)), 0.1)
  explained <- explained_variance(fit)
  g <- scale(model.matrix(~ agegp + tobgp, d)[, -1], scale = FALSE) %*% t(draws[, 2:9])
  latent <- colSums(g^2) / (colSums(g^2) + nrow(d) * log(1 + 1 / mean(d$n)))
  expect_lt(max(abs(unlist(explained) - c(mean(latent), quantile(latent, c(0.5, 0.025, 0.975))))), 0.02)
  expect_output(print(fit), "Poisson family, log link.*leave-one-out share of deviance")
  expect_output(print(summary(fit)), "events")
  expect_identical(family(fit)$family, "poisson")
  pdf(NULL)
  on.exit(dev.off())
  expect_identical(plot(fit), fit)
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file), add = TRUE)
  saveRDS(fit, file)
  expect_equal(predict(readRDS(file), d[at, ], interval = "credible"), predict(fit, d[at, ], interval = "credible"))
  expect_identical(names(effects(fit, rng = 1)), names(effects(bayes_ridge(case ~ age, infert, family = binomial()))))
  expect_setequal(effects(fit)$variable, c("agegp", "tobgp"))
  expect_true(all(c("zeros", "dispersion") %in% rownames(ppc(fit, draws = 50))))
  other <- bayes_ridge(n ~ agegp + offset(log(years)), d, family = poisson())
  expect_identical(rownames(compare_evidence(one = fit, two = other)) %in% c("one", "two"), c(TRUE, TRUE))
  expect_output(print(compare_models(one = fit, two = other)), "agegp.L")
  updated <- update(fit, . ~ . - tobgp)
  expect_close(coef(updated), coef(other))
  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_close(tidied$estimate, rate_ratios(fit)$rate_ratio)
  expect_identical(generics::glance(fit)$events, sum(d$n))
  augmented <- generics::augment(fit, newdata = d[at, ], interval = "credible")
  expect_close(augmented$.fitted + augmented$.resid, d$n[at])
  expect_close(generics::augment(fit, interval = "credible")$.upper, predict(fit, interval = "credible")[, "upr"])
  skip_if_not(has_report())
  page <- tempfile(fileext = ".html")
  on.exit(unlink(page), add = TRUE)
  expect_identical(report(fit, page), page)
  expect_true(any(grepl("Rate ratios", readLines(page, warn = FALSE))))
})

test_that("marginal means and predictions of other packages have the exposures", {
  skip_without_python()
  fit <- bayes_ridge(n ~ agegp + offset(log(years)), d, family = poisson())
  new <- data.frame(agegp = d$agegp[c(1, 40)], years = c(2, 3))
  draws <- get_predict.pybayesridge_fit(fit, new)
  expect_close(draws$estimate, predict(fit, new))
  expect_lt(max(abs(apply(attr(draws, "posterior_draws"), 1, median) / predict(fit, new) - 1)), 0.05)
  on_link <- attr(get_predict.pybayesridge_fit(fit, new, type = "link"), "posterior_draws")
  expect_close(exp(on_link), attr(draws, "posterior_draws"))
  skip_if_not_installed("emmeans")
  table <- summary(emmeans::emmeans(fit, "agegp", at = list(years = 3), type = "response"))
  expected <- predict(fit, data.frame(agegp = table$agegp, years = 3))
  expect_lt(max(abs(table$rate / expected - 1)), 0.05)
  skip_if_not_installed("insight")
  expect_true(insight::model_info(fit)$is_count)
  expect_false(isTRUE(insight::model_info(fit)$is_bernoulli))
  skip_if_not_installed("parameters")
  table <- parameters::model_parameters(fit, exponentiate = TRUE, centrality = "mean")
  expect_close(table$Mean, exp(coef(fit)))
})

test_that("files of Python are read, and files for Python written", {
  skip_without_python()
  file <- tempfile(fileext = ".fit")
  other <- tempfile(fileext = ".fit")
  on.exit(unlink(c(file, other)))
  py <- reticulate::py_run_string("
def made(d, new, path):
    import pandas as pd
    from pybayesridge import BayesRidge
    res = BayesRidge.from_formula('n ~ C(tob) + age', pd.DataFrame(d), family='poisson', exposure='years').fit()
    res.save(path)
    found = res.get_prediction(pd.DataFrame(new), exposure=new['years']).summary_frame(0.1)
    return found[['mean', 'mean_ci_lower', 'mean_ci_upper']].to_numpy(), res.loo().p_loo, res.rate_ratios().to_numpy()
def loaded(path):
    from pybayesridge import load
    res = load(path)
    return res.params.to_numpy(), res.fittedvalues.to_numpy(), res.model.data.extent
", local = TRUE)
  own <- list(n = d$n, tob = as.character(d$tobgp), age = as.double(d$agegp), years = d$years)
  new <- lapply(own, `[`, at)
  found <- py$made(own, new, file)
  fit <- read_fit(file)
  expect_s3_class(fit, c("bayes_ridge", "pybayesridge_generalized", "pybayesridge_fit"), exact = TRUE)
  expect_close(predict(fit, as.data.frame(new), exposure = new$years, interval = "credible", level = 0.9), found[[1]])
  expect_close(as.matrix(rate_ratios(fit)), found[[3]])
  expect_identical(fit$exposure, d$years)
  expect_close(predict(fit, interval = "credible")[, "fit"], fitted(fit))
  skip_if_not_installed("loo")
  expect_close(loo::loo(fit)$estimates["p_loo", 1], found[[2]], integrated)
  mine <- bayes_ridge(n ~ agegp, d, family = poisson(), exposure = years)
  save_fit(mine, other)
  again <- py$loaded(other)
  expect_close(again[[1]], coef(mine))
  expect_close(again[[2]], fitted(mine))
  expect_close(again[[3]], d$years)
})

test_that("fits of imputed data are pooled", {
  skip_without_python()
  sets <- lapply(1:3, function(i) transform(d, z = ifelse(seq_len(nrow(d)) %% 7 == 0, i, 0.5 * seq_len(nrow(d)) %% 3)))
  pooled <- fit_imputed(sets, function(data) bayes_ridge(n ~ z + agegp + offset(log(years)), data, family = poisson()))
  new <- transform(d[at, ], z = c(0, 1))
  found <- predict(pooled, new, interval = "credible", se.fit = TRUE)
  each <- lapply(pooled$fits, function(fit) predict(fit, new, interval = "credible"))
  expect_true(all(found$fit[, "fit"] >= do.call(pmin, lapply(each, function(a) a[, "fit"]))))
  expect_true(all(found$fit[, "fit"] <= do.call(pmax, lapply(each, function(a) a[, "fit"]))))
  set.seed(1)
  eta <- cbind(model.matrix(~ z + agegp, new)) %*% t(posterior_sample(pooled, 40000))
  expect_lt(max(abs(apply(exp(eta) * new$years, 1, median) / found$fit[, "fit"] - 1)), 0.02)
  expect_close(log(predict(pooled, new)), predict(pooled, new, type = "link"), 0.02)
  expect_identical(names(rate_ratios(pooled)), c("rate_ratio", "lower", "upper", "prob_above_1"))
  expect_error(odds_ratios(pooled), "family = binomial\\(\\)")
  expect_error(pool_fits(list(pooled$fits[[1]], bayes_ridge(am ~ wt, mtcars, family = binomial()))), "differ in family")
})

test_that("columns are selected for counts as in Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d):
    import numpy as np, pandas as pd
    from pybayesridge import SpikeSlab
    d = pd.DataFrame(d)
    res = SpikeSlab.from_formula('n ~ a + b + c', d, family='poisson', exposure='t').fit()
    new, loo = d.head(3), res.loo()
    return dict(
        prob=np.asarray(res.inclusion_prob), ci=res.conf_int(0.1).to_numpy(), ratios=res.rate_ratios(0.1).to_numpy(),
        mean=res.get_prediction(new, exposure='t').summary_frame(0.1).filter(regex='^mean').to_numpy(),
        linear=res.get_prediction(new, which='linear').summary_frame(0.1).to_numpy(), loo=np.asarray(loo.pointwise), p=loo.p_loo,
    )
", local = TRUE)$reference
  set.seed(3)
  d <- data.frame(a = rnorm(40), b = rnorm(40), c = rnorm(40), t = rep(c(1, 2, 5, 10), 10))
  d$n <- rpois(40, d$t * exp(0.8 * d$a))
  fit <- spike_slab(n ~ a + b + c, d, family = poisson(), exposure = t)
  ref <- reference(as.list(d))
  expect_close(inclusion_prob(fit), ref$prob)
  expect_close(confint(fit, level = 0.9), ref$ci, 1e-9)
  expect_close(as.matrix(rate_ratios(fit, 0.9)), ref$ratios, 1e-9)
  found <- predict(fit, d[1:3, ], exposure = "t", interval = "credible", level = 0.9, se.fit = TRUE)
  expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), ref$mean, 1e-9)
  found <- predict(fit, d[1:3, ], type = "link", interval = "credible", level = 0.9, se.fit = TRUE)
  expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), ref$linear, 1e-9)
  expect_close(predict(fit), fitted(fit))
  expect_identical(dim(simulate(fit, 2, seed = 1)), c(40L, 2L))
  offset <- spike_slab(n ~ a + b + c + offset(log(t)), d, family = poisson())
  expect_close(coef(offset), coef(fit), 1e-7)
  expect_true(is.finite(logLik(fit)))
  if (requireNamespace("loo", quietly = TRUE)) {
    scores <- loo::loo(fit)
    expect_close(scores$pointwise[, 1], ref$loo)
    expect_close(scores$estimates["p_loo", 1], ref$p, 1e-6)
  }
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); n <- data.frame(a = 1, b = 0, c = 2); stopifnot(all(is.finite(c(predict(f, n, interval = 'credible'), confint(f), inclusion_prob(f))))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_error(spike_slab(n ~ a, d, family = poisson(), method = "exact"), "Expectation propagation|'ep'")
  expect_error(spike_slab(n ~ a, d, exposure = t), "'exposure' is for family = poisson\\(\\)")
  saved <- tempfile(fileext = ".fit")
  save_fit(fit, saved)
  again <- read_fit(saved)
  expect_close(coef(again), coef(fit))
  expect_identical(again$exposure, d$t)
})

# Selections for yes/no responses: all numbers against Python's.

# Fits in Python what R's spike_slab() fits; `y` are codes or successes, `x` and `rows` without R's column of ones.
python_binomial_selection <- function(y, x, rows, ..., link = "logit", trials = NULL, group = NULL, level = 0.9) {
  # By expectation propagation where no arguments of fit() are given.
  reference <- reticulate::py_run_string("
def reference(y, x, rows, link, trials, group, fit, alpha):
    import warnings
    import numpy as np
    from pybayesridge import SpikeSlab
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        model = SpikeSlab(y, x, family='binomial', link=link, trials=trials, group=group)
        res = model.fit(chains=1, mcse=fit['mcse']) if fit else model.fit('ep')
    own, new = (
        [res.get_prediction(at, which=which).summary_frame(alpha).to_numpy() for which in ('mean', 'linear')]
        for at in (None, rows)
    )
    return dict(
        coef=np.asarray(res.params), bse=np.asarray(res.bse), cov=np.asarray(res.cov_params()),
        ci=np.asarray(res.conf_int(alpha)), fitted=np.asarray(res.fittedvalues), resid=np.asarray(res.resid),
        own=own, new=new, prob=np.asarray(res.inclusion_prob), se=np.asarray(res.inclusion_se),
        slab=res.slab_var, hyper=res.hyperparameters(alpha).to_numpy() if fit else None,
        log_evidence=None if fit else res.log_evidence, size=res.expected_size,
        odds=res.odds_ratios(alpha).to_numpy() if link == 'logit' else None,
    )
", local = TRUE)$reference
  reference(as.vector(y), x, rows, link, trials, group, list(...), 1 - level)
}

# Quantiles of mixtures: Python halves brackets, R takes Newton's steps.
quantiles_of_sets <- 1e-8

expect_binomial_selection <- function(fit, data, py, level = 0.9) {
  expect_close(coef(fit), py$coef)
  expect_close(fit$bse, py$bse)
  expect_close(vcov(fit), py$cov)
  expect_close(confint(fit, level = level), py$ci, quantiles_of_sets)
  expect_close(fitted(fit), py$fitted)
  expect_close(residuals(fit), py$resid)
  expect_close(inclusion_prob(fit), py$prob)
  expect_identical(is.na(inclusion_se(fit)), is.na(py$se), ignore_attr = TRUE)
  if (fit$method == "exact") expect_close(inclusion_se(fit), py$se)
  expect_close(fit$expected_size, py$size)
  expect_close(fit$slab_var, py$slab)
  if (!is.null(py$hyper)) {
    own <- as.matrix(hyperparameters(fit, level)[c("mean", "lower", "upper")])
    rows <- c("prior_inclusion", "slab_var", "prior_share", "size", "groups_included")
    expect_close(own[intersect(rows, rownames(own)), ], py$hyper)
  }
  if (!is.null(py$log_evidence)) expect_close(logLik(fit), py$log_evidence)
  if (!is.null(py$odds)) expect_close(as.matrix(odds_ratios(fit, level)), py$odds, quantiles_of_sets)
  for (where in c("own", "new")) {
    newdata <- if (where == "new") data
    for (type in c("response", "link")) {
      expected <- py[[where]][[if (type == "response") 1 else 2]]
      found <- predict(fit, newdata, type = type, interval = "credible", level = level, se.fit = TRUE)
      expect_close(found$fit, expected[, c(1, 3, 4)], quantiles_of_sets)
      expect_close(found$se.fit, expected[, 2], quantiles_of_sets)
      expect_close(predict(fit, newdata, type = type), expected[, 1])
    }
  }
}

# One short run; the call is that of spike_slab(), for update() and new frames.
quick <- function(formula, data, ..., family = binomial()) {
  call <- match.call(expand.dots = TRUE)
  call[[1L]] <- quote(spike_slab)
  call[c("chains", "mcse")] <- list(1, 0.5)
  if (is.null(call$family)) call$family <- quote(binomial())
  eval(call, parent.frame())
}

test_that("R has Python's numbers: a logistic regression", {
  skip_without_python()
  fit <- quick(case ~ age + parity + spontaneous, infert)
  x <- as.matrix(infert[c("age", "parity", "spontaneous")])
  expect_binomial_selection(fit, infert[c(3, 20), ], python_binomial_selection(infert$case, x, x[c(3, 20), ], mcse = 0.5))
  expect_s3_class(fit, c("spike_slab", "pybayesridge_generalized", "pybayesridge_fit"), exact = TRUE)
  expect_output(print(fit), "Spike-and-slab regression, binomial family, logit link.*event 1 \\(83 of 248\\)")
  expect_output(print(summary(fit)), "Event: 1.*Pr\\(incl.\\).*Included columns: mean")
  expect_true("spontaneous" %in% median_model(fit))
  expect_true("spontaneous" %in% credible_sets(fit)$column)
  expect_true("spontaneous" %in% top_models(fit, 1)$columns[[1]])

  set.seed(1)
  draws <- posterior_sample(fit, 20000)
  columns <- c("age", "parity", "spontaneous")
  expect_lt(max(abs(colMeans(draws[, columns] != 0) - diag(pair_inclusion(fit, columns)))), 0.02)
  expect_true(all(draws[, "(Intercept)"] != 0))
  x <- model.matrix(~ age + parity + spontaneous, infert)[c(1, 10), ]
  expect_lt(max(abs(rowMeans(plogis(x %*% t(draws))) - predict(fit, infert[c(1, 10), ]))), 0.01)
  yes <- simulate(fit, 3000, seed = 2)
  expect_lt(max(abs(rowMeans(yes) - fitted(fit))), 0.06)

  pdf(NULL)
  on.exit(dev.off())
  expect_identical(plot(fit), fit)
  for (which in c("coefficients", "calibration", "roc")) expect_silent(plot(fit, which = which))
  expect_silent(plot(fit, which = "calibration", bins = 4, main = "A title", col = 2))

  expect_error(logLik(fit), "gives no log evidence")
  expect_error(AIC(fit), "gives no log evidence")
  expect_error(compare_evidence(fit, fit), "gives no log evidence")
  expect_error(sigma(fit), "no noise variance")
  expect_error(predict(fit, interval = "prediction"), "has no interval")
  expect_true(all(explained_variance(fit) < 1))
  expect_error(spike_slab(mpg ~ wt, mtcars, method = "ep", start = fit), "family = gaussian\\(\\)")

  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_close(tidied$estimate, odds_ratios(fit)$odds_ratio)
  expect_close(tidied$conf.high, odds_ratios(fit)$upper)
  expect_close(tidied$inclusion_se, inclusion_se(fit))
  glanced <- generics::glance(fit)
  expect_identical(glanced$events, 83)
  expect_identical(glanced$logLik, NA_real_)
  augmented <- generics::augment(fit, newdata = infert[81:85, ], interval = "credible")
  expect_close(augmented$.fitted + augmented$.resid, infert$case[81:85])
  expect_close(generics::augment(fit, interval = "credible")$.upper, predict(fit, interval = "credible")[, "upr"])
})

test_that("R has Python's numbers: successes and failures, terms, probit; without Python, and a report", {
  skip_without_python()
  fit <- quick(cbind(ncases, ncontrols) ~ agegp + tobgp, esoph, family = binomial("probit"))
  x <- unname(without_ones(model.matrix(~ agegp + tobgp, esoph)))
  trials <- as.double(esoph$ncases + esoph$ncontrols)
  group <- as.list(rep(c("agegp", "tobgp"), c(5, 3)))
  py <- python_binomial_selection(esoph$ncases, x, x[c(5, 50), ], mcse = 0.5, link = "probit", trials = trials, group = group)
  expect_binomial_selection(fit, esoph[c(5, 50), ], py)
  expect_identical(fit$event, "ncases")
  expect_identical(names(inclusion_prob(fit, by = "group")), c("agegp", "tobgp"))
  expect_error(odds_ratios(fit), "coefficients of the probit link")
  expect_identical(unlist(simulate(fit, 1, seed = 1)) <= trials, rep(TRUE, nrow(esoph)), ignore_attr = TRUE)
  expect_length(residuals(fit, "pearson"), nrow(esoph))
  expect_gt(deviance(fit), 0)
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  saveRDS(fit, file)
  expect_equal(predict(readRDS(file), esoph[1:2, ], interval = "credible"), predict(fit, esoph[1:2, ], interval = "credible"))
  skip_if_not(has_report())
  page <- tempfile(fileext = ".html")
  on.exit(unlink(page), add = TRUE)
  expect_silent(written <- report(fit, page))
  expect_identical(written, page)
  expect_true(any(grepl("In-sample scores", readLines(page, warn = FALSE))))
})

test_that("R has Python's numbers by expectation propagation", {
  skip_without_python()
  fit <- spike_slab(case ~ age + parity + factor(education), infert, method = "ep", family = binomial())
  x <- unname(without_ones(model.matrix(~ age + parity + factor(education), infert)))
  group <- as.list(c("age", "parity", "education", "education"))
  py <- python_binomial_selection(infert$case, x, x[c(3, 20), ], group = group)
  expect_binomial_selection(fit, infert[c(3, 20), ], py)
  expect_s3_class(fit, c("spike_slab", "pybayesridge_generalized", "pybayesridge_fit"), exact = TRUE)
  expect_output(print(fit), "Spike-and-slab regression, binomial family, logit link \\(method \"ep\"\\).*log evidence")
  expect_output(print(summary(fit)), "Event: 1.*Pr\\(incl.\\).*log_evidence")
  expect_identical(names(inclusion_prob(fit, by = "group")), c("age", "parity", "factor(education)"))
  expect_named(select_columns(fit), c("column", "inclusion_prob", "false_share"))
  counts <- spike_slab(cbind(ncases, ncontrols) ~ agegp, esoph, method = "ep", family = binomial("probit"), group = NULL, tol = 1e-5)
  expect_identical(counts$event, "ncases")
  expect_error(odds_ratios(counts), "coefficients of the probit link")

  for (kind in c("gaussian", "spike_slab")) {
    set.seed(1)
    draws <- posterior_sample(fit, 20000, kind = kind)
    expect_lt(max(abs(colMeans(draws) - coef(fit)) / fit$bse), 0.06)
    if (kind == "gaussian") expect_lt(max(abs(cov(draws) - vcov(fit)) / tcrossprod(fit$bse)), 0.06)
    zero <- colMeans(draws == 0)
    expect_lt(max(abs(zero - if (kind == "gaussian") 0 else 1 - inclusion_prob(fit))), 0.03)
  }
  yes <- simulate(fit, 2000, seed = 2)
  expect_lt(max(abs(rowMeans(yes) - fitted(fit))), 0.06)
  pdf(NULL)
  on.exit(dev.off())
  for (which in c("inclusion", "coefficients", "calibration", "roc")) expect_silent(plot(fit, which = which))

  small <- spike_slab(case ~ age + parity, infert, method = "ep", family = binomial())
  table <- compare_evidence(small = small, all = fit)
  expect_close(table$log_evidence, sort(c(logLik(small), logLik(fit)), decreasing = TRUE))
  expect_error(compare_evidence(small, quick(case ~ age, infert)), "gives no log evidence")
  expect_error(compare_evidence(small, update(small, family = binomial("probit"))), "its family")
  expect_error(AIC(fit), "compare_evidence\\(\\).*loo\\(\\)")
  expect_error(credible_sets(fit), "needs the joint posterior of the columns")
  expect_error(hyperparameters(fit), "method = \"exact\"")

  file <- tempfile()
  on.exit(unlink(file), add = TRUE)
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), infert[1:2, ], interval = "credible"), predict(fit, infert[1:2, ], interval = "credible"))
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(coef(again), coef(fit))
  expect_close(predict(again, x[1:3, ], interval = "credible"), predict(fit, infert[1:3, ], interval = "credible"))

  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_close(tidied$conf.high, odds_ratios(fit)$upper)
  expect_false("inclusion_se" %in% names(tidied))
  expect_identical(generics::glance(fit)$logLik, fit$log_evidence)
  expect_identical(generics::glance(fit)$events, 83)
})

test_that("a response has many forms", {
  skip_without_python()
  d <- transform(mtcars, f = factor(am, 0:1, c("automatic", "manual")), l = am == 1)
  one_run <- function(formula, ...) suppressWarnings(quick(formula, d, maxiter = 60, ...))
  plain <- one_run(am ~ wt + hp, family = "binomial")
  for (formula in c(l ~ wt + hp, cbind(am, 1 - am) ~ wt + hp)) expect_close(coef(one_run(formula)), coef(plain))
  named <- one_run(f ~ wt + hp)
  expect_close(coef(named), coef(plain))
  expect_identical(named$event, "manual")
  expect_s3_class(simulate(named, 2, seed = 3)$sim_1, "factor")
  matrix <- suppressWarnings(
    spike_slab(x = as.matrix(d[c("wt", "hp")]), y = d$f, family = binomial(), chains = 1, mcse = 0.5, maxiter = 60)
  )
  expect_close(coef(matrix), coef(plain))
})

test_that("a fit without an intercept, and one with weights and missing rows, have all answers", {
  skip_without_python()
  none <- suppressWarnings(quick(case ~ age + parity - 1, infert, maxiter = 400))
  set.seed(1)
  draws <- posterior_sample(none, 4000)
  expect_identical(rownames(odds_ratios(none)), c("age", "parity"))
  at <- as.matrix(infert[c(1, 60), c("age", "parity")])
  expect_lt(max(abs(rowMeans(plogis(at %*% t(draws))) - predict(none, infert[c(1, 60), ]))), 0.02)
  expect_identical(dim(vcov(none)), c(2L, 2L))
  d <- transform(infert, age = replace(age, 3, NA), w = rep(1:2, 124))
  gaps <- suppressWarnings(quick(case ~ age + parity, d, weights = w, na.action = na.exclude, maxiter = 60))
  expect_identical(which(is.na(residuals(gaps, "deviance"))), c("3" = 3L))
  expect_identical(gaps$n_trials, sum(d$w[-3]) * 1.0)
  smaller <- suppressWarnings(update(gaps, . ~ . - age))
  expect_identical(names(coef(smaller)), c("(Intercept)", "parity"))
  expect_identical(is.na(predict(gaps, d[2:4, ])), c("2" = FALSE, "3" = TRUE, "4" = FALSE))
})

test_that("what is not defined is refused", {
  skip_without_python()
  refused <- function(message, ..., formula = am ~ wt + hp) {
    expect_error(spike_slab(formula, mtcars, ..., family = binomial()), message)
  }
  refused("'noise_var' is for family = gaussian\\(\\): leave it out", noise_var = 1)
  refused("'hyper' is for family = gaussian\\(\\)", hyper = "average")
  refused("'tol'|tol is|tol ", tol = 1e-3)
  refused("mcse", mcse = 0.1, method = "ep")
  refused("method='pcep' requires family='gaussian': use method='exact' or 'ep'", method = "pcep")
  refused("numbers other than 0 and 1", formula = mpg ~ wt)
  refused("an offset is not supported$", formula = am ~ wt + offset(hp))
  refused("needs at least one column", prior_inclusion = 1)
  expect_error(spike_slab(am ~ wt, mtcars, family = Gamma()), "not Gamma")
  expect_error(odds_ratios(spike_slab(mpg ~ wt, mtcars)), "family = binomial\\(\\)")
})

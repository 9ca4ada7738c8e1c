# Yes/no responses: R's forms of them, and all numbers against Python's.

# Fits in Python what R's bayes_ridge() fits; `y` are codes or successes, `x` and `rows` without R's column of ones.
python_binomial <- function(y, x, rows, ..., link = "logit", trials = NULL, weights = NULL, level = 0.9) {
  reference <- reticulate::py_run_string("
def reference(y, x, rows, link, trials, weights, fit, alpha):
    import warnings
    import numpy as np
    from pybayesridge import BayesRidge
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = BayesRidge(y, x, family='binomial', link=link, trials=trials, weights=weights).fit(**(fit or {}))
    own, new = (
        [res.get_prediction(at, which=which).summary_frame(alpha).to_numpy() for which in ('mean', 'linear')]
        for at in (None, rows)
    )
    return dict(
        coef=np.asarray(res.params), bse=np.asarray(res.bse), cov=np.asarray(res.cov_params()),
        ci=np.asarray(res.conf_int(alpha)), fitted=np.asarray(res.fittedvalues), resid=np.asarray(res.resid),
        own=own, new=new, hyper=res.hyperparameters(alpha).to_numpy(),
        lam=res.lambda_, log_marginal=res.log_marginal, loo=np.asarray(res.loo_probabilities),
        scores=[res.loo_log_score, res.loo_brier, res.loo_auc],
        odds=res.odds_ratios(alpha).to_numpy() if link == 'logit' else None,
    )
", local = TRUE)$reference
  reference(as.vector(y), x, rows, link, trials, weights, if (...length()) list(...), 1 - level)
}

# The integral over a logistic curve is by another rule than Python's.
quadrature <- 1e-8

expect_binomial <- function(fit, data, py, level = 0.9) {
  expect_close(coef(fit), py$coef)
  expect_close(fit$bse, py$bse)
  expect_close(vcov(fit), py$cov)
  expect_close(confint(fit, level = level), py$ci)
  expect_close(fitted(fit), py$fitted)
  expect_close(residuals(fit), py$resid)
  expect_close(c(fit$loo_log_score, fit$loo_brier, fit$loo_auc), unlist(py$scores))
  expect_close(fit$loo_probabilities, py$loo)
  expect_close(as.numeric(logLik(fit)), py$log_marginal)
  expect_close(as.matrix(hyperparameters(fit, level)), py$hyper)
  if (!is.null(py$odds)) expect_close(as.matrix(odds_ratios(fit, level)), py$odds)
  for (where in c("own", "new")) {
    newdata <- if (where == "new") data
    for (type in c("response", "link")) {
      expected <- py[[where]][[if (type == "response") 1 else 2]]
      found <- predict(fit, newdata, type = type, interval = "credible", level = level, se.fit = TRUE)
      expect_close(found$fit, expected[, c(1, 3, 4)], quadrature)
      expect_close(found$se.fit, expected[, 2], quadrature)
      expect_close(predict(fit, newdata, type = type), expected[, 1], quadrature)
    }
  }
}

for (link in c("logit", "probit")) {
  test_that(paste("R has Python's numbers:", link), {
    skip_without_python()
    x <- as.matrix(infert[c("age", "parity", "spontaneous")])
    new <- infert[c(3, 20), ]
    for (method in c("ep", "em", "fixed")) {
      given <- c(list(method = method), if (method == "fixed") list(lam = 3))
      fit <- do.call(bayes_ridge, c(list(case ~ age + parity + spontaneous, infert, family = binomial(link)), given))
      py <- do.call(python_binomial, c(list(infert$case, x, x[c(3, 20), ], link = link), given))
      expect_binomial(fit, new, py)
    }
  })
}

test_that("esoph: successes and failures, and odds ratios", {
  skip_without_python()
  fit <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp + tobgp * alcgp, esoph, family = binomial())
  x <- without_ones(model.matrix(~ agegp + tobgp * alcgp, esoph))
  trials <- esoph$ncases + esoph$ncontrols
  py <- python_binomial(esoph$ncases, unname(x), unname(x[c(5, 50), ]), trials = as.double(trials))
  expect_binomial(fit, esoph[c(5, 50), ], py)
  expect_identical(fit$event, "ncases")
  expect_identical(fit$n_trials, sum(trials) * 1.0)
  table <- odds_ratios(fit)
  expect_identical(names(table), c("odds_ratio", "lower", "upper", "prob_above_1"))
  expect_gt(table["agegp.L", "lower"], 1)
  expect_equal(odds_ratios(fit, parm = "agegp.L"), table["agegp.L", ])
  expect_identical(unlist(simulate(fit, 1, seed = 1)) <= trials, rep(TRUE, nrow(esoph)), ignore_attr = TRUE)
  glm <- suppressWarnings(stats::glm(cbind(ncases, ncontrols) ~ agegp, data = esoph, family = binomial()))
  near <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial(), method = "fixed", lam = 1e-3, solver = "laplace")
  expect_lt(abs(deviance(near) - deviance(glm)), 0.05 * deviance(glm))
})

test_that("a response has many forms", {
  skip_without_python()
  d <- transform(mtcars, f = factor(am, 0:1, c("automatic", "manual")), l = am == 1, g = as.character(am))
  plain <- bayes_ridge(am ~ wt + hp, d, family = "binomial", method = "laplace")
  expect_s3_class(plain, c("bayes_ridge", "pybayesridge_generalized", "pybayesridge_fit"), exact = TRUE)
  for (formula in c(f ~ wt + hp, l ~ wt + hp, g ~ wt + hp, cbind(am, 1 - am) ~ wt + hp)) {
    other <- bayes_ridge(formula, d, family = binomial, method = "laplace")
    expect_close(coef(other), coef(plain), 1e-8)
  }
  named <- bayes_ridge(f ~ wt + hp, d, family = binomial(), method = "laplace")
  expect_identical(named$event, "manual")
  expect_output(print(named), "event manual \\(13 of 32\\)")
  expect_output(print(summary(named)), "Event: manual")
  expect_s3_class(simulate(named, 2, seed = 3)$sim_1, "factor")
  other <- bayes_ridge(relevel(f, "manual") ~ wt + hp, d, family = binomial(), method = "laplace")
  expect_close(coef(other), -coef(plain), 1e-6)
  matrix <- bayes_ridge(x = as.matrix(d[c("wt", "hp")]), y = d$f, family = binomial(), method = "laplace")
  expect_close(coef(matrix), coef(plain), 1e-8)
  laplace <- function(...) bayes_ridge(case ~ age + parity, ..., family = binomial(), method = "laplace")
  times <- seq_len(nrow(infert)) %% 3 + 1
  repeated <- laplace(infert[rep(seq_along(times), times), ])
  weighted <- laplace(infert, weights = times)
  expect_close(coef(weighted), coef(repeated), 1e-4)
  expect_close(deviance(weighted), deviance(repeated), 1e-4)
})

test_that("what cannot be a binomial model is refused", {
  skip_without_python()
  d <- transform(mtcars, one = 1, share = am / 2, g = factor(gear), same = "a")
  refused <- function(formula, message, ...) expect_error(bayes_ridge(formula, d, family = binomial(), ...), message)
  refused(one ~ wt, "all responses are '?1'?: a binomial model needs both outcomes")
  refused(same ~ wt, "all responses are 'a': a binomial model needs both outcomes")
  refused(share ~ wt, "fractions: give cbind\\(successes, failures\\)")
  refused(hp ~ wt, "numbers other than 0 and 1")
  refused(g ~ wt, "has 3 levels \\('3', '4', '5'\\)")
  refused(cbind(am, gear, carb) ~ wt, "two columns cbind\\(successes, failures\\), not 3 columns")
  refused(cbind(am, -1) ~ wt, "whole numbers that are not negative.*'Mazda RX4'")
  refused(am ~ wt, "'sigma2' is for family = gaussian\\(\\)", sigma2 = 1)
  refused(am ~ wt, "exact", method = "exact")
  expect_error(bayes_ridge(am ~ wt, d, family = poisson("sqrt")), "not poisson\\(\"sqrt\"\\)")
  expect_error(spike_slab(am ~ wt, d, family = Gamma()), "must be gaussian\\(\\), binomial\\(\\).*not Gamma")
  expect_error(bayes_ridge(am ~ wt, d, family = binomial("cloglog")), "cloglog")
  expect_error(bayes_ridge(am ~ wt, d, family = "logit"), "must be gaussian\\(\\), binomial\\(\\), .* or one of their names")
  expect_error(bayes_ridge(mpg ~ wt, d, solver = "ep"), "'solver' is for family = binomial\\(\\)")
  expect_error(bayes_ridge(g ~ wt, d), "not factor: family = binomial\\(\\)")
  fit <- bayes_ridge(am ~ wt, d, family = binomial("probit"))
  expect_error(odds_ratios(fit), "coefficients of the probit link")
  expect_error(sigma(fit), "no noise variance")
  expect_error(predict(fit, interval = "prediction"), "has no interval")
  expect_error(AIC(fit), "or by loo\\(\\)")
  expect_error(odds_ratios(bayes_ridge(mpg ~ wt, d)), "family = binomial\\(\\)")
})

test_that("columns that separate the responses have an answer", {
  skip_without_python()
  d <- transform(mtcars, sure = am)
  fit <- bayes_ridge(am ~ wt + sure, d, family = binomial())
  expect_gt(odds_ratios(fit)["sure", "lower"], 1)
  expect_output(print(fit), "posterior medians")
  expect_error(vcov(fit), "no posterior covariance")
  expect_match(fit$findings$text, "separate the responses", all = FALSE)
  expect_error(bayes_ridge(am ~ wt + sure, d, family = binomial(), unpenalized = "sure"), "separate the responses")
})

test_that("draws, tables and pictures", {
  skip_without_python()
  fit <- bayes_ridge(case ~ age + parity + spontaneous, infert, family = binomial())
  set.seed(1)
  draws <- posterior_sample(fit, 20000, hyper = TRUE)
  expect_identical(colnames(draws), c(names(coef(fit)), "tau2"))
  expect_lt(max(abs(colMeans(draws[, 1:4]) - coef(fit)) / (fit$bse / sqrt(20000))), 4)
  expect_lt(max(abs(apply(draws[, 1:4], 2, sd) / fit$bse - 1)), 0.05)
  x <- model.matrix(~ age + parity + spontaneous, infert)
  share <- plogis(x[c(1, 10), ] %*% t(draws[, 1:4]))
  expect_lt(max(abs(rowMeans(share) - predict(fit, infert[c(1, 10), ]))), 0.01)
  explained <- explained_variance(fit)
  g <- scale(x[, -1], scale = FALSE) %*% t(draws[, 2:4])
  latent <- colSums(g^2) / (colSums(g^2) + nrow(x) * pi^2 / 3)
  expect_lt(max(abs(unlist(explained) - c(mean(latent), quantile(latent, c(0.5, 0.025, 0.975))))), 0.02)
  yes <- simulate(fit, 3000, seed = 2)
  expect_lt(max(abs(rowMeans(yes) - fitted(fit))), 0.06)
  pdf(NULL)
  on.exit(dev.off())
  expect_identical(plot(fit), fit)
  expect_silent(plot(fit, which = "calibration", bins = 4, main = "A title", col = 2))
  expect_silent(plot(fit, which = "roc"))
  wide <- bayes_ridge(x = as.matrix(mtcars[1:3, 2:8]), y = c(0, 1, 1), family = binomial())
  expect_true(all(is.finite(posterior_sample(wide, 10))))
  skip_if_not_installed("generics")
  tidied <- generics::tidy(fit, conf.int = TRUE, exponentiate = TRUE)
  expect_close(tidied$estimate, odds_ratios(fit)$odds_ratio)
  expect_close(tidied$conf.high, odds_ratios(fit)$upper)
  expect_identical(generics::glance(fit)$events, 83)
  augmented <- generics::augment(fit, newdata = infert[81:85, ], interval = "credible")
  expect_close(augmented$.fitted + augmented$.resid, infert$case[81:85])
  expect_close(generics::augment(fit, interval = "credible")$.upper, predict(fit, interval = "credible")[, "upr"])
})

test_that("a fit works without Python, and a report is written with it", {
  skip_without_python()
  fit <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial())
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  saveRDS(fit, file)
  expect_equal(predict(readRDS(file), esoph[1:2, ], interval = "credible"), predict(fit, esoph[1:2, ], interval = "credible"))
  skip_if_not(has_report())
  page <- tempfile(fileext = ".html")
  on.exit(unlink(page), add = TRUE)
  expect_identical(report(fit, page), page)
  expect_true(any(grepl("Odds ratios", readLines(page, warn = FALSE))))
})

test_that("tiny probabilities are printed to three decimals", {
  skip_without_python()
  d <- data.frame(x = seq(-3, 3, length.out = 200L))
  d$y <- as.integer(seq_len(200L) %% 7L != 0L) * (d$x < 0)
  fit <- bayes_ridge(y ~ x, d, family = binomial())
  table <- odds_ratios(fit)
  expect_lt(table["x", "prob_above_1"], 1e-6)
  expect_false(any(grepl("e-", capture.output(print(table)), fixed = TRUE)))
  expect_identical(dim(odds_ratios(fit, parm = "x")), c(1L, 4L))
  d$noise <- sin(50 * d$x)
  models <- compare_evidence(line = fit, nothing = bayes_ridge(y ~ noise, d, family = binomial()))
  expect_lt(models["nothing", "probability"], 1e-6)
  expect_false(any(grepl("e-", capture.output(print(models)), fixed = TRUE)))
})

# Correlated effects of groups, (x | g), against Python and lme4.

# As in test-export.R: laws of variances and correlations are sums over points, of which Python interpolates between neighbours.
tabled <- 2e-3

# Quantiles of mixtures, of which Python leaves out nothing.
limits_of_mixtures <- 1e-6

correlated_data <- function() {
  set.seed(4)
  d <- data.frame(g = rep(letters[1:6], each = 5), x = rep(-2:2, 6), f = rep(c("p", "q"), 15))
  d$y <- d$x + rnorm(6)[match(d$g, letters)] + rnorm(6)[match(d$g, letters)] * d$x + rnorm(30)
  d
}

correlated_fit <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) kept <<- bayes_ridge(y ~ x + (x | g), correlated_data(), unpenalized = "fixed", tol = 0.02)
    kept
  }
})

test_that("numbers are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, new):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = (pd.DataFrame(f).replace('missing', np.nan) for f in (d, new))
    res = BayesRidge.from_formula('y ~ x + (x | g)', d, unpenalized='fixed').fit(tol=0.02)
    def frame(**how):
        return res.get_prediction(new, **how).summary_frame(0.1).to_numpy()
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        components=res.variance_components(0.1).to_numpy(), hyper=res.hyperparameters(0.1).to_numpy(),
        loo=np.asarray(res.loo().pointwise), sample=frame(), zero=frame(new_levels='zero'), population=frame(groups=False),
    )
", local = TRUE)$reference
  fit <- correlated_fit()
  new <- data.frame(x = c(-1, 0.5, 3), g = c("a", "new", "missing"))
  ref <- reference(as.list(correlated_data()), as.list(new))
  new$g[3] <- NA
  expect_close(coef(fit), ref$coef)
  expect_close(confint(fit, level = 0.9), ref$ci, limits_of_mixtures)
  expect_close(vcov(fit), ref$cov)
  expect_close(ridge_deviations(fit), fit$bse)
  expect_close(as.matrix(variance_components(fit, 0.9)), ref$components, tabled)
  expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, tabled)
  for (name in c("sample", "zero", "population")) {
    how <- list(sample = list(), zero = list(new_levels = "zero"), population = list(re_form = NA))[[name]]
    found <- do.call(predict, c(list(fit, new, interval = "credible", level = 0.9, se.fit = TRUE), how))
    wide <- do.call(predict, c(list(fit, new, interval = "prediction", level = 0.9), how))
    expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3], wide[, 2:3]), ref[[name]], limits_of_mixtures)
  }
  skip_if_not_installed("loo")
  expect_close(loo::loo(fit)$pointwise[, 1], ref$loo)
})

test_that("variances, correlations and effects are tables as in lme4", {
  skip_without_python()
  fit <- correlated_fit()
  table <- VarCorr(fit)
  expect_identical(table$var1, c("(Intercept)", "x", "(Intercept)", NA))
  expect_identical(table$var2, c(NA, NA, "x", NA))
  expect_close(table$sdcor[1:3], variance_components(fit)$mean)
  expect_close(table$vcov[3], prod(table$sdcor[1:3]))
  expect_identical(dimnames(ranef(fit)$g), list(letters[1:6], c("(Intercept)", "x")))
  expect_identical(names(fixef(fit)), c("(Intercept)", "x"))
  skip_if_not_installed("generics")
  all <- generics::tidy(fit, effects = "ran_pars", conf.int = TRUE)
  expect_identical(all$term, c("sd__(Intercept)", "sd__x", "cor__(Intercept).x", "sd__Observation"))
  expect_close(all$estimate, table$sdcor)
  expect_close(all$conf.low[3], hyperparameters(fit)["cor(g, x|g)", "lower"])
})

test_that("a fit works in a session without Python", {
  skip_without_python()
  fit <- correlated_fit()
  file <- tempfile(fileext = ".rds")
  saveRDS(fit, file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); n <- data.frame(x = 1, g = c('a', 'new')); p <- predict(f, n, interval = 'prediction'); stopifnot(all(is.finite(c(p, predict(f, n, re_form = NA), as.matrix(hyperparameters(f)), confint(f), vcov(f))))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
  expect_output(print(summary(fit)), "Correlation.*cor\\(g, x\\|g\\)")
})

test_that("draws have the moments of the posterior, of variances and of correlations", {
  skip_without_python()
  fit <- correlated_fit()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  k <- length(coef(fit))
  expect_lt(max(abs(colMeans(draws[, seq_len(k)]) - coef(fit)) / fit$bse * sqrt(4000)), 4.5)
  expect_lt(max(abs(apply(draws[, seq_len(k)], 2, sd) / fit$bse - 1)), 0.1)
  rho <- variance_components(fit)["cor(g, x|g)", ]
  expect_lt(abs(mean(draws[, "cor(g, x|g)"]) - rho$mean), 0.1 * rho$sd)
  expect_lt(abs(sd(draws[, "cor(g, x|g)"]) / rho$sd - 1), 0.1)
  share <- explained_variance(fit)
  expect_true(share$lower < share$mean && share$mean < share$upper)
  expect_identical(dim(simulate(fit, 2, seed = 1)), c(30L, 2L))
})

test_that("several terms, factors and targets have correlations of their own", {
  skip_without_python()
  d <- transform(correlated_data(), k = rep(1:3, 10), w = rev(y))
  fit <- suppressWarnings(bayes_ridge(cbind(y, w) ~ x + (0 + f | g) + (x | k), d, unpenalized = "fixed", method = "reml"))
  expect_identical(fit$components$band[fit$components$quantity == "correlation"], c("cor(fp|g, fq|g)", "cor(k, x|k)"))
  table <- VarCorr(fit)
  expect_identical(table$var2[table$response == "y"], c(NA, NA, "fq", NA, NA, "x", NA))
  expect_length(summary(fit)$correlations, 2)
  expect_identical(nrow(variance_components(fit)), 2L * 6L)
  one <- suppressWarnings(bayes_ridge(w ~ x + (0 + f | g) + (x | k), d, unpenalized = "fixed", method = "reml"))
  expect_close(table$sdcor[table$response == "w"], VarCorr(one)$sdcor, 1e-3)
  expect_close(predict(fit, d[1:3, ], interval = "credible")[, , 2], predict(one, d[1:3, ], interval = "credible"), 1e-3)
})

test_that("what cannot be fitted is refused", {
  skip_without_python()
  d <- correlated_data()
  expect_error(bayes_ridge(y ~ x + (x | g), d, method = "em"), "does not estimate the correlation of the effects of .*use 'exact' or 'reml'")
  expect_error(bayes_ridge(y ~ x + (f || g), d), "write a bar for correlated ones, \\(0 \\+ f \\| g\\)")
  expect_error(bayes_ridge(y ~ (x | g), transform(d, x = x + 2000)), "subtract a typical value")
})

test_that("questions, reports and files know the correlations", {
  skip_without_python()
  fit <- correlated_fit()
  expect_close(contrast(fit, "`g[a]` - `g[b]`")$mean, coef(fit)["g[a]"] - coef(fit)["g[b]"])
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_close(coef(again), coef(fit))
  expect_close(as.matrix(variance_components(again)), as.matrix(variance_components(fit)), tabled)
})

test_that("restricted maximum likelihood is that of lme4", {
  skip_without_python()
  skip_if_not_installed("lme4")
  d <- lme4::sleepstudy
  theirs <- lme4::lmer(Reaction ~ Days + (Days | Subject), d)
  ours <- bayes_ridge(Reaction ~ Days + (Days | Subject), d, unpenalized = "fixed", method = "reml")
  expected <- as.data.frame(lme4::VarCorr(theirs))
  expect_identical(VarCorr(ours)[c("grp", "var1", "var2")], expected[c("grp", "var1", "var2")])
  # lmer() stops early.
  expect_close(VarCorr(ours)$sdcor, expected$sdcor, 1e-4)
  expect_close(fixef(ours), lme4::fixef(theirs), 1e-6)
  expect_close(as.matrix(ranef(ours)$Subject), as.matrix(lme4::ranef(theirs)$Subject), 1e-3)
  new <- data.frame(Days = 1:2, Subject = c("308", "other"))
  expect_close(predict(ours, new), predict(theirs, new, allow.new.levels = TRUE), 1e-5)
  expect_close(predict(ours, new, re_form = NA), predict(theirs, new, re.form = NA), 1e-6)
})

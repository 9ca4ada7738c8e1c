# The coefficients are integrated out: there is no count of parameters that AIC and its like could charge for.

test_that("information criteria and likelihood-ratio tests give no number", {
  skip_without_python()
  small <- bayes_ridge(mpg ~ wt, mtcars)
  large <- bayes_ridge(mpg ~ wt + hp, mtcars)
  sel <- spike_slab(mpg ~ wt, mtcars)
  given <- spike_slab(mpg ~ wt, mtcars, prior_inclusion = 0.3, slab_var = 2, noise_var = 5)
  for (fit in list(small, sel, given)) {
    expect_identical(attr(logLik(fit), "df"), NA_integer_)
    expect_identical(attr(logLik(fit), "nobs"), 32L)
    expect_error(AIC(fit), "AIC\\(\\) .*logLik\\(\\)")
    expect_error(BIC(fit), "BIC\\(\\) .*logLik\\(\\)")
    expect_error(stats::extractAIC(fit), "AIC")
    expect_true(is.na(AIC(logLik(fit))))
    expect_true(is.na(BIC(logLik(fit))))
  }
  expect_error(AIC(sel, given), "compare_evidence\\(\\)")
  expect_error(AIC(small, large), "by loo\\(\\)")
  expect_true(is.na(AIC(lm(mpg ~ wt, mtcars), small)$AIC[2]))
  expect_error(anova(small, large), "logLik\\(\\)")
  skip_if_not_installed("lmtest")
  expect_error(lmtest::lrtest(small, large), "lrtest\\(\\) .*logLik\\(\\)")
  expect_true(all(is.na(suppressWarnings(lmtest::lrtest(lm(mpg ~ wt, mtcars), large))[["Pr(>Chisq)"]])))
})

test_that("rows of hyperparameters are named by target and parameter", {
  skip_without_python()
  many <- hyperparameters(bayes_ridge(cbind(mpg, hp) ~ wt, mtcars))
  what <- c("lambda", "tau2", "sigma2", "df_model")
  expect_identical(rownames(many), c(paste0("mpg:", what), paste0("hp:", what)))
  expect_identical(many$parameter, c(what, what))
  expect_identical(rownames(hyperparameters(bayes_ridge(mpg ~ wt, mtcars))), what)
})

test_that("the package is cited with a year", {
  cited <- utils::citation("pybayesridge")
  expect_true(all(nzchar(vapply(unclass(cited), function(entry) as.character(entry$year), ""))))
  expect_match(paste(format(cited, "text"), collapse = " "), as.character(utils::packageVersion("pybayesridge")), fixed = TRUE)
})

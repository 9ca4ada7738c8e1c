# Tests and criteria of least squares are errors that name what to use instead.

fits <- function() {
  list(
    bayes_ridge(mpg ~ wt + hp, mtcars),
    bayes_ridge(am ~ wt, mtcars, family = binomial()),
    spike_slab(mpg ~ wt + hp, mtcars, method = "exact")
  )
}

test_that("criteria and tests of nested models are refused", {
  skip_without_python()
  for (fit in fits()) {
    expect_error(step(fit, trace = 0), "compare_evidence\\(\\)")
    expect_error(drop1(fit), "drop1\\(\\) is not defined .*compare_evidence\\(\\)")
    expect_error(add1(fit, ~ . + qsec), "add1\\(\\) is not defined .*compare_evidence\\(\\)")
    expect_error(anova(fit), "anova\\(\\) is not defined")
    # Names what answers for this fit, and nothing that another method of the same model has.
    for (ask in list(AIC, BIC, step, anova)) expect_error(ask(fit), "or by loo\\(\\) for errors of prediction$")
  }
})

test_that("tests of coefficients are refused", {
  skip_without_python()
  skip_if_not_installed("lmtest")
  for (fit in fits()) {
    expect_error(lmtest::coeftest(fit), "coeftest\\(\\) is not defined .*summary\\(\\)")
    expect_error(lmtest::coefci(fit), "coefci\\(\\) is not defined .*confint\\(\\)")
    expect_error(lmtest::waldtest(fit, "wt"), "waldtest\\(\\) is not defined .*posterior_sample\\(\\)")
    expect_error(lmtest::lrtest(fit), "lrtest\\(\\) is not defined")
  }
})

test_that("methods for packages that are not loaded refuse as well", {
  own <- asNamespace("pybayesridge")
  expect_error(own$linearHypothesis.pybayesridge_fit(NULL, "wt = 0"), "linearHypothesis\\(\\) .*posterior_sample\\(\\)")
  expect_error(own$Anova.pybayesridge_fit(NULL), "Anova\\(\\) .*compare_evidence\\(\\)")
  expect_error(own$deltaMethod.pybayesridge_fit(NULL, "a / b"), "deltaMethod\\(\\) .*each draw")
  expect_error(own$vif.pybayesridge_fit(NULL), "vif\\(\\) .*model.matrix\\(\\)")
  expect_error(own$modelparm.pybayesridge_fit(NULL), "glht\\(\\) .*posterior_sample\\(\\)")
})

test_that("car and multcomp find the methods", {
  skip_without_python()
  fit <- fits()[[1L]]
  # Packages that these tests do not require.
  for (where in c("car", "multcomp")) {
    skip_if_not_installed(where)
    of <- function(name) getExportedValue(where, name)
    if (where == "car") {
      expect_error(of("linearHypothesis")(fit, "wt = 0"), "posterior_sample\\(\\)")
      expect_error(of("vif")(fit), "model.matrix\\(\\)")
    } else {
      expect_error(of("glht")(fit, diag(3)), "posterior_sample\\(\\)")
    }
  }
})

test_that("compare_evidence compares ridges", {
  skip_without_python()
  small <- bayes_ridge(mpg ~ wt, mtcars)
  large <- bayes_ridge(mpg ~ wt + hp, mtcars, method = "em")
  table <- compare_evidence(small = small, large = large)
  difference <- as.numeric(logLik(large)) - as.numeric(logLik(small))
  expect_equal(table["large", "probability"], plogis(difference))
  expect_equal(table["small", "difference"] - table["large", "difference"], -difference)
  expect_named(table, c("log_evidence", "difference", "probability", "df_model", "converged"))
  # The integral over the coefficients, the noise and the penalty, for one column by brute force.
  x <- (mtcars$wt - mean(mtcars$wt)) / sqrt(mean((mtcars$wt - mean(mtcars$wt))^2))
  z <- (mtcars$hp - mean(mtcars$hp)) / sqrt(mean((mtcars$hp - mean(mtcars$hp))^2))
  y <- mtcars$mpg - mean(mtcars$mpg)
  evidence <- function(columns) {
    given_tau2 <- function(tau2) {
      vapply(tau2, function(t2) {
        covariance <- diag(32) + t2 * tcrossprod(columns)
        exp(-0.5 * determinant(covariance)$modulus - 15.5 * log(sum(y * solve(covariance, y)) / sum(y^2)))
      }, 0)
    }
    scale <- ncol(columns)
    prior <- function(share) dbeta(share, 0.5, 0.5)
    integrand <- function(share) given_tau2(share / (1 - share) / scale) * prior(share)
    log(integrate(integrand, 0, 1, rel.tol = 1e-9)$value)
  }
  expect_equal(difference, evidence(cbind(x, z)) - evidence(cbind(x)), tolerance = 1e-5)
  yes <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  also <- bayes_ridge(am ~ wt + hp, mtcars, family = binomial())
  expect_equal(sum(compare_evidence(yes, also)$probability), 1)
})

test_that("a selection without evidence refuses with what it has", {
  skip_without_python()
  fit <- spike_slab(am ~ wt, mtcars, family = binomial(), chains = 1, mcse = 0.5)
  for (ask in list(AIC, anova, drop1, step, compare_evidence)) expect_error(ask(fit), "no log evidence: see inclusion_prob")
  expect_error(AIC(fit), "compare fits by loo\\(\\)")
})

test_that("evidence that cannot be compared is refused", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  refused <- function(other, text) expect_error(compare_evidence(fit, other), text)
  refused(spike_slab(mpg ~ wt, mtcars), "cannot be compared with that of a fit of bayes_ridge")
  refused(bayes_ridge(mpg ~ wt, mtcars, method = "fixed", lam = 1), "whether the penalty is given")
  refused(bayes_ridge(mpg ~ wt, mtcars, sigma2 = 5), "noise variance is known")
  refused(bayes_ridge(mpg ~ wt, mtcars, dof = "paper", method = "em"), "'dof'")
  refused(bayes_ridge(am ~ wt, mtcars, family = binomial()), "its family")
  refused(bayes_ridge(mpg ~ wt, mtcars[-1, ]), "other rows")
  refused(bayes_ridge(qsec ~ wt, mtcars), "another response")
  refused(bayes_ridge(mpg ~ wt + hp, mtcars, unpenalized = "hp"), "other unpenalised columns")
  refused(bayes_ridge(cbind(mpg, qsec) ~ wt, mtcars), "several targets")
  refused(1, "'other' is a numeric vector, not a fit of spike_slab")
  yes <- bayes_ridge(am ~ wt, mtcars, family = binomial())
  expect_error(compare_evidence(yes, bayes_ridge(am ~ wt, mtcars, family = binomial("probit"))), "its family")
  other <- transform(mtcars, am = rev(am))
  expect_error(compare_evidence(yes, bayes_ridge(am ~ wt, other, family = binomial())), "another response")
  free <- bayes_ridge(mpg ~ wt, mtcars, method = "fixed", lam = 0)
  expect_error(compare_evidence(free), "has no evidence")
})

test_that("functions for other kinds of fits say for which they are", {
  skip_without_python()
  ridge <- bayes_ridge(mpg ~ wt, mtcars)
  ols <- lm(mpg ~ wt, mtcars)
  for (ask in list(inclusion_prob, median_model, inclusion_se, select_columns)) {
    expect_error(ask(ridge), "is for fits of spike_slab\\(\\): bayes_ridge\\(\\) includes every column$")
    expect_error(ask(ols), "is for fits of spike_slab\\(\\)$")
  }
  expect_error(posterior_sample(ols), "for fits of bayes_ridge\\(\\) and spike_slab\\(\\), not an object of class lm")
  expect_error(compare_evidence(ols), "^'ols' is an object of class lm, not a fit")
  expect_error(compare_evidence(ridge, wrong = ols), "^'wrong' is")
  # A package that these tests do not require.
  where <- "datawizard"
  skip_if_not_installed(where)
  expect_error(getExportedValue(where, "standardize")(ridge), "standardised data")
})

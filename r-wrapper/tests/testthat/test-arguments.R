# Nothing that is written into a call is passed over: what an argument cannot do is refused by name.

test_that("arguments that a method does not have are refused, with the nearest that it has", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt + hp, mtcars)
  sel <- spike_slab(mpg ~ wt + hp, mtcars)
  rows <- mtcars[1:2, ]
  expect_error(predict(fit, newx = rows), "predict\\(\\) has no argument 'newx': did you mean 'newdata'\\?")
  expect_error(predict(fit, rows, intervall = "credible"), "'intervall': did you mean 'interval'")
  expect_error(predict(fit, type = "terms"), "type = \"terms\" is not available")
  expect_error(predict(fit, rows, "none", 0.95, FALSE, NULL, na.omit, "response", 7), "too many arguments")
  expect_identical(predict(fit, rows, type = "response"), predict(fit, rows))
  for (object in list(fit, sel)) {
    expect_error(coef(object, complete = FALSE), "coef\\(\\) has no argument 'complete'")
    expect_error(vcov(object, targt = 1), "did you mean 'target'")
    expect_error(confint(object, lvel = 0.5), "did you mean 'level'")
    expect_error(fitted(object, a = 1), "fitted\\(\\) has no argument 'a'")
    expect_error(residuals(object, typ3 = 1), "did you mean 'type'")
    expect_error(sigma(object, b = 1), "sigma\\(\\)")
    expect_error(nobs(object, b = 1), "nobs\\(\\)")
    expect_error(weights(object, b = 1), "weights\\(\\)")
    expect_error(df.residual(object, b = 1), "df.residual\\(\\)")
    expect_error(deviance(object, REML = FALSE), "deviance\\(\\)")
    expect_error(logLik(object, REML = FALSE), "logLik\\(\\)")
    expect_error(formula(object, b = 1), "formula\\(\\)")
    expect_error(terms(object, b = 1), "terms\\(\\)")
    expect_error(model.frame(object, data = rows), "model.frame\\(\\)")
    expect_error(model.matrix(object, data = rows), "model.matrix\\(\\)")
    expect_error(case.names(object, full = TRUE), "case.names\\(\\)")
    expect_error(variable.names(object, full = TRUE), "variable.names\\(\\)")
    expect_error(simulate(object, 2, sed = 3), "did you mean 'seed'")
    expect_error(summary(object, levl = 0.5), "did you mean 'level'")
    expect_error(print(object, digit5 = 2), "did you mean 'digits'")
    expect_error(print(summary(object), digit5 = 2), "did you mean 'digits'")
    expect_error(report(object, "x.html", titel = "A"), "did you mean 'title'")
    pdf(NULL)
    expect_error(plot(object, wich = "inclusion"), "plot\\(\\) has no argument 'wich'")
    expect_error(plot(object, maxshown = 3), "did you mean 'max_shown'")
    dev.off()
  }
  expect_error(inclusion_prob(sel, bye = "group"), "did you mean 'by'")
  skip_if_not_installed("generics")
  expect_error(generics::tidy(fit, conf.lvl = 0.5), "did you mean 'conf.level'")
  expect_error(generics::tidy(fit, exponentiate = TRUE), "exponentiate")
  expect_identical(generics::tidy(fit, exponentiate = FALSE), generics::tidy(fit))
  expect_error(generics::glance(fit, x2 = 1), "glance\\(\\)")
  expect_error(generics::augment(fit, new = rows, conflevel = 1), "did you mean 'conf.level'")
})

test_that("what other functions of R pass along is taken", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  expect_identical(nobs(fit, use.fallback = TRUE), 32L)
  expect_identical(sigma(fit, use.fallback = TRUE), sigma(fit))
})

test_that("an interval of least squares is answered with the Bayesian one's name", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ wt, mtcars)
  expect_error(predict(fit, mtcars, interval = "confidence"), "interval = \"credible\"")
  expect_error(predict(fit, mtcars, interval = "predict1on"), "\"none\", \"credible\" or \"prediction\"")
  expect_error(predict(fit, mtcars, interval = c("credible", "prediction")), "one of")
  expect_identical(predict(fit, mtcars[1:2, ], "pred"), predict(fit, mtcars[1:2, ], "prediction"))
  skip_if_not_installed("generics")
  expect_error(generics::augment(fit, newdata = mtcars, interval = "confidence"), "interval = \"credible\"")
})

test_that("arguments of formulas are refused with matrices, and those of matrices with formulas", {
  skip_without_python()
  x <- as.matrix(mtcars[2:4])
  for (fitter in list(bayes_ridge, spike_slab)) {
    expect_error(fitter(x = x, y = mtcars$mpg, subset = 1:10), "'subset' requires a formula.*rows of x and y")
    expect_error(fitter(x = x, y = mtcars$mpg, na.action = na.omit), "'na.action' requires a formula")
    expect_error(fitter(x = x, y = mtcars$mpg, data = mtcars), "'data' requires a formula")
    expect_error(fitter(x = x, y = mtcars$mpg, contrasts = list()), "'contrasts' requires a formula")
    expect_error(fitter(mpg ~ wt, mtcars, intercept = FALSE), "write the formula with '0 \\+'")
    expect_error(fitter(mpg ~ 0 + wt, mtcars, intercept = TRUE), "the formula has no intercept")
    expect_named(coef(fitter(mpg ~ wt, mtcars, intercept = TRUE)), c("(Intercept)", "wt"))
    expect_named(coef(fitter(mpg ~ 0 + wt, mtcars, intercept = FALSE)), "wt")
  }
})

test_that("a first argument that is no formula is answered with how to write it", {
  skip_without_python()
  x <- as.matrix(mtcars[2:4])
  y <- mtcars$mpg
  for (fitter in list(bayes_ridge, spike_slab)) {
    expect_error(fitter(x, y), "not a matrix: with matrices write .*\\(x = , y = \\)")
    expect_error(fitter(mtcars[2:4], y), "not a data frame")
    expect_error(fitter(mtcars, mpg ~ wt), "formula first, then the data")
    expect_error(fitter(y, x), "not a numeric vector")
    expect_error(fitter(3), "'formula' must be a formula")
    expect_close(coef(fitter("mpg ~ wt", mtcars)), coef(fitter(mpg ~ wt, mtcars)))
    expect_error(fitter("mpg", mtcars), "'formula' must be a formula")
  }
  f <- mpg ~ wt
  expect_named(coef(bayes_ridge(f, mtcars)), c("(Intercept)", "wt"))
})

test_that("a data frame of numbers is a response", {
  skip_without_python()
  x <- as.matrix(mtcars[2:4])
  one <- bayes_ridge(x = x, y = mtcars["mpg"])
  expect_identical(one$targets, "mpg")
  expect_close(coef(one), coef(bayes_ridge(x = x, y = mtcars$mpg)))
  expect_identical(bayes_ridge(x = x, y = mtcars[c("mpg", "qsec")])$targets, c("mpg", "qsec"))
  expect_close(coef(spike_slab(x = x, y = mtcars["mpg"])), coef(spike_slab(x = x, y = mtcars$mpg)))
  expect_error(bayes_ridge(x = x, y = data.frame(g = rep("a", 32))), "response 'g' must be numeric, not character")
  expect_error(bayes_ridge(x = x, y = mtcars[0]), "the response has no column")
  skip_if_not_installed("tibble")
  expect_close(coef(bayes_ridge(x = x, y = tibble::as_tibble(mtcars["mpg"]))), coef(one))
})

test_that("terms are found whatever the order of an interaction", {
  skip_without_python()
  d <- transform(mtcars, g = factor(gear))
  same <- function(a, b) {
    expect_close(
      coef(bayes_ridge(mpg ~ wt * hp + g:wt, d, unpenalized = a)), coef(bayes_ridge(mpg ~ wt * hp + g:wt, d, unpenalized = b))
    )
  }
  same("hp:wt", "wt:hp")
  same("g:wt", "wt:g")
  same("g4:wt", "wt:g4")
  fit <- bayes_ridge(mpg ~ wt * hp, d)
  expect_identical(confint(fit, "hp:wt"), confint(fit, "wt:hp"))
  expect_error(bayes_ridge(mpg ~ wt * hp, d, unpenalized = "wt:hpp"), "did you mean 'wt:hp'")
  expect_error(confint(fit, "hpp"), "no coefficient 'hpp': did you mean 'hp'")
  sel <- function(p) spike_slab(mpg ~ wt * hp, d, prior_inclusion = p, slab_var = 1, noise_var = 6)
  expect_close(coef(sel(c(wt = 0.2, hp = 0.3, "hp:wt" = 0.4))), coef(sel(c(wt = 0.2, hp = 0.3, "wt:hp" = 0.4))))
  by <- function(g) spike_slab(mpg ~ wt * hp, d, group = g, prior_inclusion = 0.5, slab_var = 1, noise_var = 6)
  expect_close(coef(by(list(u = c("wt", "hp:wt")))), coef(by(list(u = c("wt", "wt:hp")))))
})

test_that("penalties of a grid are checked in R's way of counting", {
  skip_without_python()
  expect_error(bayes_ridge(mpg ~ wt, mtcars, method = "loocv", grid = c(1, -2, 3)), "'grid'.*grid\\[2\\] is -2$")
  expect_error(bayes_ridge(mpg ~ wt, mtcars, method = "loocv", grid = c(1, NA)), "grid\\[2\\] is NA$")
  expect_error(bayes_ridge(mpg ~ wt, mtcars, method = "loocv", grid = "fine"), "\"fixed\", \"glmnet\" or a vector of penalties")
  expect_error(bayes_ridge(mpg ~ wt, mtcars, method = "loocv", grid = numeric()), "'grid'")
  expect_error(bayes_ridge(mpg ~ wt, mtcars, lam = 3), "lam")
})

test_that("every function for users refuses arguments that it does not have, and names the nearest", {
  own <- asNamespace("pybayesridge")
  for (name in getNamespaceExports(own)) {
    takes <- names(formals(get(name, own)))
    expect_true("..." %in% takes, label = paste0(name, "() takes '...'"))
    # Those of reticulate; a list of fits; generics, whose methods refuse.
    if (name %in% c("install_pybayesridge", "compare_evidence", "compare_models", "inclusion_prob", "report", "contrast", "fixef", "ranef", "VarCorr")) next
    ask <- function(arguments) do.call(get(name, own), arguments)
    expect_error(ask(list(unknown_to_all = 1)), paste0("^", name, "\\(\\) has no argument 'unknown_to_all'"))
    known <- setdiff(takes, "...")
    if (!length(known)) next
    # A letter too many is no abbreviation.
    given <- stats::setNames(list(1), paste0(known[length(known)], "s"))
    expect_error(ask(given), paste0("did you mean '", known[length(known)], "'"))
  }
  expect_error(bayes_ridge(mpg ~ ., mtcars, methods = "em"), "no argument 'methods': did you mean 'method'\\?$")
  expect_error(bayes_ridge(mpg ~ ., mtcars, lambda = 1), "did you mean 'lam'\\?$")
  expect_error(spike_slab(formla = mpg ~ ., mtcars), "did you mean 'formula'\\?$")
  expect_error(spike_slab(mpg ~ ., mtcars, offset = hp), "no argument 'offset' \\(it takes 'data', 'subset'")
})

test_that("names that are not R's are found with and without backticks", {
  skip_without_python()
  d <- stats::setNames(mtcars[c("mpg", "wt", "hp")], c("mpg", "the weight", "hp"))
  fit <- bayes_ridge(mpg ~ `the weight` + hp, d)
  expect_identical(confint(fit, "the weight"), confint(fit, "`the weight`"))
  free <- bayes_ridge(mpg ~ `the weight` + hp, d, unpenalized = "the weight")
  expect_identical(free$posterior$z_at, bayes_ridge(mpg ~ `the weight` + hp, d, unpenalized = "`the weight`")$posterior$z_at)
  sel <- spike_slab(mpg ~ `the weight` + hp, d, prior_inclusion = c("the weight" = 0.2, hp = 0.4), slab_var = 1, noise_var = 6)
  expect_identical(sel$prior_inclusion[["`the weight`"]], 0.2)
})

test_that("a selection of several responses is refused in R's words", {
  skip_without_python()
  expect_error(spike_slab(cbind(mpg, hp) ~ wt, mtcars), "takes one response, got 2: fit each on its own")
  expect_error(spike_slab(x = as.matrix(mtcars["wt"]), y = mtcars[c("mpg", "hp", "qsec")]), "got 3")
})

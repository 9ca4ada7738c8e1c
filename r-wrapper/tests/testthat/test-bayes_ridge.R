# All numbers of a fit, and all that R works out by itself, against Python's.

expect_all_as_python <- function(fit, y, x, newdata, rows, ..., weights = NULL, intercept = TRUE, unpenalized = NULL) {
  level <- 0.9
  py <- python_ridge(
    y, x, rows, ...,
    weights = weights, intercept = intercept, unpenalized = unpenalized, level = level
  )
  q <- length(fit$targets)
  expect_close(coef(fit), py$coef)
  expect_close(fit$bse, py$bse)
  for (i in seq_len(q)) {
    expect_close(vcov(fit, target = i), py$cov[i, , ])
  }
  # Python's intervals run over coefficients, then limits (under each target); R stacks targets.
  limits <- array(py$ci, c(nrow(as.matrix(coef(fit))), if (q > 1) c(2, q) else c(2, 1)))
  expect_close(confint(fit, level = level), do.call(rbind, lapply(seq_len(q), function(i) limits[, , i])))
  expect_close(fitted(fit), py$fitted)
  expect_close(residuals(fit), py$resid)
  expect_close(fit$lambda_, py$lam)
  expect_close(sigma(fit)^2, py$sigma2)
  expect_close(fit$log_marginal, py$log_marginal)
  for (i in seq_len(q)) {
    own <- hyperparameters(fit, level = level)
    numbers <- as.matrix(own[c("mean", "median", "lower", "upper")])[(i - 1) * 4 + 1:4, ]
    for (row in 1:4) expect_close(numbers[row, ], py$hyper[i, row, ])
  }
  for (where in c("new", "own")) {
    data <- if (where == "new") newdata
    expected <- py[[where]]
    credible <- predict(fit, data, interval = "credible", level = level, se.fit = TRUE)
    predictive <- predict(fit, data, interval = "prediction", level = level)
    expect_close(predict(fit, data), expected[, , 1])
    expect_close(credible$se.fit, expected[, , 2])
    m <- dim(expected)[1]
    credible <- array(credible$fit, c(m, 3, q))
    predictive <- array(predictive, c(m, 3, q))
    expect_close(credible[, 2, ], expected[, , 3])
    expect_close(credible[, 3, ], expected[, , 4])
    expect_close(predictive[, 2, ], expected[, , 5])
    expect_close(predictive[, 3, ], expected[, , 6])
  }
}

methods <- list(
  em = list(method = "em"),
  em_paper = list(method = "em", dof = "paper", parameterization = "tau", accelerate = FALSE),
  exact = list(method = "exact"),
  loocv = list(method = "loocv"),
  gcv = list(method = "gcv", grid = "glmnet"),
  fixed = list(method = "fixed", lam = 2.5)
)

cases <- list(
  mtcars = list(mpg ~ ., mtcars),
  iris = list(Sepal.Length ~ Species * Petal.Width + log(Petal.Length), iris),
  longley = list(Employed ~ ., longley),
  warpbreaks = list(breaks ~ wool * tension, warpbreaks),
  no_intercept = list(mpg ~ 0 + wt + hp + qsec, mtcars),
  smooth = list(dist ~ splines::ns(speed, 3), cars),
  targets = list(cbind(mpg, qsec) ~ wt + hp + factor(gear), mtcars)
)

for (case in names(cases)) {
  for (method in names(methods)) {
    test_that(sprintf("R has Python's numbers: %s, %s", case, method), {
      skip_without_python()
      formula <- cases[[case]][[1]]
      data <- cases[[case]][[2]]
      fit <- suppressWarnings(do.call(bayes_ridge, c(list(formula, data, model = TRUE), methods[[method]])))
      frame <- model.frame(formula, data)
      x <- model.matrix(formula, frame)
      newdata <- data[seq(1, nrow(data), length.out = 5), ]
      rows <- without_ones(x)[seq(1, nrow(data), length.out = 5), , drop = FALSE]
      do.call(expect_all_as_python, c(
        list(fit, model.response(frame), without_ones(x), newdata, rows, intercept = "(Intercept)" %in% colnames(x)),
        methods[[method]]
      ))
    })
  }
}

wide <- function(p) {
  set.seed(1)
  x <- matrix(rnorm(60 * p), 60)
  list(x = x, y = drop(x[, 1:5] %*% c(3, -2, 2, 1, 1)) + rnorm(60))
}

for (method in names(methods)) {
  # Quantiles of the mixtures of "exact" take their time in R.
  p <- if (method == "exact") 300 else 2000
  test_that(paste("a 60 x", p, "matrix:", method), {
    skip_without_python()
    data <- wide(p)
    fit <- suppressWarnings(do.call(bayes_ridge, c(list(x = data$x, y = data$y, model = TRUE), methods[[method]])))
    set.seed(2)
    rows <- matrix(rnorm(3 * p), 3)
    py <- do.call(python_ridge, c(list(data$y, data$x, rows, level = 0.9), methods[[method]]))
    expect_close(coef(fit), py$coef)
    expect_close(fit$bse, py$bse)
    expect_close(confint(fit, level = 0.9), py$ci)
    expect_close(predict(fit, rows, interval = "prediction", level = 0.9)[, 2:3], py$new[, 1, 5:6])
    expect_close(predict(fit, rows, interval = "credible", level = 0.9)[, 2:3], py$new[, 1, 3:4])
    expect_close(predict(fit, interval = "credible", level = 0.9)[, 2:3], py$own[, 1, 3:4])
  })
}

test_that("quantiles of components on scales from 1e-13 to 1e65 have the probability", {
  # As under the prior alone: the variance rises with l = log t2, whose density falls as exp(-tail l).
  l <- seq(-60, 300, by = 0.5)
  for (tail in c(0.1, 0.5, 2)) {
    weight <- exp(-pmax(tail * l, 0) + pmin(l, 0))
    keep <- weight / sum(weight) > 1e-13
    weight <- weight[keep] / sum(weight[keep])
    where <- outer(1 / (1 + exp(-l[keep])), c(0, 3, -1e6, 1e-9))
    scale <- outer(exp(l[keep] / 2), c(1, 1e-8, 1, 1e40))
    for (df in c(1, 5, Inf)) {
      for (probability in c(0.005, 0.05, 0.5, 0.8, 0.975)) {
        found <- mixture_quantile(t(where), t(scale), weight, df, probability)
        standard <- (rep(found, each = nrow(where)) - where) / scale
        below <- drop(weight %*% matrix(stats::pt(standard, df), nrow(where)))
        # Ten times the largest error seen, relative to the probability in the shorter tail.
        expect_lt(max(abs(below - probability)) / min(probability, 1 - probability), 1e-8)
      }
    }
  }
})

test_that("quantiles of many mixtures of many components have the probability, however unlike each other", {
  set.seed(3)
  # Nodes of a quadrature: scales rise from next to nothing, and are the same at the end.
  t <- seq(-1, 1, length.out = 70)
  weight <- exp(-3 * t^2)
  weight <- weight / sum(weight)
  rows <- 400
  usual <- list(where = outer(rnorm(rows), plogis(9 * t)), scale = outer(exp(rnorm(rows)), pmin(10^(9 * (t + 0.2)), 1)))
  # Some are far from zero, on both sides of it or next to nothing.
  odd <- rep(c(0, 1), c(rows - 30, 30))
  cases <- list(
    usual, list(where = usual$where + 6 * odd, scale = usual$scale), list(where = usual$where * (1 + 1e3 * odd), scale = usual$scale),
    list(where = usual$where * 10^(-12 * odd), scale = usual$scale * 10^(-12 * odd)), list(where = usual$where, scale = outer(exp(rnorm(rows)), exp(t)))
  )
  probabilities <- c(0.025, 0.975, 0.5, 0.9)
  for (case in cases) {
    for (df in c(2, 20, 99, Inf)) {
      found <- mixture_quantiles(case$where, case$scale, weight, df, probabilities)
      for (i in seq_along(probabilities)) {
        # Narrow components have their probability within some digits of a quantile.
        around <- 1e-9 * rowSums(case$scale * rep(weight, each = rows))
        share <- function(x) drop(matrix(stats::pt((x - case$where) / case$scale, df), rows) %*% weight)
        lack <- pmax(share(found[, i] - around) - probabilities[i], probabilities[i] - share(found[, i] + around), 0)
        # Ten times the largest error seen.
        expect_lt(max(lack), 3e-8)
      }
    }
  }
})

for (prior in list("r2", "half-cauchy", c(1, 2), c(0.5, 0.5, 0.05))) {
  test_that(paste("R has Python's numbers under the prior", paste(prior, collapse = ", ")), {
    skip_without_python()
    x <- as.matrix(mtcars[c("wt", "hp", "qsec", "drat")])
    for (method in c("exact", "em")) {
      fit <- bayes_ridge(x = x, y = mtcars$mpg, method = method, prior = prior, model = TRUE)
      expect_identical(fit$prior, prior)
      expect_all_as_python(fit, mtcars$mpg, x, x[3:6, ], x[3:6, ], method = method, prior = prior)
    }
  })
}

test_that("the exact posterior under the prior of R-squared is the default", {
  skip_without_python()
  default <- bayes_ridge(mpg ~ ., mtcars)
  expect_identical(default$method, "exact")
  expect_identical(default$prior, "r2")
  expect_identical(coef(default), coef(bayes_ridge(mpg ~ ., mtcars, method = "exact", prior = "r2")))
})

test_that("weights and unpenalised columns give Python's numbers", {
  skip_without_python()
  d <- mtcars
  d$w <- seq(0.5, 3, length.out = 32)
  x <- without_ones(model.matrix(mpg ~ wt + factor(cyl) + hp, d))
  for (method in c("em", "exact")) {
    fit <- bayes_ridge(
      mpg ~ wt + factor(cyl) + hp, d,
      weights = w, unpenalized = "factor(cyl)", method = method, model = TRUE
    )
    expect_all_as_python(
      fit, d$mpg, x, d[3:6, ], x[3:6, ],
      method = method, weights = d$w, unpenalized = which(grepl("cyl", colnames(x)))
    )
  }
})

test_that("a constant column of x serves as the intercept, one that varies by nothing else gets 0", {
  skip_without_python()
  x <- cbind(one = 1, as.matrix(mtcars[c("wt", "hp")]), flat = 3)
  fit <- bayes_ridge(x = x, y = mtcars$mpg)
  expect_named(coef(fit), c("one", "wt", "hp", "flat"))
  expect_identical(coef(fit)[["flat"]], 0)
  plain <- bayes_ridge(x = x[, 2:3], y = mtcars$mpg)
  expect_named(coef(plain), c("(Intercept)", "wt", "hp"))
  expect_close(coef(fit)[1:3], coef(plain))
  expect_close(predict(fit, x[1:3, ], "prediction"), predict(plain, x[1:3, 2:3], "prediction"))
})

test_that("matrices and formulas agree, and names of columns are kept", {
  skip_without_python()
  x <- as.matrix(mtcars[-1])
  a <- bayes_ridge(x = x, y = mtcars$mpg)
  b <- bayes_ridge(mpg ~ ., mtcars)
  expect_close(coef(a), coef(b))
  expect_identical(names(coef(a)), names(coef(b)))
  expect_close(predict(a, mtcars[4:6, ]), predict(b, mtcars[4:6, ]))
  expect_close(predict(a, x[4:6, 10:1]), predict(b, mtcars[4:6, ]))
  expect_named(coef(bayes_ridge(x = unname(x[, 1:2]), y = mtcars$mpg)), c("(Intercept)", "x1", "x2"))
})

test_that("the numbers of a fit are R's own and nothing else is in it", {
  skip_without_python()
  check <- function(object, path) {
    if (is.list(object)) {
      for (name in names(object)) check(object[[name]], paste0(path, "$", name))
    } else {
      good <- is.numeric(object) || is.character(object) || is.logical(object) || is.language(object) || is.null(object)
      expect_true(good, label = path)
      expect_null(attr(object, ".Environment"), label = path)
    }
  }
  wrapped <- function() {
    ballast <- rnorm(1e6)
    f <- mpg ~ wt + poly(hp, 2)
    bayes_ridge(f, mtcars, model = FALSE)
  }
  fit <- wrapped()
  check(unclass(fit), "fit")
  expect_lt(length(serialize(fit, NULL)), 20000)
  expect_null(fit$model)
})

test_that("methods' own results come along", {
  skip_without_python()
  fit <- bayes_ridge(mpg ~ ., mtcars, method = "loocv", grid = 10^seq(3, -3, length.out = 25))
  expect_length(fit$grid, 25)
  expect_length(fit$grid_scores, 25)
  expect_equal(fit$loo_mse, min(fit$grid_scores))
  expect_equal(fit$lambda_, fit$grid[which.min(fit$grid_scores)])
  em <- bayes_ridge(mpg ~ ., mtcars)
  expect_identical(em$n_modes, 1)
  expect_identical(em$solver, "gram")
  expect_true(em$converged)
  expect_true(all(c("gamma_n", "tau2_bound", "null_model") %in% names(em$diagnostics)))
  expect_output(bayes_ridge(mpg ~ wt, mtcars, disp = TRUE), "converged")
  known <- bayes_ridge(mpg ~ wt, mtcars, sigma2 = 4)
  expect_equal(sigma(known), 2)
  many <- bayes_ridge(cbind(mpg, hp) ~ wt, mtcars, method = "fixed", lam = c(1, 10))
  expect_equal(many$lambda_, c(mpg = 1, hp = 10))
  named <- bayes_ridge(cbind(mpg, hp) ~ wt, mtcars, method = "fixed", lam = c(hp = 10, mpg = 1))
  expect_equal(coef(named), coef(many))
  expect_error(
    bayes_ridge(cbind(mpg, hp) ~ wt, mtcars, method = "fixed", lam = c(a = 1, b = 10)),
    "a number for each of the targets 'mpg', 'hp'"
  )
  x <- as.matrix(mtcars[c("wt", "hp", "disp")])
  numbered <- `colnames<-`(x, c("2", "3", "1"))
  for (own in list(x, numbered, unname(x))) {
    free <- bayes_ridge(x = own, y = mtcars$mpg, unpenalized = 2, method = "fixed", lam = 3)
    expect_equal(unname(coef(free)), unname(coef(bayes_ridge(x = x, y = mtcars$mpg, unpenalized = "hp", method = "fixed", lam = 3))))
  }
})

# Leave-one-out scores for 'loo' against sums over the rows, fits without a row, and Python's.

rounding <- 1e-10

test_that("loo is the sum of the leave-one-out log scores", {
  skip_without_python()
  skip_if_not_installed("loo")
  d <- transform(mtcars, am = factor(am, labels = c("no", "yes")))
  fit <- bayes_ridge(am ~ wt, d, family = binomial())
  found <- loo::loo(fit)
  expect_s3_class(found, "loo")
  share <- fit$loo_probabilities
  scores <- dbinom(mtcars$am, 1, share, log = TRUE)
  expect_close(found$pointwise[, "elpd_loo"], scores, rounding)
  expect_close(found$estimates["elpd_loo", ], c(sum(scores), sqrt(32) * sd(scores)), rounding)
  expect_close(found$estimates["elpd_loo", 1] / 32, fit$loo_log_score, rounding)
  inside <- dbinom(mtcars$am, 1, fitted(fit), log = TRUE)
  # Probabilities within are by another rule of quadrature.
  expect_close(found$estimates["p_loo", 1], sum(inside) - sum(scores), 1e-6)
  expect_output(print(found), "of 32 rows.*elpd_loo")
  # Without the row in which the score is lowest: the penalty of the fit is kept, the approximation is its own.
  row <- which.min(scores)
  without <- bayes_ridge(am ~ wt, d[-row, ], family = binomial())
  alone <- dbinom(mtcars$am[row], 1, predict(without, d[row, ]), log = TRUE)
  expect_lt(abs(alone - scores[row]), 0.3)
  expect_gt(abs(alone - inside[row]), abs(alone - scores[row]))
  other <- bayes_ridge(am ~ hp, d, family = binomial())
  table <- loo::loo_compare(found, loo::loo(other))
  expect_close(table[2, "elpd_diff"], -abs(32 * (other$loo_log_score - fit$loo_log_score)), rounding)
})

# Log densities of rows from the others by hand, for a given penalty and columns that are not standardised.
by_hand <- function(x, y, lam, variance = NULL) {
  x <- cbind(1, x)
  vapply(seq_along(y), function(i) {
    own <- x[i, ]
    a <- crossprod(x[-i, ]) + diag(c(0, rep(lam, ncol(x) - 1)))
    b <- solve(a, crossprod(x[-i, ], y[-i]))
    df <- length(y) - 2
    s2 <- if (is.null(variance)) (sum(y[-i]^2) - sum(b * crossprod(x[-i, ], y[-i]))) / df else variance
    scale <- sqrt(s2 * (1 + drop(own %*% solve(a, own))))
    dt((y[i] - sum(own * b)) / scale, if (is.null(variance)) df else Inf, log = TRUE) - log(scale)
  }, 0)
}

test_that("with a given penalty each score is that of a fit without the row", {
  skip_without_python()
  skip_if_not_installed("loo")
  x <- as.matrix(mtcars[c("hp", "wt", "qsec")])
  fit <- bayes_ridge(x = x, y = mtcars$mpg, method = "fixed", lam = 3, standardize = FALSE)
  found <- loo::loo(fit)
  # Products of columns of different size cost digits by hand.
  expect_close(found$pointwise[, "elpd_loo"], by_hand(x, mtcars$mpg, 3), 1e-8)
  expect_close(found$estimates["looic", 1], -2 * sum(found$pointwise[, 1]), rounding)
  known <- bayes_ridge(x = x, y = mtcars$mpg, method = "fixed", lam = 3, standardize = FALSE, sigma2 = 5)
  expect_close(loo::loo(known)$pointwise[, "elpd_loo"], by_hand(x, mtcars$mpg, 3, 5), 1e-8)
})

test_that("the scores are Python's, for every kind of fit", {
  skip_without_python()
  skip_if_not_installed("loo")
  python <- reticulate::py_run_string("
def score(file, target):
    import warnings
    import numpy as np
    import pybayesridge
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        found = pybayesridge.load(file).loo(target=target)
    n_eff = None if found.n_eff is None else np.asarray(found.n_eff)
    table = found.summary().to_numpy()
    return dict(pointwise=np.asarray(found.pointwise), table=table, n_eff=n_eff, copies=found.copies)
", local = TRUE)
  set.seed(3)
  wide <- matrix(rnorm(25 * 40), 25)
  many <- matrix(rnorm(40 * 17), 40)
  fits <- list(
    bayes_ridge(mpg ~ poly(hp, 2) + factor(cyl) + wt, mtcars, weights = qsec, unpenalized = "wt"),
    bayes_ridge(mpg ~ hp + wt, mtcars, method = "em", dof = "paper"),
    bayes_ridge(mpg ~ hp + wt, mtcars, sigma2 = 5),
    bayes_ridge(cbind(mpg, qsec) ~ hp + wt, mtcars),
    bayes_ridge(x = wide, y = wide[, 1] + rnorm(25), prior = "half-cauchy"),
    spike_slab(mpg ~ hp + wt + factor(cyl), mtcars, weights = qsec, noise_var = 4),
    spike_slab(x = many, y = many[, 1] + rnorm(40), mcse = 0.05),
    spike_slab(mpg ~ hp + wt + factor(cyl), mtcars, method = "ep", weights = qsec),
    spike_slab(x = wide, y = wide[, 1] + rnorm(25), method = "ep", hyper = "maximize"),
    bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial()),
    bayes_ridge(am ~ wt, mtcars, family = binomial("probit"), weights = carb),
    spike_slab(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial("probit"), method = "ep"),
    spike_slab(am ~ wt + hp, mtcars, family = binomial(), weights = carb, method = "ep")
  )
  # Short runs of the sampler.
  many_trials <- data.frame(a = seq(-1, 1, length.out = 20), yes = rep(c(40, 90, 60, 120), 5), no = 100)
  short <- list(
    case ~ age + parity, cbind(ncases, ncontrols) ~ agegp, am ~ wt + hp, cbind(yes, no) ~ a
  )
  data <- list(infert, esoph, mtcars, many_trials)
  # Of two of them sets are sampled anew without many rows, which takes most of the time.
  for (i in if (is_thorough()) 1:4 else c(1L, 4L)) {
    family <- binomial(if (i == 1) "probit" else "logit")
    weights <- if (i == 3) mtcars$carb else rep(1, nrow(data[[i]]))
    arguments <- list(short[[i]], data[[i]], family = family, weights = weights, mcse = 0.5, maxiter = 200)
    fits <- c(fits, list(suppressWarnings(do.call(spike_slab, arguments))))
  }
  file <- tempfile(fileext = ".fit")
  on.exit(unlink(file))
  for (fit in fits) {
    suppressWarnings(save_fit(fit, file))
    for (target in fit$targets) {
      ours <- suppressWarnings(loo::loo(fit, target = target))
      theirs <- python$score(file, target)
      # A row of yes/no responses that counts several times is several rows.
      row <- rep(seq_along(theirs$pointwise), theirs$copies)
      expect_close(rowsum(ours$pointwise[, "elpd_loo"], row), theirs$pointwise, 1e-9)
      # Probabilities of rows from all rows are by other rules of quadrature.
      tolerance <- if (!is.null(fit$link)) 2e-6 else 1e-8
      expect_close(ours$estimates["elpd_loo", ], theirs$table[1, ], 1e-9)
      expect_close(ours$estimates["p_loo", ], theirs$table[2, ], tolerance)
      expect_close(ours$estimates["looic", ], theirs$table[3, ], 1e-9)
      expect_identical(is.null(ours$n_eff), is.null(theirs$n_eff))
      if (!is.null(theirs$n_eff)) expect_close(ours$n_eff, theirs$n_eff[row], 1e-8)
    }
    if (length(fit$targets) > 1) expect_error(loo::loo(fit), "name one by 'target'")
  }
  ridge <- loo::loo(bayes_ridge(mpg ~ hp + wt, mtcars))
  selection <- loo::loo(spike_slab(mpg ~ hp + wt, mtcars))
  table <- loo::loo_compare(list(ridge = ridge, selection = selection))
  expect_close(sum(table[, "elpd_diff"]), -abs(ridge$estimates[1, 1] - selection$estimates[1, 1]), rounding)
})

test_that("rows that the others do not predict are named", {
  skip_without_python()
  skip_if_not_installed("loo")
  d <- transform(mtcars, alone = as.numeric(seq_len(32) == 5))
  expect_error(loo::loo(bayes_ridge(mpg ~ wt + alone, d, unpenalized = "alone")), "row 'Hornet Sportabout' has no leave-one-out")
  flat <- bayes_ridge(x = diag(8)[, -1], y = c(1, 3, 2, 5, 4, 7, 6, 9), method = "fixed", lam = 0)
  expect_error(loo::loo(flat), "no leave-one-out score")
  gone <- bayes_ridge(x = as.matrix(mtcars[2:3]), y = mtcars$mpg, model = FALSE)
  gone$call$x <- quote(nothing)
  expect_error(loo::loo(gone), "holds no data")
})

test_that("standard errors are those of the package loo", {
  skip_without_python()
  skip_if_not_installed("loo")
  found <- loo::loo(bayes_ridge(mpg ~ hp + wt, mtcars))
  scores <- found$pointwise[, "elpd_loo"]
  # Its own table, of as good as constant draws.
  draws <- matrix(scores, 1000, 32, byrow = TRUE)
  theirs <- suppressWarnings(loo::waic(draws + rnorm(1000, sd = 1e-6)))$estimates["elpd_waic", ]
  expect_close(found$estimates["elpd_loo", ], theirs, 1e-5)
})

test_that("weights that are not whole numbers are refused", {
  skip_without_python()
  skip_if_not_installed("loo")
  weighted <- bayes_ridge(am ~ wt, mtcars, family = binomial(), weights = qsec)
  expect_error(loo::loo(weighted), "weights that are whole numbers")
})

test_that("without a row expectation propagation can be no distribution, which is not leverage 1", {
  skip_without_python()
  skip_if_not_installed("loo")
  fit <- spike_slab(mpg ~ wt + factor(cyl), mtcars, method = "ep")
  expect_error(loo::loo(fit), "'Merc 240D' has no leave-one-out score: without it the approximation by expectation propagation")
  one <- transform(mtcars, one = as.numeric(seq_len(32) == 3))
  for (method in c("ep", "exact")) {
    fit <- spike_slab(mpg ~ wt + one, one, unpenalized = "one", method = method)
    expect_error(loo::loo(fit), "'Datsun 710' .*leverage 1")
  }
})

test_that("scores of selections count sets that matter only without a row", {
  skip_without_python()
  skip_if_not_installed("loo")
  i <- 1:20
  # Row 5 alone speaks for the second column, so that no set without it is kept.
  d <- data.frame(a = sin(i), b = as.numeric(i == 5), c = cos(3 * i))
  d$y <- d$a + 50 * d$b + ((7 * i) %% 5 - 2) / 4
  fit <- spike_slab(y ~ a + b + c, d, method = "exact", standardize = FALSE, slab_var = 2500, noise_var = 0.1, prior_inclusion = 0.2)
  scores <- loo::loo(fit)$pointwise[, "elpd_loo"]
  of_kept <- left_out_rows(fit, environment(), 1L)$elpd
  # Without the row the second column is zero, and the prior alone tells whether it is in.
  out <- log(0.2) + dnorm(50, sd = sqrt(2500 + 0.1), log = TRUE)
  expect_lt(abs(scores[5] - out), 0.05)
  expect_gt(abs(of_kept[5] - scores[5]), 1)
  expect_close(scores[-5], of_kept[-5], 1e-3)
})

test_that("whole groups are left out", {
  skip_without_python()
  skip_if_not_installed("loo")
  set.seed(1)
  d <- data.frame(x = rnorm(40), g = rep(letters[1:8], 5))
  d$y <- d$x + rnorm(8)[match(d$g, letters)] + rnorm(40)
  fit <- bayes_ridge(y ~ x + (1 | g), d)
  found <- loo::loo(fit, by = "g")
  expect_identical(rownames(found$pointwise), letters[1:8])
  expect_identical(found$pointwise, loo::loo(fit, by = d$g)$pointwise)
  expect_output(print(found), "8 groups of rows")
  expect_true(all(found$overlap > 0 & found$overlap <= 1))
  rows <- loo::loo(fit, by = seq_len(40))
  expect_close(sum(rows$pointwise[, "elpd_loo"]), loo::loo(fit)$estimates["elpd_loo", "Estimate"], 1e-6)
  d$yes <- as.integer(d$y > 0)
  logistic <- loo::loo(bayes_ridge(yes ~ x + (1 | g), d, family = binomial()), by = "g")
  expect_identical(rownames(logistic$pointwise), letters[1:8])
  expect_true(all(logistic$n_eff > 100 & logistic$mcse < 0.05))
  expect_error(loo::loo(fit, by = "h"), "no variable of the formula")
  expect_error(loo::loo(fit, by = 1:3), "label for each of the 40 rows")
})

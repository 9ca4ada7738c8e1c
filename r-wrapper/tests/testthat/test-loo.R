# Leave-one-out scores for 'loo' against sums over the rows, and against fits without a row.

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
  expect_close(found$estimates["p_loo", 1], sum(inside) - sum(scores), rounding)
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

test_that("fits without scores of rows are refused", {
  skip_without_python()
  skip_if_not_installed("loo")
  expect_error(loo::loo(bayes_ridge(mpg ~ wt, mtcars)), "compare_evidence\\(\\)")
  expect_error(loo::loo(spike_slab(mpg ~ wt, mtcars)), "compare_evidence\\(\\)")
  counts <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial())
  expect_error(loo::loo(counts), "one trial in each row")
  weighted <- bayes_ridge(am ~ wt, mtcars, family = binomial(), weights = carb)
  expect_error(loo::loo(weighted), "no weights")
})

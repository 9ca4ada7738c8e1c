# Estimated marginal means against predictions at the grid, which are computed without 'emmeans'.

# Rounding; and Monte Carlo standard errors.
rounding <- 1e-8
errors <- 5

as_table <- function(x, ...) as.data.frame(summary(x, ...))

# Posterior means and standard deviations of linear functions `rows` of the coefficients.
moments <- function(fit, rows) {
  list(mean = drop(rows %*% coef(fit)), sd = sqrt(rowSums((rows %*% vcov(fit)) * rows)))
}

test_that("means of factors with interactions and transforms are averages of predictions", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  skip_if_not_installed("coda")
  d <- transform(mtcars, cyl = factor(cyl), vs = c("V", "S")[vs + 1])
  fit <- bayes_ridge(mpg ~ cyl * log(wt) + poly(hp, 2) + vs, d, weights = qsec)
  found <- emmeans::emmeans(fit, ~ cyl | wt, at = list(wt = c(2, 3)))
  grid <- expand.grid(cyl = levels(d$cyl), wt = c(2, 3), vs = c("S", "V"), stringsAsFactors = FALSE)
  grid$hp <- mean(d$hp)
  grid$fit <- predict(fit, grid)
  expected <- aggregate(fit ~ cyl + wt, grid, mean)
  exact <- as_table(found, frequentist = TRUE)
  expect_close(exact$emmean, expected$fit, rounding)
  drawn <- as_table(found, point.est = mean)
  expect_lt(max(abs(drawn$emmean - expected$fit) / (exact$SE / sqrt(4000))), errors)
  expect_true(all(c("lower.HPD", "upper.HPD") %in% names(drawn)))
  expect_identical(as_table(emmeans::emmeans(fit, ~ cyl | wt, at = list(wt = c(2, 3)))), as_table(found))
  more <- as_table(emmeans::emmeans(fit, ~ cyl | wt, at = list(wt = c(2, 3)), ndraws = 100, seed = 3))
  expect_false(isTRUE(all.equal(more, as_table(found))))
})

test_that("contrasts and trends have the posterior's standard deviations", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  skip_if_not_installed("coda")
  fit <- bayes_ridge(breaks ~ wool * tension, warpbreaks)
  found <- as_table(pairs(emmeans::emmeans(fit, ~ wool | tension)), frequentist = TRUE)
  grid <- expand.grid(wool = levels(warpbreaks$wool), tension = levels(warpbreaks$tension))
  x <- model.matrix(~ wool * tension, grid)
  expected <- moments(fit, x[c(1, 3, 5), ] - x[c(2, 4, 6), ])
  expect_close(found$estimate, expected$mean, rounding)
  expect_close(found$SE, expected$sd, rounding)
  slopes <- bayes_ridge(mpg ~ wt * factor(cyl), mtcars)
  trend <- as_table(emmeans::emtrends(slopes, ~cyl, "wt"), frequentist = TRUE)
  rows <- cbind(0, 1, 0, 0, c(0, 1, 0), c(0, 0, 1))
  expect_close(trend$wt.trend, moments(slopes, rows)$mean, 1e-6)
  expect_close(trend$SE, moments(slopes, rows)$sd, 1e-6)
})

test_that("binomial means are transformed by the link", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  skip_if_not_installed("coda")
  for (link in c("logit", "probit")) {
    fit <- bayes_ridge(am ~ wt + factor(cyl > 4), mtcars, family = binomial(link))
    linear <- as_table(emmeans::emmeans(fit, ~cyl, at = list(cyl = c(4, 6))))
    found <- as_table(emmeans::emmeans(fit, ~cyl, at = list(cyl = c(4, 6)), type = "response"))
    # A median lies between two draws.
    expect_close(found$prob, binomial(link)$linkinv(linear$emmean), 1e-6)
    new <- data.frame(cyl = c(4, 6), wt = mean(mtcars$wt))
    limits <- predict(fit, new, type = "link", interval = "credible", level = 0.5)
    draws <- as_table(emmeans::emmeans(fit, ~cyl, at = list(cyl = c(4, 6))), point.est = mean)
    sd <- predict(fit, new, type = "link", se.fit = TRUE)$se.fit
    expect_lt(max(abs(draws$emmean - predict(fit, new, type = "link")) / (sd / sqrt(4000))), errors)
    median <- colMeans(t(limits[, 2:3]))
    expect_lt(max(abs(linear$emmean - median) / sd), 0.15)
  }
})

test_that("selections and several targets have means", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  skip_if_not_installed("coda")
  d <- transform(mtcars, cyl = factor(cyl))
  new <- data.frame(cyl = levels(d$cyl), wt = mean(d$wt))
  for (method in c("exact", "ep")) {
    fit <- spike_slab(mpg ~ wt + cyl, d, method = method)
    found <- emmeans::emmeans(fit, ~cyl)
    expect_close(as_table(found, frequentist = TRUE)$emmean, predict(fit, new), 1e-6)
    se <- predict(fit, new, se.fit = TRUE)$se.fit
    expect_lt(max(abs(as_table(found, point.est = mean)$emmean - predict(fit, new)) / (se / sqrt(4000))), errors)
  }
  yes <- spike_slab(am ~ wt + cyl, d, family = binomial(), chains = 1, mcse = 0.1)
  found <- emmeans::emmeans(yes, ~cyl, type = "response")
  expect_close(as_table(found, frequentist = TRUE)$prob, plogis(predict(yes, new, type = "link")), 1e-6)
  several <- bayes_ridge(cbind(mpg, qsec) ~ wt + cyl, d)
  found <- as_table(emmeans::emmeans(several, ~ cyl | rep.meas), frequentist = TRUE)
  expect_close(found$emmean, predict(several, new), rounding)
})

test_that("data are found where the fit was made, and checked", {
  skip_without_python()
  skip_if_not_installed("emmeans")
  skip_if_not_installed("coda")
  expected <- as_table(emmeans::emmeans(bayes_ridge(mpg ~ log(wt), mtcars), ~wt), frequentist = TRUE)
  inside <- function() {
    local_data <- mtcars
    fit <- bayes_ridge(mpg ~ log(wt), local_data, subset = wt > 0, model = FALSE)
    as_table(emmeans::emmeans(fit, ~wt), frequentist = TRUE)
  }
  expect_equal(inside(), expected)
  made <- function(model) {
    local_data <- mtcars
    bayes_ridge(mpg ~ log(wt), local_data, subset = wt > 0, model = model)
  }
  expect_equal(as_table(emmeans::emmeans(made(TRUE), ~wt), frequentist = TRUE), expected)
  lost <- made(FALSE)
  expect_error(emmeans::emmeans(lost, ~wt), "were not found again")
  expect_equal(as_table(emmeans::emmeans(lost, ~wt, data = mtcars), frequentist = TRUE), expected)
  expect_error(emmeans::emmeans(lost, ~wt, data = transform(mtcars, wt = wt + 1)), "are not those of the fit")
  # Other data of the same name are not taken.
  local_data <- transform(mtcars, wt = 2 * wt)
  expect_error(emmeans::emmeans(lost, ~wt), "were not found again")
  local_data$wt[3] <- NA
  gaps <- bayes_ridge(mpg ~ wt, local_data)
  complete <- data.frame(wt = mean(local_data$wt, na.rm = TRUE))
  expect_close(as_table(emmeans::emmeans(gaps, ~wt), frequentist = TRUE)$emmean, predict(gaps, complete), rounding)
  from_matrix <- bayes_ridge(x = as.matrix(mtcars[2:4]), y = mtcars$mpg)
  expect_error(emmeans::emmeans(from_matrix, ~cyl), "requires a fit by a formula")
})

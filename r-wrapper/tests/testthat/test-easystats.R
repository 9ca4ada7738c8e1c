# insight, parameters, performance, bayestestR and ggeffects against summary(), predict() and draws of this package.

# Numbers that are copied or computed alike; Monte Carlo standard errors; probabilities in 4,000 draws.
rounding <- 1e-8
errors <- 5
draws <- 4000

# 'performance' is not in all of the systems that these tests run on.
of_performance <- function(name) {
  skip_if_not_installed("performance")
  getExportedValue("performance", name)
}

# A short run of the sampler: what is compared is computed from the same states.
yes_selection <- function(data) {
  spike_slab(am ~ wt + cyl, data, family = binomial("probit"), chains = 1, mcse = 0.05)
}

# Fitted once, where they are asked for first.
one_of_each <- local({
  kept <- NULL
  function() {
    d <- transform(mtcars, cyl = factor(cyl))
    if (is.null(kept)) {
      kept <<- list(
        bayes_ridge(mpg ~ wt * cyl + poly(hp, 2), d),
        bayes_ridge(am ~ wt + cyl, d, family = binomial()),
        spike_slab(mpg ~ wt + cyl, d, method = "exact"),
        spike_slab(mpg ~ wt + cyl, d, method = "ep"),
        yes_selection(d)
      )
    }
    kept
  }
})

test_that("tables of posteriors are those of summary", {
  skip_without_python()
  skip_if_not_installed("bayestestR")
  for (fit in one_of_each()) {
    table <- bayestestR::describe_posterior(fit, centrality = c("mean", "median"), dispersion = TRUE, ci = 0.9)
    expect_identical(table$Parameter, names(coef(fit)))
    expect_close(table$Mean, coef(fit), rounding)
    expect_close(table$SD, fit$bse, rounding)
    expect_close(cbind(table$CI_low, table$CI_high), confint(fit, level = 0.9), rounding)
    # A median has half of the draws on each side, unless it is the spike.
    set.seed(1)
    sample <- posterior_sample(fit, draws)
    below <- colMeans(sweep(sample, 2, table$Median) < 0)
    above <- colMeans(sweep(sample, 2, table$Median) > 0)
    expect_lt(max(below, above), 0.5 + errors * 0.5 / sqrt(draws))
    positive <- colMeans(sample > 0)
    negative <- colMeans(sample < 0)
    direction <- pmax(positive, negative)
    expect_lt(max(abs(table$pd - direction)), errors * 0.5 * sqrt(2 / draws))
  }
})

test_that("several levels, other intervals and tests are answered", {
  skip_without_python()
  skip_if_not_installed("bayestestR")
  fit <- bayes_ridge(mpg ~ wt + hp, mtcars)
  both <- bayestestR::describe_posterior(fit, ci = c(0.5, 0.9))
  expect_close(both$CI_low[both$CI == 0.5], confint(fit, level = 0.5)[, 1], rounding)
  expect_close(both$CI_high[both$CI == 0.9], confint(fit, level = 0.9)[, 2], rounding)
  narrow <- bayestestR::hdi(fit, ci = 0.9)
  width <- confint(fit, level = 0.9)
  expect_lt(max(abs((narrow$CI_high - narrow$CI_low) / (width[, 2] - width[, 1]) - 1)), 0.1)
  expect_equal(bayestestR::describe_posterior(fit, ci = 0.9, ci_method = "hdi")$CI_low, narrow$CI_low)
  expect_identical(bayestestR::eti(fit), bayestestR::eti(fit))
  rope <- bayestestR::describe_posterior(fit, test = "rope", rope_ci = 1)
  range <- 0.1 * sd(mtcars$mpg)
  expect_equal(unique(rope$ROPE_high), range)
  set.seed(1)
  inside <- mean(abs(posterior_sample(fit, 20000)[, "wt"]) < 6 * range)
  rope <- bayestestR::describe_posterior(fit, test = "rope", rope_ci = 1, rope_range = c(-6, 6) * range)
  expect_lt(abs(rope$ROPE_Percentage[rope$Parameter == "wt"] - inside), errors * 0.5 / sqrt(draws))
  expect_identical(nrow(bayestestR::point_estimate(fit)), 3L)
  expect_identical(nrow(bayestestR::p_direction(fit)), 3L)
  expect_identical(nrow(bayestestR::ci(fit)), 3L)
})

test_that("parameters() shows the same numbers, inclusion probabilities and odds ratios", {
  skip_without_python()
  skip_if_not_installed("parameters")
  fits <- one_of_each()
  for (fit in fits) {
    table <- parameters::model_parameters(fit)
    expect_close(cbind(table$CI_low, table$CI_high), confint(fit), rounding)
    expect_output(print(table), "Median")
    expect_false(any(grepl("p-value|MCMC", capture.output(print(table)))))
    expect_error(parameters::p_value(fit), "p_value\\(\\) is not defined")
    expect_close(parameters::standard_error(fit)$SE, fit$bse, rounding)
  }
  selected <- parameters::model_parameters(fits[[3]])
  expect_close(selected$Inclusion, inclusion_prob(fits[[3]]), rounding)
  odds <- parameters::model_parameters(fits[[2]], exponentiate = TRUE, centrality = "mean")
  expected <- odds_ratios(fits[[2]])
  expect_close(odds$Mean, expected$odds_ratio, rounding)
  expect_close(odds$CI_high, expected$upper, rounding)
  expect_error(parameters::model_parameters(fits[[1]], exponentiate = TRUE), "'exponentiate' must be FALSE")
  several <- parameters::model_parameters(bayes_ridge(cbind(mpg, qsec) ~ wt, mtcars))
  expect_identical(several$Parameter, c("mpg:(Intercept)", "mpg:wt", "qsec:(Intercept)", "qsec:wt"))
})

test_that("insight knows the model and its data", {
  skip_without_python()
  skip_if_not_installed("insight")
  fits <- one_of_each()
  info <- insight::model_info(fits[[2]])
  expect_true(info$is_binomial && info$is_bernoulli && info$is_bayesian && info$is_logit)
  expect_true(insight::model_info(fits[[3]])$is_linear)
  counts <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial("probit"))
  expect_false(insight::model_info(counts)$is_bernoulli)
  expect_equal(insight::link_inverse(counts)(0.3), pnorm(0.3))
  data <- insight::get_data(fits[[1]])
  expect_named(data, c("mpg", "wt", "cyl", "hp"))
  expect_equal(data$hp, mtcars$hp)
  expect_equal(insight::get_response(fits[[1]]), mtcars$mpg)
  logs <- (function() {
    local_data <- mtcars
    bayes_ridge(log(mpg) ~ log(wt), local_data)
  })()
  expect_equal(insight::get_data(logs)[c("mpg", "wt")], mtcars[c("mpg", "wt")])
  expect_identical(insight::find_predictors(fits[[1]])$conditional, c("wt", "cyl", "hp"))
  grouped <- bayes_ridge(mpg ~ wt + gear + (1 | cyl) + (1 | gear), mtcars, method = "reml")
  expect_identical(insight::find_predictors(grouped), list(conditional = c("wt", "gear")))
  both <- list(conditional = c("wt", "gear"), random = c("cyl", "gear"))
  expect_identical(insight::find_predictors(grouped, "all"), both)
  expect_identical(insight::find_predictors(grouped, effects = "all", flatten = TRUE), c("wt", "gear", "cyl"))
  expect_identical(insight::find_predictors(grouped, effects = "random"), both["random"])
  sample <- insight::get_parameters(fits[[3]])
  expect_identical(dim(sample), c(4000L, 4L))
  expect_lt(max(abs(colMeans(sample) - coef(fits[[3]])) / (fits[[3]]$bse / sqrt(draws))), errors)
  from_matrix <- bayes_ridge(x = as.matrix(mtcars[2:4]), y = mtcars$mpg)
  expect_error(insight::get_data(from_matrix), "requires a fit by a formula")
  several <- bayes_ridge(cbind(mpg, qsec) ~ wt, mtcars)
  expect_error(insight::model_info(several), "fits of one target")
})

test_that("predictions of insight are those of predict", {
  skip_without_python()
  skip_if_not_installed("insight")
  new <- data.frame(wt = c(2, 3), cyl = c("4", "8"), hp = 100)
  fits <- one_of_each()
  for (fit in fits) {
    found <- as.data.frame(insight::get_predicted(fit, data = new, ci = 0.8))
    expected <- predict(fit, new, interval = "credible", level = 0.8, se.fit = TRUE)
    expect_close(as.matrix(found[c("Predicted", "CI_low", "CI_high", "SE")]), cbind(expected$fit, expected$se.fit), rounding)
  }
  wide <- as.data.frame(insight::get_predicted(fits[[1]], data = new, ci = 0.8, predict = "prediction"))
  expect_close(wide$CI_low, predict(fits[[1]], new, "prediction", level = 0.8)[, "lwr"], rounding)
  linear <- insight::get_predicted(fits[[2]], data = new, predict = "link")
  expect_close(as.vector(linear), predict(fits[[2]], new, type = "link"), rounding)
  expect_error(insight::get_predicted(fits[[2]], data = new, predict = "prediction", ci = 0.9), "has no interval")
  expect_close(as.vector(insight::get_predicted(fits[[1]])), fitted(fits[[1]]), rounding)
})

test_that("ggpredict gives predictions at its grid", {
  skip_without_python()
  skip_if_not_installed("ggeffects")
  fits <- one_of_each()
  new <- data.frame(wt = c(2, 3, 4), cyl = "4", hp = mean(mtcars$hp))
  ask <- function(fit, ...) suppressMessages(ggeffects::ggpredict(fit, "wt [2,3,4]", verbose = FALSE, ...))
  for (fit in fits) {
    for (level in c(0.95, 0.5)) {
      # The argument has another name in versions from 1.4 on.
      found <- if (packageVersion("ggeffects") < "1.4") ask(fit, ci.lvl = level) else ask(fit, ci_level = level)
      expected <- predict(fit, new, interval = "credible", level = level)
      expect_close(cbind(found$predicted, found$conf.low, found$conf.high), expected, rounding)
    }
  }
  wide <- ask(fits[[1]], interval = "prediction")
  expect_close(wide$conf.low, predict(fits[[1]], new, "prediction")[, "lwr"], rounding)
})

test_that("r2 is the posterior of the share of variance in the rows", {
  skip_without_python()
  r2 <- of_performance("r2")
  d <- transform(mtcars, cyl = factor(cyl))
  counts <- bayes_ridge(cbind(ncases, ncontrols) ~ agegp, esoph, family = binomial())
  ridges <- list(
    bayes_ridge(mpg ~ wt + cyl, d), bayes_ridge(mpg ~ wt + cyl, d, weights = qsec),
    bayes_ridge(mpg ~ 0 + wt + hp, d), bayes_ridge(am ~ wt, d, family = binomial("probit")), counts
  )
  for (fit in ridges) {
    expected <- explained_variance(fit)
    found <- r2(fit, ci = 0.9, robust = FALSE)
    limits <- attr(found, "CI")$R2_Bayes
    sd <- attr(found, "SE")$R2_Bayes
    expect_lt(abs(found$R2_Bayes - expected$mean), errors * sd * sqrt(2 / draws))
    inner <- explained_variance(fit, level = 0.9)
    expect_lt(max(abs(c(limits$CI_low - inner$lower, limits$CI_high - inner$upper))), 0.25 * sd)
    expect_output(print(found), "0\\.[0-9]{3} \\(90% CI")
  }
  # A column that is not penalised explains as well.
  for (fit in list(bayes_ridge(mpg ~ wt + hp, d, unpenalized = "wt"), spike_slab(mpg ~ wt + hp, d, method = "exact"))) {
    set.seed(2)
    sample <- posterior_sample(fit, draws, hyper = TRUE)
    line <- model.matrix(fit) %*% t(sample[, names(coef(fit))])
    share <- apply(line, 2, function(v) mean((v - mean(v))^2))
    share <- share / (share + sample[, "sigma2"])
    expect_lt(abs(r2(fit, robust = FALSE)$R2_Bayes - mean(share)), errors * sd(share) * sqrt(2 / draws))
  }
  expect_error(r2(spike_slab(mpg ~ wt, d, method = "ep")), "method = \"exact\"")
  expect_error(of_performance("check_collinearity")(ridges[[1]]), "check_collinearity\\(\\) is not defined")
})

test_that("shares in a range of practical equivalence are those of the draws, in the range of the model", {
  skip_without_python()
  skip_if_not_installed("bayestestR")
  for (fit in one_of_each()) {
    range <- bayestestR::rope_range(fit)
    set.seed(0)
    sample <- posterior_sample(fit, draws)
    inside <- colMeans(sample >= range[1] & sample <= range[2])
    table <- bayestestR::rope(fit, ci = 1)
    expect_identical(table$Parameter, names(coef(fit)))
    expect_close(c(table$ROPE_low, table$ROPE_high), rep(range, each = length(inside)), rounding)
    expect_lt(max(abs(table$ROPE_Percentage - inside)), 2 / draws)
    expect_lt(max(abs(bayestestR::p_rope(fit)$p_ROPE - inside)), 2 / draws)
    beyond <- pmax(colMeans(sample > range[2]), colMeans(sample < -range[2]))
    expect_lt(max(abs(bayestestR::p_significance(fit)$ps - beyond)), 2 / draws)
    expect_identical(bayestestR::equivalence_test(fit)$Parameter, names(coef(fit)))
    own <- bayestestR::rope(fit, range = c(-1, 1), ci = 1)
    expect_lt(max(abs(own$ROPE_Percentage - colMeans(abs(sample) <= 1))), 2 / draws)
  }
})

test_that("the table of model_performance has the numbers of loo, r2 and sigma", {
  skip_without_python()
  skip_if_not_installed("loo")
  performance <- of_performance("model_performance")
  for (fit in c(one_of_each()[1:3], list(spike_slab(mpg ~ wt, mtcars, method = "ep")))) {
    table <- performance(fit)
    scores <- loo::loo(fit)$estimates
    expect_close(unlist(table[1:4]), scores[cbind(c(1, 1, 3, 3), c(1, 2, 1, 2))], rounding)
    expect_identical("R2" %in% names(table), has_joint(fit$posterior))
    if ("R2" %in% names(table)) expect_close(table$R2, unclass(of_performance("r2")(fit))$R2_Bayes, rounding)
    expect_close(table$RMSE, sqrt(mean(residuals(fit)^2)), rounding)
    if (is.null(fit$link)) expect_close(table$Sigma, sigma(fit), rounding)
    expect_output(print(table), "LOOIC")
  }
})

test_that("ordered categories have no residuals, which other packages would make of codes and probabilities", {
  skip_without_python()
  fit <- bayes_ridge(ordered(carb > 2) ~ wt + hp, data = mtcars, family = "ordinal")
  expect_identical(of_performance("performance_rmse")(fit), NA_real_)
  expect_false("RMSE" %in% names(of_performance("model_performance")(fit)))
  expect_error(insight::get_residuals(fit), "not defined for ordered categories")
  yes <- bayes_ridge(am ~ wt, data = mtcars, family = binomial())
  expect_equal(of_performance("performance_rmse")(yes), sqrt(mean(residuals(yes)^2)))
})

# Ordered categories, against Python, MASS::polr() and sums over draws.

rated_data <- function() {
  set.seed(1)
  d <- data.frame(a = rnorm(60), b = rnorm(60), g = factor(sample(c("u", "v", "w"), 60, TRUE)), n = rep(c(1, 2, 1), 20))
  latent <- d$a - 0.5 * d$b + rlogis(60)
  d$y <- cut(latent, c(-Inf, -1, 0.3, 1.5, Inf), labels = c("low", "mid", "high", "top"), ordered_result = TRUE)
  d
}

rated_fit <- local({
  kept <- NULL
  function() {
    if (is.null(kept)) kept <<- bayes_ridge(y ~ a + b + g, rated_data(), family = "ordinal")
    kept
  }
})

# As quantiles of mixtures, of which one or the other language takes a Newton step more.
quantiles_of_cuts <- 1e-8

# Of Python's averages of the logistic function over normal variables of a small variance.
averages <- 1e-6

# Of the same fit to columns in another order of operations: nodes are elsewhere, and the sums over them differ as their estimated error.
other_nodes <- 1e-2

# How far a penalty moves a coefficient of 2,000 rows, in standard errors.
little_shrinkage <- 0.1

test_that("numbers are those of Python", {
  skip_without_python()
  reference <- reticulate::py_run_string("
def reference(d, levels, new, link, method, weights, unpenalized, file):
    import numpy as np, pandas as pd
    from pybayesridge import BayesRidge
    d, new = pd.DataFrame(d), pd.DataFrame(new)
    d['y'] = pd.Categorical(d['y'], levels, ordered=True)
    model = BayesRidge.from_formula('y ~ a + b + g', d, family='ordinal', link=link, weights=weights, unpenalized=unpenalized)
    res = model.fit(method)
    res.save(file)
    loo = res.loo()
    drawn = res.get_prediction(new)
    return dict(
        coef=np.asarray(res.params), ci=np.asarray(res.conf_int(0.1)), cov=np.asarray(res.cov_params()),
        hyper=res.hyperparameters(0.1).to_numpy(), cuts=res.cut_points(0.1).to_numpy(), share=res.predict(new).to_numpy(),
        linear=res.get_prediction(new, which='linear').summary_frame(0.1).to_numpy(), loo=np.asarray(loo.pointwise), p=loo.p_loo,
        within=np.asarray(loo.within), marginal=res.log_marginal, sd=np.asarray(drawn.se), df=res.df_model, name=list(res.cut_points().index),
    )
", local = TRUE)$reference
  d <- rated_data()
  fits <- list(
    list(rated_fit(), "logit", "ep", NULL, NULL),
    list(bayes_ridge(y ~ a + b + g, d, family = "ordinal", weights = n, unpenalized = "b"), "logit", "ep", "n", list("b")),
    list(bayes_ridge(y ~ a + b + g, d, family = "ordinal", link = "probit", method = "laplace"), "probit", "laplace", NULL, NULL)
  )
  columns <- lapply(d, function(column) if (is.factor(column)) as.character(column) else column)
  for (each in fits) {
    file <- tempfile(fileext = ".fit")
    ref <- reference(columns, as.list(levels(d$y)), lapply(columns, utils::head, 4), each[[2]], each[[3]], each[[4]], each[[5]], file)
    fit <- read_fit(file)
    # The fit of R has nodes of its own.
    expect_lt(max(abs(coef(each[[1]]) - ref$coef) / each[[1]]$bse), other_nodes)
    expect_lt(max(abs(cut_points(each[[1]], 0.9)[, 3:4] - ref$cuts[, 3:4]) / cut_points(fit)$sd), other_nodes)
    expect_close(coef(fit), ref$coef)
    expect_close(confint(fit, level = 0.9), ref$ci, quantiles_of_cuts)
    expect_close(vcov(fit), ref$cov)
    expect_close(fit$bse, sqrt(diag(ref$cov)))
    expect_close(as.matrix(hyperparameters(fit, 0.9)), ref$hyper, quantiles_of_cuts)
    expect_close(as.matrix(cut_points(fit, 0.9)), ref$cuts, quantiles_of_cuts)
    expect_identical(rownames(cut_points(fit)), as.character(ref$name))
    expect_close(c(logLik(fit)), ref$marginal)
    expect_close(fit$df_model, ref$df)
    expect_close(predict(fit, d[1:4, ]), ref$share, averages)
    expect_identical(colnames(predict(fit, d[1:4, ])), levels(d$y))
    expect_close(fitted(fit)[1:4, ], ref$share)
    found <- predict(fit, d[1:4, ], type = "link", interval = "credible", level = 0.9, se.fit = TRUE)
    expect_close(cbind(found$fit[, 1], found$se.fit, found$fit[, 2:3]), ref$linear, quantiles_of_cuts)
    # Both are of 4,000 draws.
    expect_lt(max(abs(predict(fit, d[1:4, ], se.fit = TRUE)$se.fit / ref$sd - 1)), 0.1)
    if (!requireNamespace("loo", quietly = TRUE)) next
    found <- loo::loo(fit)
    copies <- fit$weights %||% rep(1, 60)
    # R has a row for every copy, of which Python has the sums.
    expect_close(found$pointwise[, 1], rep(ref$loo / copies, copies))
    expect_close(found$estimates["p_loo", 1], ref$p, averages * 60)
  }
})

test_that("coefficients and cut points are those of polr() where the prior has little weight", {
  skip_without_python()
  skip_if_not_installed("MASS")
  set.seed(3)
  d <- data.frame(a = rnorm(2000), b = rnorm(2000))
  d$y <- cut(d$a - 0.5 * d$b + rlogis(2000), c(-Inf, -1, 0.5, Inf), labels = c("l", "m", "h"), ordered_result = TRUE)
  for (link in c("logit", "probit")) {
    fit <- bayes_ridge(y ~ a + b, d, family = "ordinal", link = link, method = "laplace", unpenalized = "a")
    ours <- c(coef(fit), cut_points(fit)$mean)
    theirs <- MASS::polr(y ~ a + b, d, method = if (link == "logit") "logistic" else "probit", Hess = TRUE)
    sd <- sqrt(diag(vcov(theirs)))
    expect_lt(max(abs(ours - c(coef(theirs), theirs$zeta)) / sd), little_shrinkage)
    expect_lt(max(abs(c(fit$bse, cut_points(fit)$sd) / sd - 1)), 0.02)
    expect_lt(max(abs(predict(fit, d[1:5, ]) - predict(theirs, d[1:5, ], type = "probs"))), 5e-3)
  }
})

test_that("two categories are yes/no responses", {
  skip_without_python()
  d <- rated_data()
  ordinal <- bayes_ridge(a > 0 ~ b + g, d, family = "ordinal")
  binomial <- bayes_ridge(a > 0 ~ b + g, d, family = binomial())
  expect_lt(max(abs(coef(ordinal) - coef(binomial)[-1]) / ordinal$bse), other_nodes)
  expect_lt(max(abs(predict(ordinal, d)[, "TRUE"] - predict(binomial, d))), 1e-3)
  expect_identical(rownames(cut_points(ordinal)), "FALSE|TRUE")
})

test_that("draws, replicated responses and probabilities agree", {
  skip_without_python()
  fit <- rated_fit()
  d <- rated_data()
  set.seed(1)
  draws <- posterior_sample(fit, 4000, hyper = TRUE)
  cuts <- cut_points(fit)
  expect_identical(colnames(draws), c(names(coef(fit)), "tau2", rownames(cuts)))
  expect_lt(max(abs(colMeans(draws[, rownames(cuts)]) - cuts$mean) / (cuts$sd / sqrt(4000))), 4.5)
  expect_lt(max(abs(apply(draws[, rownames(cuts)], 2, stats::sd) / cuts$sd - 1)), 0.1)
  expect_true(all(apply(draws[, rownames(cuts)], 1, diff) > 0))
  expect_identical(ncol(posterior_sample(fit, 3)), length(coef(fit)))
  share <- predict(fit, d[1:3, ], interval = "credible", se.fit = TRUE)
  expect_identical(dimnames(share$fit), list(c("1", "2", "3"), c("fit", "lwr", "upr"), levels(d$y)))
  expect_equal(rowSums(share$fit[, "fit", ]), c(`1` = 1, `2` = 1, `3` = 1))
  expect_true(all(share$fit[, "lwr", ] < share$fit[, "fit", ] & share$fit[, "fit", ] < share$fit[, "upr", ]))
  linear <- draws[, names(coef(fit))] %*% model.matrix(fit)[1, ]
  of_draws <- stats::plogis(draws[, "mid|high"] - linear) - stats::plogis(draws[, "low|mid"] - linear)
  expect_lt(abs(mean(of_draws) - share$fit[1, "fit", "mid"]), 4.5 * share$se.fit[1, "mid"] / sqrt(4000))
  replicated <- simulate(fit, 2000, seed = 2)
  expect_true(is.ordered(replicated[[1]]))
  often <- mean(vapply(replicated, function(one) as.character(one[1]), "") == "mid")
  expect_lt(abs(often - share$fit[1, "fit", "mid"]), 4.5 * sqrt(0.25 / 2000))
  # Numbers are the same at each call, and the session's generator is left alone.
  set.seed(7)
  first <- stats::runif(1)
  set.seed(7)
  expect_identical(predict(fit, d[1:3, ], interval = "credible", se.fit = TRUE), share)
  expect_identical(stats::runif(1), first)
})

test_that("a fit works in a session without Python", {
  skip_without_python()
  file <- tempfile(fileext = ".rds")
  saveRDS(rated_fit(), file)
  code <- sprintf(
    "library(pybayesridge); f <- readRDS('%s'); stopifnot(!reticulate::py_available()); p <- predict(f, data.frame(a = 1, b = 0, g = 'u'), interval = 'credible'); h <- cut_points(f); stopifnot(all(is.finite(c(p, unlist(h), confint(f), posterior_sample(f, 3, hyper = TRUE))))); s <- summary(f); cat('done')",
    file
  )
  script <- tempfile(fileext = ".R")
  writeLines(code, script)
  out <- system2(file.path(R.home("bin"), "Rscript"), c("--vanilla", script), stdout = TRUE, stderr = TRUE, env = "RETICULATE_PYTHON=/nonexistent")
  expect_identical(utils::tail(out, 1), "done")
})

test_that("what is shown has the cut points", {
  skip_without_python()
  fit <- rated_fit()
  expect_output(print(fit), "Cut points:\n low\\|mid")
  table <- summary(fit, level = 0.9)
  expect_identical(dimnames(table$cut_points), list(rownames(cut_points(fit)), c("Mean", "SD", "5 %", "95 %")))
  expect_output(print(table), "Rows in categories: low 13, mid 16, high 18, top 13")
  expect_output(print(table), "ordinal family, logit link")
  expect_identical(rownames(vcov(fit)), names(coef(fit)))
  ratios <- odds_ratios(fit)
  expect_close(ratios$odds_ratio, exp(coef(fit)))
})

test_that("other functions and files know the family", {
  skip_without_python()
  fit <- rated_fit()
  d <- rated_data()
  file <- tempfile(fileext = ".fit")
  save_fit(fit, file)
  again <- read_fit(file)
  expect_lt(max(abs(coef(again) - coef(fit)) / fit$bse), other_nodes)
  expect_lt(max(abs(cut_points(again)$mean - cut_points(fit)$mean) / cut_points(fit)$sd), other_nodes)
  expect_identical(colnames(predict(again, model.matrix(fit)[1:2, ])), levels(d$y))
  expect_identical(rownames(ppc(again, draws = 200)), c("mean", "sd"))
  frequencies <- ppc(again, "frequencies", draws = 200)
  expect_identical(rownames(frequencies), levels(d$y))
  expect_identical(as.integer(frequencies$observed), as.integer(table(d$y)))
  expect_identical(rownames(ppc(fit, list(low = function(y) mean(y == 0)), draws = 200)), "low")
  expect_close(effects(fit)$mean[1], coef(fit)[["a"]], other_nodes)
  expect_identical(rownames(contrast(fit, "a - b")), "a - b")
  expect_true(is.finite(explained_variance(fit)$mean))
  expect_output(print(compare_models(fit)), "LOO log score")
  table <- compare_evidence(fit, update(fit, . ~ a))
  expect_equal(sum(table$probability), 1)
  expect_error(compare_evidence(fit, update(fit, 5L - as.integer(y) ~ a)), "is of another response")
  expect_identical(family(fit)$link, "logit")
  expect_identical(nrow(posterior::as_draws_df(fit, n = 10)), 10L)
  skip_if_not_installed("generics")
  expect_close(generics::tidy(fit, exponentiate = TRUE)$estimate, exp(coef(fit)))
  expect_true(is.finite(generics::glance(fit)$loo_log_score))
  own <- generics::augment(fit)
  expect_close(as.matrix(own[paste0(".fitted_", levels(d$y))]), fitted(fit))
  new <- generics::augment(fit, newdata = d[1:2, c("a", "b", "g")], interval = "credible")
  expect_close(new$.lower_mid, predict(fit, d[1:2, ], interval = "credible")[, "lwr", "mid"])
})

test_that("missing rows, no rows and files without data are as for other families", {
  skip_without_python()
  d <- rated_data()
  d$y[3] <- NA
  d$a[4] <- NA
  fit <- bayes_ridge(y ~ a + b, d, family = "ordinal", na.action = na.exclude)
  expect_identical(nobs(fit), 58L)
  expect_true(all(is.na(fitted(fit)[3:4, ])))
  expect_identical(unname(is.na(predict(fit, d[1:5, ])[, 1])), c(FALSE, FALSE, FALSE, TRUE, FALSE))
  expect_identical(dim(predict(fit, d[0, ])), c(0L, 4L))
  expect_error(predict(rated_fit(), transform(d[1, ], g = "z")), "new level")
  numbers <- bayes_ridge(x = as.matrix(d[-(3:4), 1:2]), y = as.integer(d$y[-(3:4)]) * 10, family = "ordinal")
  expect_identical(numbers$categories, c("10", "20", "30", "40"))
  expect_lt(max(abs(coef(numbers) - coef(fit)) / fit$bse), other_nodes)
  save <- reticulate::py_run_string("
def save(file):
    import numpy as np
    from pybayesridge import BayesRidge
    x = np.random.default_rng(0).standard_normal((30, 2))
    res = BayesRidge(np.arange(30) % 3, x, family='ordinal').fit()
    res.save(file, remove_data=True)
    return np.asarray(res.cut_points())
", local = TRUE)$save
  file <- tempfile(fileext = ".fit")
  cuts <- save(file)
  read <- read_fit(file)
  expect_close(as.matrix(cut_points(read)), cuts, quantiles_of_cuts)
  expect_identical(dim(predict(read, matrix(0, 2, 2))), c(2L, 3L))
  expect_error(fitted(read), "no values of rows")
})

test_that("what is not there says so", {
  skip_without_python()
  fit <- rated_fit()
  d <- transform(rated_data(), plain = factor(y, ordered = FALSE), half = as.integer(y) / 2, more = factor(y, c("none", levels(y)), ordered = TRUE))
  rated <- function(formula, ...) bayes_ridge(formula, d, ..., family = "ordinal")
  expect_error(rated(plain ~ a), "'low', 'mid', 'high', 'top'\\) have no order: make it ordered")
  expect_error(rated(as.character(y) ~ a), "is text, which has no order")
  expect_error(rated(half ~ a), "has fractions: put them into categories by cut")
  expect_error(rated(as.Date("2020-01-01") + half ~ a), "not Date")
  expect_error(rated(more ~ a), "no row of the category 'none'")
  expect_error(bayes_ridge(y ~ a, d, subset = y != "top", family = "ordinal"), "no row of the category 'top'.*droplevels")
  expect_identical(bayes_ridge(y ~ a, droplevels(d[d$y != "top", ]), family = "ordinal")$categories, c("low", "mid", "high"))
  expect_error(rated(cbind(half, half) ~ a), "one column of ordered categories, not 2")
  expect_error(rated(rep(1L, 60) ~ a), "at least two categories")
  expect_error(rated(y ~ a, link = "probit"), "use method = \"laplace\"")
  expect_error(rated(y ~ a, link = "probit", method = "em"), "use solver = \"laplace\"")
  expect_error(rated(y ~ a, link = "cloglog"), "'link' must be \"logit\" or \"probit\"")
  expect_error(bayes_ridge(a ~ b, d, link = "logit"), "'link' is for family = binomial\\(\\) or \"ordinal\"")
  expect_error(bayes_ridge(a > 0 ~ b, d, family = binomial(), link = "probit"), "give the link once")
  expect_error(rated(y ~ a + offset(b)), "an offset is not supported")
  expect_error(rated(y ~ a, method = "exact"), "use 'ep'")
  expect_error(spike_slab(y ~ a, d, family = "ordinal"), "'family' must be")
  expect_error(bayes_ridge(y ~ a, d), "family = \"ordinal\" is for ordered categories")
  expect_error(residuals(fit), "not defined for ordered categories")
  expect_error(deviance(fit), "deviance\\(\\) is not defined for ordered categories")
  expect_error(sigma(fit), "not defined for an ordinal fit")
  expect_error(pit(fit), "ppc\\(\\) checks ordered categories")
  expect_error(effects(fit, which = "mean"), "use which = \"linear\"")
  expect_error(predict(fit, interval = "prediction"), "one of the categories")
  expect_error(cut_points(bayes_ridge(a ~ b, d)), "family = \"ordinal\"")
  expect_error(rate_ratios(fit), "is for fits with family = poisson|are for fits|rate_ratios")
  expect_error(odds_ratios(rated(y ~ a, link = "probit", method = "laplace")), "for the logit link")
  expect_error(fit_imputed(list(d, d), function(data) bayes_ridge(y ~ a, data, family = "ordinal")), "cannot be pooled")
  if (requireNamespace("insight", quietly = TRUE)) expect_error(insight::get_predicted(fit, d[1:2, ]), "use predict = \"link\"")
})

test_that("binomial fits take the link beside the name", {
  skip_without_python()
  d <- rated_data()
  expect_identical(coef(bayes_ridge(a > 0 ~ b, d, family = "binomial", link = "probit")), coef(bayes_ridge(a > 0 ~ b, d, family = binomial("probit"))))
})

test_that("the only row of a category has no score, and loo() and the summary say why as Python does", {
  skip_without_python()
  d <- rated_data()
  d <- d[c(which(d$y == "low")[1L], which(d$y != "low")), ]
  fit <- bayes_ridge(y ~ a + b, d, family = "ordinal", method = "laplace")
  said <- paste0("row '", rownames(d)[1L], "' has no leave-one-out density: without it a category does not occur")
  expect_match(paste(fit$findings$text, collapse = " "), said, fixed = TRUE)
  skip_if_not_installed("loo")
  expect_error(loo::loo(fit), paste0("There is no leave-one-out predictive score: ", said), fixed = TRUE)
})

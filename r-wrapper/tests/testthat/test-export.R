# What R works out from stored exports of fits, against the answers that Python gave; no Python is needed.
# golden/make_golden.py makes the files.

# Arrays are stored as their shape and their values, the last index running fastest.
decoded <- function(value) {
  if (!is.list(value)) {
    return(if (identical(value, "Inf")) Inf else if (identical(value, "NaN")) NaN else value)
  }
  if (!setequal(names(value), c("shape", "values"))) {
    return(lapply(value, decoded))
  }
  shape <- unlist(value$shape)
  numbers <- as.numeric(unlist(value$values))
  if (length(shape) < 2L) numbers else aperm(array(numbers, rev(shape)))
}

# Rows of a table of any number of rows, none of which has no shape.
rows_of <- function(stored, width) matrix(stored, ncol = width)

expect_golden_sets <- function(fit, answers, level) {
  place <- function(columns) match(columns, coefficient_names(fit))
  expect_close(inclusion_se(fit), answers$inclusion_se)
  expect_close(inclusion_se(fit, by = "group"), answers$group_inclusion_se)
  own <- as.matrix(hyperparameters(fit, level = level)[c("mean", "lower", "upper")])
  python <- if (!is.null(fit$link)) {
    c("prior_inclusion", "slab_var", "prior_share", "size")
  } else {
    c("noise_var", "slab_var", "prior_inclusion", "prior_share", "size")
  }
  if (isTRUE(fit$several)) python <- c(python, "groups_included")
  expect_setequal(rownames(own), python)
  for (i in seq_along(python)) expect_close(own[python[i], ], answers$hyperparameters[i, ])
  sets <- credible_sets(fit, coverage = 0.8, min_abs_corr = 0.3)
  sets$column <- place(sets$column)
  expect_close(as.matrix(sets), rows_of(answers$credible_sets, 5))
  selected <- select_columns(fit, fdr = 0.4)
  selected$column <- place(selected$column)
  expect_close(as.matrix(selected), rows_of(answers$select, 3))
  expect_close(pair_inclusion(fit, coefficient_names(fit)[fit$posterior$at]), answers$pair_inclusion)
  models <- top_models(fit, 8)
  expect_close(as.matrix(models[c("size", "probability")]), answers$models)
  expect_close(t(vapply(models$columns, function(a) coefficient_names(fit) %in% a, logical(nrow(answers$params)))), answers$models_hold)
}

# The integral over a logistic curve is by another rule than Python's.
quadrature_error <- 1e-8

# Components of little weight, and how far the scores of linear predictors go: relative to intervals of new responses.
new_responses <- 1e-4

# Of new successes in make_golden.py.
trials_of_golden <- 40

expect_golden_generalized <- function(fit, answers, rows, level) {
  if (has_cuts(fit)) {
    expect_close(as.matrix(cut_points(fit, level)), answers$cut_points, quantiles_of_links)
    expect_close(predict(fit, rows), answers$probabilities, quadrature_error)
  }
  for (type in if (has_cuts(fit)) "link" else c("response", "link")) {
    expected <- answers[[if (type == "response") "prediction_mean" else "prediction_linear"]]
    found <- predict(fit, rows, type = type, interval = "credible", level = level, se.fit = TRUE)
    expect_close(found$fit, expected[, c(1, 3, 4)], quadrature_error)
    expect_close(found$se.fit, expected[, 2], quadrature_error)
  }
  if (!is.null(answers$prediction_new)) {
    # Of counts equal; continuous responses to where Python's search ends.
    trials <- if (!is.null(fit$trials)) trials_of_golden
    found <- predict(fit, rows, interval = "prediction", level = level, trials = trials)[, c("lwr", "upr")]
    expect_close(found, answers$prediction_new, new_responses)
  }
  if (inherits(fit, "bayes_ridge")) expect_close(as.matrix(hyperparameters(fit, level)), answers$hyperparameters, if (is.null(fit$bands)) same_as_python else points_of_lattices)
  further <- shape_table(fit, level)
  if (!is.null(further)) expect_close(as.matrix(further), utils::tail(answers$hyperparameters, nrow(further)))
  # Relative errors of exp(x) are the absolute ones of x, which may be 50.
  of_ratios <- function(x) same_as_python * max(log(x[is.finite(x)]), 1)
  if (!is.null(answers$odds_ratios)) expect_close(as.matrix(odds_ratios(fit, level)), answers$odds_ratios, of_ratios(answers$odds_ratios))
  if (!is.null(answers$rate_ratios)) expect_close(as.matrix(rate_ratios(fit, level)), answers$rate_ratios, of_ratios(answers$rate_ratios))
}

# Quantiles of mixtures over thousands of sets: Python halves brackets, R takes Newton's steps.
quantiles_of_sets <- 1e-8

# Quantiles of mixtures over penalties of which one or the other takes a Newton step more.
quantiles_of_links <- 1e-9

# Quantiles of mixtures over the shares of bands, of which Python leaves out more; the laws of variances and shares are tables.
quantiles_of_bands <- 1e-6
shares_of_bands <- 1e-4

# Where effects are correlated laws are sums over points, of which Python interpolates between neighbours and R has a table.
points_of_lattices <- 2e-3

for (file in list.files("golden", "[.]json$")) {
  test_that(paste("R has the golden answers:", file), {
    skip_if_not_installed("jsonlite")
    golden <- decoded(jsonlite::fromJSON(file.path("golden", file), simplifyVector = FALSE))
    fit <- fit_of_export(golden$export)
    fit$columns <- setdiff(coefficient_names(fit), "(Intercept)")
    fit$named <- FALSE
    q <- length(fit$targets)
    answers <- golden$answers
    banded <- inherits(fit, "bayes_ridge_bands")
    quantile_error <- if (banded) quantiles_of_bands else if (is.null(answers$credible_sets)) same_as_python else quantiles_of_sets
    if (!is.null(fit$link)) quantile_error <- max(quantile_error, quantiles_of_links)
    expect_close(coef(fit), answers$params)
    expect_close(fit$bse, answers$bse)
    if (has_functionals(fit$posterior) && is.null(fit$link)) expect_close(ridge_deviations(fit), answers$bse)
    k <- nrow(answers$params)
    for (i in seq_len(q)) {
      if (!is.null(answers$cov_params)) expect_close(vcov(fit, target = i), answers$cov_params[i, , ])
      limits <- confint(fit, level = golden$level)[(i - 1) * k + seq_len(k), ]
      expect_close(limits, answers$conf_int[, i, ], quantile_error)
    }
    if (!is.null(fit$link)) {
      expect_golden_generalized(fit, answers, golden$rows, golden$level)
    } else {
      credible <- predict(fit, golden$rows, "credible", level = golden$level, se.fit = TRUE)
      expect_close(aperm(array(credible$fit, c(3, 3, q)), c(1, 3, 2)), answers$prediction[, , c(1, 3, 4)], quantile_error)
      expect_close(credible$se.fit, answers$prediction[, , 2])
      predictive <- array(predict(fit, golden$rows, "prediction", level = golden$level), c(3, 3, q))
      expect_close(aperm(predictive, c(1, 3, 2))[, , 2:3], answers$prediction[, , 5:6], quantile_error)
    }
    if (inherits(fit, "bayes_ridge") && is.null(fit$link)) {
      own <- as.matrix(hyperparameters(fit, level = golden$level)[c("mean", "median", "lower", "upper")])
      rows <- nrow(own) %/% q
      for (i in seq_len(q)) {
        for (row in seq_len(rows)) {
          expect_close(own[(i - 1) * rows + row, ], answers$hyperparameters[i, row, ], if (!banded) same_as_python else if (layout_of(fit$posterior) == "mixed") points_of_lattices else quantiles_of_bands)
        }
      }
    }
    if (banded) {
      found <- variance_components(fit, golden$level)
      found <- array(as.matrix(found[setdiff(names(found), c("response", "band"))]), c(nrow(found) %/% q, q, 10))
      expect_close(aperm(found, c(2, 1, 3)), answers$variance_components, if (is.null(fit$posterior[["entries"]])) shares_of_bands else points_of_lattices)
    }
    if (!is.null(answers$credible_sets)) expect_golden_sets(fit, answers, golden$level)
    expect_identical(dim(posterior_sample(fit, 5)), c(5L, length(fit$bse) %/% q))
    table <- summary(fit)
    expect_s3_class(table, "summary.pybayesridge_fit")
  })
}

test_that("a further family is an entry in the table", {
  skip_if_not_installed("jsonlite")
  export <- decoded(jsonlite::fromJSON(file.path("golden", "student.json"), simplifyVector = FALSE))$export
  known <- fit_of_export(export)
  new <- families[["student-t"]]
  new[c("keeps", "no_sigma", "checked_by")] <- list(c(new$keeps, "own"), "its noise is new", "ppc() checks the new one")
  space <- asNamespace("pybayesridge")
  before <- families
  unlockBinding("families", space)
  on.exit({
    assign("families", before, space)
    lockBinding("families", space)
  })
  assign("families", c(before, list(new = new)), space)
  export[c("family", "own")] <- list("bayes_ridge_new", 5)
  fit <- fit_of_export(export)
  expect_identical(fit$own, 5)
  expect_identical(fit$noise_df, known$noise_df)
  expect_identical(hyperparameters(fit), hyperparameters(known))
  set.seed(1)
  drawn <- posterior_sample(known, 5, hyper = TRUE)
  set.seed(1)
  expect_identical(posterior_sample(fit, 5, hyper = TRUE), drawn)
  expect_error(sigma(fit), "a new fit: its noise is new")
  expect_error(pit(fit), "gaussian\\(\\): ppc\\(\\) checks the new one")
  expect_identical(chosen_family("new"), list(name = "new", link = "identity"))
  expect_error(refuse_other_families(quote(bayes_ridge(exposure = 1)), "new"), "poisson\\(\\) or \"negative-binomial\": leave it out")
})

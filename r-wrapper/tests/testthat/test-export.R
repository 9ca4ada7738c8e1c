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

for (file in list.files("golden", "[.]json$")) {
  test_that(paste("R has the golden answers:", file), {
    skip_if_not_installed("jsonlite")
    golden <- decoded(jsonlite::fromJSON(file.path("golden", file), simplifyVector = FALSE))
    fit <- fit_of_export(golden$export)
    fit$columns <- setdiff(coefficient_names(fit), "(Intercept)")
    fit$named <- FALSE
    q <- length(fit$targets)
    answers <- golden$answers
    expect_close(coef(fit), answers$params)
    expect_close(fit$bse, answers$bse)
    k <- nrow(answers$params)
    for (i in seq_len(q)) {
      if (!is.null(answers$cov_params)) expect_close(vcov(fit, target = i), answers$cov_params[i, , ])
      expect_close(confint(fit, level = golden$level)[(i - 1) * k + seq_len(k), ], answers$conf_int[, i, ])
    }
    credible <- predict(fit, golden$rows, "credible", level = golden$level, se.fit = TRUE)
    expect_close(aperm(array(credible$fit, c(3, 3, q)), c(1, 3, 2)), answers$prediction[, , c(1, 3, 4)])
    expect_close(credible$se.fit, answers$prediction[, , 2])
    predictive <- array(predict(fit, golden$rows, "prediction", level = golden$level), c(3, 3, q))
    expect_close(aperm(predictive, c(1, 3, 2))[, , 2:3], answers$prediction[, , 5:6])
    if (inherits(fit, "bayes_ridge")) {
      own <- as.matrix(hyperparameters(fit, level = golden$level)[c("mean", "median", "lower", "upper")])
      for (i in seq_len(q)) {
        for (row in 1:4) expect_close(own[(i - 1) * 4 + row, ], answers$hyperparameters[i, row, ])
      }
    }
    expect_identical(dim(posterior_sample(fit, 5)), c(5L, length(fit$bse) %/% q))
    table <- summary(fit)
    expect_s3_class(table, "summary.pybayesridge_fit")
  })
}

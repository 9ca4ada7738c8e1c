# Fits the cases of test_front_end.py with the R package and prints every number: a line "case|what" and then its numbers.
suppressPackageStartupMessages(library(pybayesridge))

say <- function(case, what, numbers) {
  cat(case, "|", what, "\n", sep = "")
  cat(sprintf("%.17g", as.vector(numbers)), sep = " ")
  cat("\n")
}

fits <- list(
  mtcars = quote(bayes_ridge(mpg ~ ., mtcars)),
  iris = quote(bayes_ridge(Sepal.Length ~ Species * Petal.Width, iris)),
  longley = quote(bayes_ridge(Employed ~ ., longley)),
  warpbreaks = quote(bayes_ridge(breaks ~ wool * tension, warpbreaks, unpenalized = "tension")),
  weighted = quote(bayes_ridge(mpg ~ wt + log(hp), mtcars, weights = qsec)),
  targets = quote(bayes_ridge(cbind(mpg, qsec) ~ wt + hp, mtcars)),
  wide = quote(bayes_ridge(x = wide_x, y = wide_y))
)
data <- list(
  mtcars = mtcars, iris = iris, longley = longley, warpbreaks = warpbreaks, weighted = mtcars, targets = mtcars
)

# A matrix that Python can make as well, without sharing a generator.
wide_x <- outer(1:60, 1:400, function(i, j) sin(i * sqrt(j)))
wide_y <- wide_x[, 1] - 2 * wide_x[, 7] + sin(100 * (1:60))

for (case in names(fits)) {
  for (method in c("em", "exact", "loocv", "gcv", "fixed")) {
    call <- fits[[case]]
    call$method <- method
    if (method == "fixed") call$lam <- 1.5
    fit <- suppressWarnings(eval(call))
    name <- paste(case, method)
    newdata <- if (case == "wide") wide_x[1:3, ] + 0.5 else data[[case]][c(1, 11, 13), ]
    say(name, "params", coef(fit))
    say(name, "bse", fit$bse)
    say(name, "lambda_", fit$lambda_)
    say(name, "sigma2", fit$sigma2)
    say(name, "log_marginal", fit$log_marginal)
    say(name, "df_model", fit$df_model)
    say(name, "rsquared", fit$rsquared)
    say(name, "fittedvalues", fitted(fit))
    say(name, "conf_int", confint(fit, level = 0.9))
    say(name, "credible", predict(fit, newdata, "credible", level = 0.9))
    say(name, "prediction", predict(fit, newdata, "prediction", level = 0.9))
    if (case != "wide") for (i in seq_along(fit$targets)) say(name, paste0("cov", i), vcov(fit, target = i))
  }
}

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

# Selections. Columns of the matrix are fractions that both languages have to the last digit: the chains are the same.
crowd_x <- outer(1:40, 1:18, function(i, j) ((i^2 * j + 3 * i * j^2 + 7 * i) %% 101 - 50) / 25)
crowd_x[, 2] <- crowd_x[, 1] + crowd_x[, 2] / 8
crowd_y <- crowd_x[, 1] + crowd_x[, 5] / 2 + ((1:40)^3 %% 31 - 15) / 16

selections <- list(
  terms = quote(spike_slab(mpg ~ wt + hp + factor(cyl) + qsec, mtcars, method = "exact")),
  given = quote(spike_slab(
    mpg ~ wt + hp + qsec + am, mtcars, method = "exact", weights = disp, unpenalized = "am", prior_inclusion = 0.4, noise_var = 6
  )),
  sampled = quote(spike_slab(x = crowd_x, y = crowd_y, method = "exact", mcse = 0.05))
)

for (case in names(selections)) {
  fit <- eval(selections[[case]])
  name <- paste("selection", case)
  place <- function(columns) match(columns, names(coef(fit)))
  penalized <- names(coef(fit))[sort(fit$posterior$at)]
  newdata <- if (case == "sampled") crowd_x[1:3, ] + 0.5 else mtcars[c(1, 11, 13), ]
  say(name, "params", coef(fit))
  say(name, "bse", fit$bse)
  say(name, "inclusion_prob", inclusion_prob(fit))
  say(name, "inclusion_se", inclusion_se(fit))
  say(name, "group_inclusion_prob", inclusion_prob(fit, by = "group"))
  say(name, "group_inclusion_se", inclusion_se(fit, by = "group"))
  say(name, "log_evidence", c(fit$log_evidence, fit$log_evidence_se))
  say(name, "conf_int", confint(fit, level = 0.9))
  say(name, "cov", vcov(fit))
  say(name, "credible", predict(fit, newdata, "credible", level = 0.9))
  say(name, "prediction", predict(fit, newdata, "prediction", level = 0.9))
  sets <- credible_sets(fit, coverage = 0.8, min_abs_corr = 0.4)
  say(name, "credible_sets", c(sets$set, place(sets$column), sets$inclusion_prob, sets$purity, sets$probability))
  selected <- select_columns(fit, fdr = 0.3)
  say(name, "select", c(place(selected$column), selected$inclusion_prob, selected$false_share))
  say(name, "pair_inclusion", pair_inclusion(fit, penalized))
  best <- top_models(fit, 5)
  say(name, "models", c(best$size, best$probability, unlist(lapply(best$columns, place))))
  table <- hyperparameters(fit, level = 0.9)
  for (row in rownames(table)) say(name, row, unlist(table[row, c("mean", "lower", "upper")]))
}

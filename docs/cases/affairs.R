library(pybayesridge)

# The file of statsmodels, which comes with the package's Python.
folder <- dirname(reticulate::import("statsmodels")$`__file__`)
fair <- read.csv(file.path(folder, "datasets", "fair", "fair.csv"))
fair$affair <- fair$affairs > 0
factors <- c("religious", "rate_marriage", "yrs_married", "occupation")
fair[factors] <- lapply(fair[factors], factor)

fit <- bayes_ridge(affair ~ religious + rate_marriage + yrs_married + age + children + educ + occupation,
  data = fair, family = binomial())
ratios <- odds_ratios(fit)
ratios[grep("religious|rate", rownames(ratios)), ]

# Averaged over all women, with another religiousness
adjusted <- function(level) {
  mean(predict(fit, transform(fair, religious = factor(level, levels = 1:4)), type = "response"))
}
sapply(c(not = 1, mildly = 2, fairly = 3, strongly = 4), adjusted)

library(pybayesridge)

fit <- bayes_ridge(breaks ~ wool * tension, data = warpbreaks, unpenalized = "wool")
fit

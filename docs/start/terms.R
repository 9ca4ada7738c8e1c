library(splines)

fit <- bayes_ridge(mpg ~ bs(hp, df = 4) + wt + factor(cyl), data = cars, unpenalized = "wt")
coef(fit)

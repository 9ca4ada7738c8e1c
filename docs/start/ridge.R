library(pybayesridge)

ridge <- bayes_ridge(mpg ~ ., data = cars, method = "exact")
summary(ridge)

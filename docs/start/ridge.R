library(pybayesridge)

ridge <- bayes_ridge(mpg ~ ., data = cars)
summary(ridge)

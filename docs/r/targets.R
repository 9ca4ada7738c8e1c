bayes_ridge(cbind(mpg, qsec) ~ ., data = mtcars)

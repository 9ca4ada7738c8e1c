ols <- lm(mpg ~ ., data = cars)
cbind(OLS = coef(ols), ridge = coef(ridge), "OLS se" = sqrt(diag(vcov(ols))), "ridge sd" = sqrt(diag(vcov(ridge))))

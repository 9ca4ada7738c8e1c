ols <- lm(mpg ~ ., data = cars)
cbind(OLS = coef(ols), "OLS se" = sqrt(diag(vcov(ols))), ridge = coef(ridge), "ridge sd" = sqrt(diag(vcov(ridge))))

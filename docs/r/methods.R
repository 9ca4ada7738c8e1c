confint(fit, level = 0.9)
vcov(fit)[1:2, 1:2]
as.numeric(logLik(fit))

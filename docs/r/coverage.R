truth <- drop(x[, 1:3] %*% c(3, -2, 2))
coverage <- function(fit) {
  limits <- predict(fit, interval = "credible")
  mean(limits[, "lwr"] <= truth & truth <= limits[, "upr"])
}
exact <- bayes_ridge(x = x, y = y, method = "exact")
selected <- spike_slab(x = x, y = y)
round(c(em = coverage(wide), exact = coverage(exact), spike_slab = coverage(selected)), 2)
head(cbind(truth, predict(wide, interval = "credible")), 3)

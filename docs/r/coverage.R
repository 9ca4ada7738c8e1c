truth <- drop(x[, 1:3] %*% c(3, -2, 2))
coverage <- function(fit) {
  limits <- predict(fit, interval = "credible")
  mean(limits[, "lwr"] <= truth & truth <= limits[, "upr"])
}
paper <- bayes_ridge(x = x, y = y, prior = "half-cauchy")
selected <- spike_slab(x = x, y = y, method = "exact")
round(sapply(list(r2 = wide, half_cauchy = paper, selected = selected), coverage), 2)
head(cbind(truth, predict(wide, interval = "credible")), 3)
head(cbind(truth, predict(selected, interval = "credible")), 3)

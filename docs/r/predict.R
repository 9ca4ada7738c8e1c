new <- expand.grid(wool = c("A", "B"), tension = c("L", "M", "H"))
cbind(new, predict(fit, new, interval = "credible"))

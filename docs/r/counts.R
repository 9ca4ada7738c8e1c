absences <- lapply(c(poisson = "poisson", overdispersed = "negative-binomial"), function(family) {
  bayes_ridge(Days ~ Sex + Age + Eth * Lrn, data = MASS::quine, family = family)
})
loo::loo_compare(lapply(absences, loo::loo))
hyperparameters(absences$overdispersed)
rate_ratios(absences$overdispersed)
chosen <- lapply(c(poisson = "poisson", overdispersed = "negative-binomial"), function(family) {
  spike_slab(Days ~ Sex + Age + Eth * Lrn, data = MASS::quine, family = family)
})
sapply(chosen, inclusion_prob, by = "group")
hyperparameters(chosen$overdispersed)

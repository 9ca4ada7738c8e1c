absences <- lapply(c(poisson = "poisson", overdispersed = "negative-binomial"), function(family) {
  bayes_ridge(Days ~ Sex + Age + Eth * Lrn, data = MASS::quine, family = family)
})
loo::loo_compare(lapply(absences, loo::loo))
hyperparameters(absences$overdispersed)
rate_ratios(absences$overdispersed)
chosen <- spike_slab(Days ~ Sex + Age + Eth * Lrn, data = MASS::quine, family = poisson())
inclusion_prob(chosen, by = "group")

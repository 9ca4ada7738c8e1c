esoph_fit <- bayes_ridge(
  cbind(ncases, ncontrols) ~ agegp + alcgp + tobgp,
  data = esoph, family = binomial()
)
esoph_fit
round(odds_ratios(esoph_fit), 3)

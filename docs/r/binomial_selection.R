esoph_sel <- spike_slab(
  cbind(ncases, ncontrols) ~ agegp + alcgp + tobgp,
  data = esoph, family = binomial(), mcse = 0.02
)
inclusion_prob(esoph_sel, by = "group")
odds_ratios(esoph_sel, parm = c("agegp.L", "alcgp.L", "tobgp.L"))
predict(esoph_sel, cases, interval = "credible")

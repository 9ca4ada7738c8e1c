sleep <- bayes_ridge(
  Reaction ~ Days + (Days | Subject),
  data = lme4::sleepstudy, unpenalized = "fixed"
)
VarCorr(sleep)
hyperparameters(sleep)
predict(sleep, data.frame(Days = 9, Subject = c("308", "new")), interval = "prediction")

herds <- bayes_ridge(
  cbind(incidence, size - incidence) ~ period + (1 | herd),
  data = lme4::cbpp, family = binomial(), unpenalized = "fixed"
)
odds_ratios(herds, parm = names(fixef(herds)))
variance_components(herds)
predict(herds, data.frame(period = "1", herd = c("1", "new")), interval = "credible")

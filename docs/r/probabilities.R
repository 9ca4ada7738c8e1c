cases <- esoph[c(1, 30, 80), ]
predict(esoph_fit, cases, interval = "credible")
predict(esoph_fit, cases, type = "link")
unlist(esoph_fit[c("loo_log_score", "loo_brier", "loo_auc")])

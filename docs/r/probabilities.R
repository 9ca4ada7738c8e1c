new <- esoph[c(1, 30, 80), ]
predict(esoph_fit, new, interval = "credible")
predict(esoph_fit, new, type = "link")
unlist(esoph_fit[c("loo_log_score", "loo_brier", "loo_auc")])

trees <- bayes_ridge(
  circumference ~ s(age, k = 5) + (1 | Tree),
  data = Orange, unpenalized = "fixed"
)
variance_components(trees)
ranef(trees)
smooth_curve(trees, at = c(500, 1000, 1500))
predict(trees, data.frame(age = 1000, Tree = c("3", "new")), interval = "prediction")

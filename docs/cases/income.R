library(pybayesridge)

# The file of statsmodels, which comes with the package's Python.
folder <- dirname(reticulate::import("statsmodels")$`__file__`)
anes <- read.table(file.path(folder, "datasets", "anes96", "anes96.csv"), header = TRUE)
bounds <- c(0, 3, 5, 7, 9:15, 17, 20, 22, seq(25, 50, 5), 60, 75, 90, 105, 155)
anes$income <- ((head(bounds, -1) + tail(bounds, -1)) / 2)[anes$income]
anes$education <- relevel(factor(paste("level", anes$educ)), "level 3")
anes$log_size <- log(anes$popul + 0.1)

fit <- bayes_ridge(sqrt(income) ~ education + splines::bs(age, df = 5) + log_size, data = anes)
fit

new <- data.frame(education = sort(levels(anes$education)), age = 45, log_size = mean(anes$log_size))
medians <- predict(fit, new, interval = "credible")^2
cbind(new["education"], round(medians, 1))

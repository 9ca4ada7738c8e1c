file <- tempfile(fileext = ".rds")
saveRDS(fit, file)
predict(readRDS(file), new[1:2, ], interval = "prediction")

new <- transform(cars[c("Fiat 128", "Duster 360"), ], wt = 3)
predict(ridge, new, interval = "prediction", level = 0.9)

cars <- read.csv("start/cars.csv", row.names = 1)
head(cars, 3)

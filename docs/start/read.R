cars <- datasets::mtcars
head(cars, 3)

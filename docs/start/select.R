selection <- spike_slab(mpg ~ ., data = cars)
summary(selection)

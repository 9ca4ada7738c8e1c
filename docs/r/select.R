sel <- spike_slab(mpg ~ ., data = mtcars)
sort(inclusion_prob(sel), decreasing = TRUE)
median_model(sel)

"""Several penalties at once, Gaussian responses: bands of columns, each with a variance of its own."""

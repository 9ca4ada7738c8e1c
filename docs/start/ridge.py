from pybayesridge import BayesRidge

ridge = BayesRidge.from_formula("mpg ~ .", cars).fit()
print(ridge.summary())

from pybayesridge import BayesRidge

ridge = BayesRidge.from_formula("mpg ~ .", cars).fit("exact")
print(ridge.summary())

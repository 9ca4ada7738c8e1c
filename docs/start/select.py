from pybayesridge import SpikeSlab

selection = SpikeSlab.from_formula("mpg ~ .", cars).fit()
print(selection.summary())

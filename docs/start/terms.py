fit = BayesRidge.from_formula("mpg ~ bs(hp, df=4) + wt + C(cyl)", cars, unpenalized=["wt"]).fit()
fit.params

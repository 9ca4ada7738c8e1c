import pandas as pd
import statsmodels.api as sm

ols = sm.OLS(cars["mpg"], sm.add_constant(cars.drop(columns="mpg"))).fit()
of_ridge = pd.DataFrame({"ridge": ridge.params, "ridge sd": ridge.bse}).rename({"Intercept": "const"})
pd.DataFrame({"OLS": ols.params, "OLS se": ols.bse}).join(of_ridge)

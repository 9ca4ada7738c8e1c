import statsmodels.api as sm

ols = sm.OLS(cars["mpg"], sm.add_constant(cars.drop(columns="mpg"))).fit()
pd.DataFrame(
    {"OLS": ols.params, "ridge": ridge.params.to_numpy(), "OLS se": ols.bse, "ridge sd": ridge.bse.to_numpy()}
)

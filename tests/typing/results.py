"""Types that users see: mypy prints what it knows of each expression."""

import pandas as pd

from pybayesridge import BayesRidge, Moments, SpikeSlab, compare_loo, compare_models, load
from pybayesridge.sklearn import BayesRidgeRegressor, SpikeSlabRegressor

data = pd.DataFrame()
ridge = BayesRidge.from_formula("y ~ a", data).fit()
select = SpikeSlab.from_formula("y ~ a", data).fit()

reveal_type(ridge.params)  # Series | DataFrame
reveal_type(ridge.bse)  # Series | DataFrame
reveal_type(ridge.conf_int())  # DataFrame
reveal_type(ridge.cov_params())  # DataFrame
reveal_type(ridge.fittedvalues)  # Series | DataFrame
reveal_type(ridge.resid)  # Series | DataFrame
reveal_type(ridge.predict(data))  # Series | DataFrame
reveal_type(ridge.get_prediction(data))  # BayesPrediction
reveal_type(ridge.get_prediction().summary_frame())  # DataFrame
reveal_type(ridge.summary())  # FormattedSummary
reveal_type(ridge.lambda_)  # float | Series
reveal_type(ridge.tau2)  # float | Series
reveal_type(ridge.sigma2)  # float | Series
reveal_type(ridge.log_marginal)  # float | Series
reveal_type(ridge.hyperparameters())  # DataFrame
reveal_type(ridge.sample(10, rng=0))  # DataFrame
reveal_type(ridge.contrast("a"))  # DataFrame
reveal_type(ridge.joint_contrast("a"))  # Series
reveal_type(ridge.loo())  # LeaveOneOutScore
reveal_type(compare_loo({"a": ridge, "b": select}))  # DataFrame
reveal_type(ridge.loo().pointwise)  # Series
reveal_type(select.ppc("max"))  # DataFrame
reveal_type(select.pit())  # Series
reveal_type(ridge.prob_positive)  # Series | DataFrame
reveal_type(ridge.summary(direction=True))  # FormattedSummary
reveal_type(ridge.effects("a", values=(0, 1)))  # DataFrame
reveal_type(ridge.predictions({"a": [0, 1]}))  # DataFrame
reveal_type(ridge.prior_sensitivity())  # DataFrame
reveal_type(ridge.model)  # BayesRidge
reveal_type(ridge.findings)  # tuple[Finding, ...]

reveal_type(select.params)  # Series
reveal_type(select.bse)  # Series
reveal_type(select.prob_positive)  # Series
reveal_type(select.prob_zero)  # Series
reveal_type(select.conf_int(0.1))  # DataFrame
reveal_type(select.inclusion_prob)  # Series
reveal_type(select.fittedvalues)  # Series
reveal_type(select.sigma2)  # float
reveal_type(select.log_evidence)  # float
reveal_type(select.median_model())  # list[str]
reveal_type(select.summary())  # FormattedSummary
reveal_type(select.explained_variance())  # Series

ridge.paramz  # error: "RidgeResults[BayesRidge]" has no attribute "paramz"
ridge.predict(dat=data)  # error: Unexpected keyword argument "dat"

binary = BayesRidge.from_formula("y ~ a", data, family="binomial").fit("laplace")
of_arrays = BayesRidge([0, 1, 1], [[1.0], [2.0], [3.0]], family="binomial", trials=[1, 2, 2])
reveal_type(of_arrays)  # BayesRidge
reveal_type(of_arrays.fit("em").odds_ratios())  # DataFrame
reveal_type(BayesRidge([1.0, 2.0], [[1.0], [2.0]], sigma2=1.0).fit().params)  # Series | DataFrame
reveal_type(binary.params)  # Series | DataFrame
reveal_type(binary.odds_ratios())  # DataFrame
reveal_type(binary.predict(data, which="linear"))  # Series | DataFrame
reveal_type(binary.get_prediction(data))  # BayesPrediction
reveal_type(binary.loo_auc)  # float
reveal_type(binary.explained_variance())  # Series | DataFrame
reveal_type(binary.model)  # BayesRidge

reveal_type(compare_models({"ridge": ridge, "selection": select}).to_markdown())  # str
reveal_type(compare_models({"ridge": ridge}).frame)  # DataFrame

loaded = load("fit.pkl")
reveal_type(loaded.model)  # BayesRidge | SpikeSlab
reveal_type(loaded.conf_int())  # DataFrame
reveal_type(BayesRidge.from_parquet("folder", "y ~ a", unpenalized=["a"]).fit().condition_number)  # float
reveal_type(SpikeSlab.from_moments(Moments.load("moments.npz"), group={"g": ["a"]}).fit().median_model())  # list[str]

regressor = BayesRidgeRegressor().fit(data, [1.0])
reveal_type(regressor.result_)  # BayesRidgeResults | BandRidgeResults
reveal_type(regressor.predict(data))  # ndarray
reveal_type(regressor.predict(data, return_std=True))  # tuple[ndarray, ndarray]
reveal_type(SpikeSlabRegressor().fit(data, [1.0]).result_)  # SpikeSlabResults

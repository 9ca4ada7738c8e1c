"""R's formulas beside formulaic's, and lm beside a ridge without penalty."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge

N = 60
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "y": RNG.standard_normal(N),
        "u": RNG.uniform(0.5, 4.0, N),
        "v": RNG.standard_normal(N),
        "g": RNG.choice(["a", "b", "c", "d"], N),
        "h": RNG.choice(["p", "q", "r"], N),
    }
)

# R's formula, formulaic's, and R's contrasts for g where they are not the default.
FORMULAS = {
    "treatment": ("y ~ u + g", "y ~ u + g", None),
    "sum": ("y ~ g", "y ~ C(g, contr.sum)", "contr.sum"),
    "helmert": ("y ~ g", "y ~ C(g, contr.helmert)", "contr.helmert"),
    "polynomial": ("y ~ g", "y ~ C(g, contr.poly)", "contr.poly"),
    "interaction": ("y ~ g * u", "y ~ g * u", None),
    "two factors": ("y ~ g * h", "y ~ g * h", None),
    # Not u:v + g:u: there R takes u for a term of the formula and drops a level of g.
    "interaction only": ("y ~ v + g:u", "y ~ v + g:u", None),
    "no intercept": ("y ~ 0 + g", "y ~ 0 + g", None),
    "b-spline": ("y ~ splines::bs(u, df = 5)", "y ~ bs(u, df=5)", None),
    "b-spline with knots": (
        "y ~ splines::bs(u, knots = c(1.5, 2.5), degree = 2)",
        "y ~ bs(u, knots=[1.5, 2.5], degree=2)",
        None,
    ),
    "polynomials": ("y ~ poly(u, 3)", "y ~ poly(u, 3)", None),
    "functions": ("y ~ log(u) + exp(v) + I(u^2)", "y ~ log(u) + exp(v) + I(u**2)", None),
}

COLUMNS = """
function(data, formula, contrast = NULL) {
  data <- as.data.frame(data, stringsAsFactors = TRUE)
  arguments <- if (!is.null(contrast)) list(g = contrast)
  x <- model.matrix(as.formula(formula), data, contrasts.arg = arguments)
  fit <- lm(as.formula(formula), data, contrasts = arguments)
  list(x = x, coef = as.numeric(coef(fit)), fitted = as.numeric(fitted(fit)))
}
"""


@pytest.mark.parametrize("name", list(FORMULAS))
def test_columns_and_least_squares(r, close, note, name):
    theirs_formula, ours_formula, contrast = FORMULAS[name]
    columns = {name: FRAME[name].to_numpy() for name in FRAME}
    theirs = r(COLUMNS, data=columns, formula=theirs_formula, contrast=contrast)
    model = BayesRidge.from_formula(ours_formula, FRAME)
    exog = np.asarray(model.exog, dtype=float)
    assert exog.shape == theirs["x"].shape
    note("MODEL_MATRIX", np.abs(exog - theirs["x"]).max())
    if "no intercept" not in name:
        res = model.fit("fixed", lam=0)
        close(res.params, theirs["coef"], "LM")
        close(res.fittedvalues, theirs["fitted"], "LM")


INTERVALS = """
function(x, y) {
  fit <- lm(y ~ x)
  list(ci = confint(fit, level = 0.9), prediction = predict(fit, interval = "prediction", level = 0.9), v = vcov(fit))
}
"""


@pytest.mark.filterwarnings("ignore:no penalised column", "ignore:predictions on current data")
def test_unpenalised_columns_have_lms_intervals(r, close):
    x = FRAME[["u", "v"]].to_numpy()
    y = FRAME["y"].to_numpy()
    theirs = r(INTERVALS, x=x, y=y)
    res = BayesRidge(y, x, unpenalized=[0, 1]).fit("fixed", lam=1.0)
    close(res.conf_int(0.1), theirs["ci"], "LM")
    close(res.cov_params(), theirs["v"] * 57 / 55, "LM")
    columns = ["mean", "obs_ci_lower", "obs_ci_upper"]
    close(res.get_prediction(x).summary_frame(0.1)[columns], theirs["prediction"], "LM")

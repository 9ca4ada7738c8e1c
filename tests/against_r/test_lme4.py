"""lme4: correlated intercepts and slopes by restricted maximum likelihood, on its own data."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge

pytestmark = pytest.mark.r_packages("lme4")

FIT = """
function(formula) {
  data <- lme4::sleepstudy
  fit <- lme4::lmer(stats::as.formula(formula), data, REML = TRUE)
  variances <- as.data.frame(lme4::VarCorr(fit))
  list(
    y = data$Reaction, x = data$Days, g = as.character(data$Subject), sd = variances$sdcor,
    effects = as.numeric(as.matrix(lme4::ranef(fit)$Subject)), fixed = as.numeric(lme4::fixef(fit))
  )
}
"""

STOPS = 5e-5
"""Relative: lmer stops early."""


def test_restricted_maximum_likelihood(r):
    found = r(FIT, formula="Reaction ~ Days + (Days | Subject)")
    data = pd.DataFrame({"Reaction": found["y"], "Days": found["x"], "Subject": found["g"]})
    res = BayesRidge.from_formula("Reaction ~ Days + (Days | Subject)", data, unpenalized="fixed").fit("reml")
    ours = np.r_[res.variance_components()["mean"], np.sqrt(res.sigma2)]
    np.testing.assert_allclose(ours, found["sd"], rtol=STOPS)
    np.testing.assert_allclose(res.params.iloc[:2], found["fixed"], rtol=STOPS)
    np.testing.assert_allclose(res.random_effects()["mean"], found["effects"], rtol=STOPS, atol=2e-3)

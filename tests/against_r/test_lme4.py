"""lme4: restricted maximum likelihood of crossed factors with many levels."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge

pytestmark = pytest.mark.r_packages("lme4")

FIT = """
function(y, x, s, d, dept) {
  data <- data.frame(y = y, x = x, s = factor(s), d = factor(d), dept = factor(dept))
  control <- lme4::lmerControl(optimizer = "bobyqa", optCtrl = list(rhobeg = 1e-2, rhoend = 1e-9, maxfun = 1e5))
  fit <- lme4::lmer(y ~ x + (1 | s) + (1 | d) + (1 | dept), data, REML = TRUE, control = control)
  components <- as.data.frame(lme4::VarCorr(fit))
  effects <- lme4::ranef(fit, condVar = FALSE)
  list(
    names = components$grp, sd = components$sdcor,
    fixed = lme4::fixef(fit), sd_fixed = sqrt(diag(as.matrix(vcov(fit)))),
    s = effects$s[as.character(sort(unique(s))), 1], d = effects$d[as.character(sort(unique(d))), 1]
  )
}
"""

STOPS = 1e-4
"""lmer stops where its criterion changes no more, at which estimates have half as many digits."""


def test_crossed_factors_with_many_levels(r):
    rng = np.random.default_rng(3)
    n, s, d, dept = 6000, 700, 150, 8
    frame = pd.DataFrame({"x": rng.normal(size=n), "s": np.r_[np.arange(s), rng.integers(s, size=n - s)]})
    frame["d"] = rng.integers(d, size=n)
    frame["dept"] = frame["d"] % dept
    frame["y"] = 0.2 * frame["x"] + 1.2 * rng.normal(size=n)
    for name, count, scale in (("s", s, 0.4), ("d", d, 0.5), ("dept", dept, 0.3)):
        frame["y"] += scale * rng.normal(size=count)[frame[name]]
    found = r(FIT, **{name: frame[name].to_numpy() for name in frame})
    res = BayesRidge.from_formula("y ~ x + (1 | s) + (1 | d) + (1 | dept)", frame, unpenalized="fixed").fit("reml")
    assert res.model.bands.eliminated == 0
    theirs = dict(zip(np.asarray(found["names"]).tolist(), np.asarray(found["sd"]), strict=True))
    for name, sd in res.variance_components()["mean"].items():
        assert sd == pytest.approx(theirs[name], rel=STOPS)
    assert np.sqrt(res.sigma2) == pytest.approx(theirs["Residual"], rel=STOPS)
    np.testing.assert_allclose(res.params[:2], found["fixed"], rtol=STOPS)
    np.testing.assert_allclose(res.bse[:2], found["sd_fixed"], rtol=STOPS)
    for name in ("s", "d"):
        np.testing.assert_allclose(res.random_effects(name)["mean"], found[name], atol=STOPS)


GLMER = """
function(data) {
  if (data == "cbpp") {
    d <- lme4::cbpp
    fit <- lme4::glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), d, family = binomial, nAGQ = 15)
    columns <- list(y = d$incidence, m = d$size, period = as.integer(d$period), herd = as.integer(d$herd))
  } else {
    d <- lme4::grouseticks
    d$h <- (d$HEIGHT - mean(d$HEIGHT)) / sd(d$HEIGHT)
    fit <- lme4::glmer(TICKS ~ YEAR + h + (1 | BROOD) + (1 | LOCATION), d, family = poisson)
    columns <- list(
      y = d$TICKS, year = as.integer(as.character(d$YEAR)), h = d$h, brood = as.integer(d$BROOD),
      place = as.integer(d$LOCATION)
    )
  }
  components <- as.data.frame(lme4::VarCorr(fit))
  c(list(fixed = lme4::fixef(fit), sd_fixed = sqrt(diag(as.matrix(vcov(fit)))), sd = components$sdcor), columns)
}
"""

INTEGRATED = 0.12
"""Posterior means and the maximum of the likelihood, in standard errors; standard deviations of groups, relative:
those that integrate the fixed effects out are larger."""


@pytest.mark.parametrize("name", ["cbpp", "grouseticks"])
def test_generalized_mixed_models(r, name):
    found = {key: np.asarray(value) for key, value in r(GLMER, data=name).items()}
    fixed, sd_fixed, sd = (found.pop(key) for key in ("fixed", "sd_fixed", "sd"))
    data = pd.DataFrame({key: value.astype(float) for key, value in found.items()})
    if name == "cbpp":
        formula, given = "y ~ C(period) + (1 | herd)", {"family": "binomial", "trials": "m"}
    else:
        formula, given = "y ~ C(year) + h + (1 | brood) + (1 | place)", {"family": "poisson"}
    res = BayesRidge.from_formula(formula, data, unpenalized="fixed", **given).fit("reml")
    assert (np.abs(res.params.to_numpy()[: fixed.size] - fixed) < INTEGRATED * sd_fixed).all()
    np.testing.assert_allclose(res.variance_components()["mean"], sd, rtol=INTEGRATED)

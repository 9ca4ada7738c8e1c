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

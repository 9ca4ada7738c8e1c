"""mgcv: smooth curves of the formula language at given penalties, for one variable, by factors and by numbers.

Those of yes/no responses and counts by Laplace's approximation, also with the penalty by restricted maximum
likelihood.
"""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from pybayesridge.formula.build import build, transform_with_bands

pytestmark = pytest.mark.r_packages("mgcv")

FIT = """
function(formula, x, z, g, y, new_x, new_z, new_g) {
  frame <- function(x, z, g) {
    factor <- factor(g, levels = c("a", "b", "c"))
    data.frame(x = x, z = z, g = factor, o = factor(factor, ordered = TRUE))
  }
  data <- frame(x, z, g)
  data$y <- y
  f <- stats::as.formula(formula, env = asNamespace("mgcv"))
  count <- length(mgcv::gam(f, data = data)$smooth)
  sp <- 10^(seq_len(count) - 2)
  fit <- mgcv::gam(f, data = data, sp = sp)
  scales <- vapply(fit$smooth, function(smooth) smooth$S.scale, 0)
  list(predicted = as.numeric(predict(fit, frame(new_x, new_z, new_g))), penalty = sp / scales)
}
"""

FORMULAS = {
    "y ~ z + s(x, bs='cr', k=8)": "y ~ z + s(x, k=8)",
    "y ~ g + s(x, by=g, bs='cr', k=6)": "y ~ g + s(x, by=g, k=6)",
    "y ~ o + s(x, bs='cr', k=6) + s(x, by=o, bs='cr', k=6)": "y ~ o + s(x, k=6) + s(x, by=o, k=6)",
    "y ~ s(x, by=z, bs='cr', k=6)": "y ~ s(x, by=z, k=6)",
}


def rows(n, low, high):
    rng = np.random.default_rng(n)
    frame = pd.DataFrame({"x": np.sort(rng.uniform(low, high, n)), "z": rng.normal(size=n)})
    frame["g"] = rng.choice(list("abc"), n)
    frame["o"] = pd.Categorical(frame["g"], categories=list("abc"), ordered=True)
    return frame.assign(y=np.sin(2 * frame["x"]) + frame["z"] * np.cos(frame["x"]) + (frame["g"] == "b") * frame["x"])


@pytest.mark.parametrize("theirs", FORMULAS)
def test_curves_at_given_penalties(r, close, theirs):
    data, new = rows(120, 0, 3), rows(30, -1, 4)
    given = {name: data[name].to_numpy() for name in ("x", "z", "g", "y")}
    found = r(FIT, formula=theirs, **given, **{f"new_{name}": new[name].to_numpy() for name in ("x", "z", "g")})
    options = {"subset": None, "drop_cols": None, "missing": "drop", "weights": None, "context": {}}
    built = build(FORMULAS[theirs], data, **options)
    # Our penalty is the integral over x in units of its range.
    penalties = np.atleast_1d(found["penalty"]) / np.ptp(data["x"]) ** 3

    def columns(plain, bands):
        parts = [np.ones((len(plain), 1)), plain.to_numpy()]
        return np.hstack(parts + [part for band in bands for part in (band.unpenalized, band.penalized)])

    x = columns(built.exog, built.bands)
    ridge = [0.0] * (1 + built.exog.shape[1])
    for band, penalty in zip(built.bands, penalties, strict=True):
        ridge += [0.0] * len(band.band.unpenalized) + [penalty] * len(band.band.columns)
    coefficients = np.linalg.solve(x.T @ x + np.diag(ridge), x.T @ data["y"].to_numpy())
    close(columns(*transform_with_bands(built.spec, new)[:2]) @ coefficients, found["predicted"], "MGCV")


OF_FAMILY = """
function(family, x, z, y, new_x, new_z) {
  data <- data.frame(x = x, z = z, y = y)
  fitted <- function(...) {
    control <- mgcv::gam.control(epsilon = 1e-14)
    f <- stats::as.formula("y ~ z + s(x, bs = 'cr', k = 8)", env = asNamespace("mgcv"))
    mgcv::gam(f, data = data, family = get(family, asNamespace("stats"))(), control = control, ...)
  }
  given <- fitted(sp = 0.3)
  scale <- given$smooth[[1]]$S.scale
  list(
    predicted = as.numeric(predict(given, data.frame(x = new_x, z = new_z))), penalty = 0.3 / scale,
    sd = as.numeric(sqrt(diag(vcov(given)))[1:2]), found = fitted(method = "REML")$sp[[1]] / scale
  )
}
"""


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_curves_of_other_families(r, close, family):
    data, new, rng = rows(120, 0, 3), rows(30, -1, 4), np.random.default_rng(1)
    eta = data["y"].to_numpy() / 2
    data["y"] = (
        rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(120) < 1 / (1 + np.exp(-2 * eta))
    ) * 1.0
    given = {name: data[name].to_numpy() for name in ("x", "z", "y")}
    found = r(OF_FAMILY, family=family, **given, new_x=new["x"].to_numpy(), new_z=new["z"].to_numpy())
    unit = np.ptp(data["x"]) ** 3
    model = BayesRidge.from_formula("y ~ z + s(x, k=8)", data, family=family, unpenalized="fixed")
    res = model.fit("fixed", lam=np.atleast_1d(found["penalty"]) / unit, solver="laplace")
    close(res.predict(new, which="linear"), found["predicted"], "MGCV_FAMILIES")
    close(res.bse[["Intercept", "z"]], found["sd"], "MGCV_FAMILIES")
    if family == "poisson":
        sd = model.fit("reml", solver="laplace").variance_components()["mean"]
        close(1 / sd**2, np.atleast_1d(found["found"]) / unit, "MGCV_REML")

"""Formulas that would never end are refused, and formulas of other packages are told what to write."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from formulaic import Formula

from pybayesridge import BayesRidge
from pybayesridge.formula.parse import parse

N = 30


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=["y", "a", "x"])
    frame = frame.assign(**{f"f{i}": rng.choice(["u", "v"], N) for i in range(14)}, k=np.arange(N) % 3)
    return frame.assign(id=[f"r{i}" for i in range(N)], g=rng.choice(list("abc"), N), t=1.0 * np.arange(N))


ENDLESS = [
    "y ~ hashed(g, levels=10**9)",
    "y ~ hashed(g, 10**9) + x",
    "y ~ bs(a, df=10**9)",
    "y ~ bs(a, 10**9)",
    "y ~ bs(a, df=5, degree=10**7)",
    "y ~ cr(a, df=10**8)",
    "y ~ cs(a, df=10**8)",
    "y ~ cc(a, df=10**8)",
    "y ~ poly(a, 10**8)",
    "y ~ poly(a, degree=10**8, raw=True)",
    "y ~ C(g, levels=range(10**9))",
    "y ~ bs(a, df=500):bs(x, df=500)",
    "y ~ hashed(g, levels=1000):hashed(id, levels=1000)",
    "y ~ id:C(t):C(k):f1:f2:f3:f4:f5:f6:f7:f8",
    "y ~ " + "*".join(f"f{i}" for i in range(14)),
    "y ~ " + "*".join(f"(a + x + t + k + f{i})" for i in range(14)),
    "y ~ (" + " + ".join(f"I(x + {i})" for i in range(40)) + ")**20",
    "y ~ ("
    + " + ".join(f"I(x + {i})" for i in range(400))
    + ")/("
    + " + ".join(f"I(x - {i})" for i in range(400))
    + ")",
    "y ~ bs(a, df=size)",
]


@pytest.mark.parametrize("formula", ENDLESS)
def test_formulas_that_would_never_end(formula, data):
    size = 10**9  # noqa: F841
    with pytest.raises(ValueError, match=r"at most|leave out interactions"):
        BayesRidge.from_formula(formula, data)


def test_high_powers_of_a_few_terms(data):
    names = BayesRidge.from_formula("y ~ (a + x + k + t)**30", data).exog_names
    assert names == BayesRidge.from_formula("y ~ (a + x + k + t)**4", data).exog_names
    for power in (1, 2, 3, 4):
        for sums in ("(k + a + x + t)", "(a + a:x + k)", "(x + a + a)"):
            formula = f"y ~ {sums}**{power}"
            assert [str(t) for t in parse(formula, data).rhs] == [str(t) for t in Formula(formula).rhs]
    assert list(BayesRidge.from_formula("y ~ (a + x + k)**2", data).exog_names) == [
        "Intercept", "a", "x", "k", "a:x", "a:k", "x:k",
    ]  # fmt: skip


@pytest.mark.parametrize("power", ["0", "1.5", "a", "(-1)", "'x'"])
def test_powers_that_are_none(power, data):
    with pytest.raises(ValueError, match=r"positive integer|cannot be parsed"):
        BayesRidge.from_formula(f"y ~ (a + x)**{power}", data)


HINTS = {
    "y ~ I(x^2)": "write x ** 2",
    "y ~ I(k^2) + x": "write k ** 2",
    "y ~ I(2^k)": "write 2 ** k",
    "y ~ np.log(s(x))": "bs(x, df=5)",
    "y ~ te(x, a)": "bs(x, df=4):bs(z, df=4)",
    "y ~ ns(x, 3)": "cr(x, df=5)",
    "y ~ x + 1 | g": "in parentheses, (x | g)",
    "cbind(y, a) ~ x": "a + b ~ x",
    "y ~ k.dt.year": "I(k.dt.year)",
    "y ~ x + factor(g)": "C(x)",
    "y ~ x + offset(a)": "yes/no responses have no offsets",
    "y ~ sqrt(t)": "np.sqrt(...)",
    "y ~ log1p(t)": "np.log1p(...)",
    "y ~ scal(x)": "did you mean 'scale'",
    "y ~ xx": "not a column of the data",
    "y ~ np": "not a column of the data",
    "y ~ x +* a": "cannot be parsed",
    "y ~ (x": "cannot be parsed",
    "y ~ 'x": "cannot be parsed",
    "y ~ x y": "cannot be parsed",
    "y ~ 3": "cannot be parsed",
    "y ~ Q(g)": "Q takes the name of a column as text",
}


@pytest.mark.parametrize("formula", HINTS)
def test_hints(formula, data):
    with pytest.raises(ValueError, match=re.escape(HINTS[formula])) as caught:
        BayesRidge.from_formula(formula, data)
    assert "\x1b" not in str(caught.value)
    assert "_QUOTED_" not in str(caught.value)


def test_exclusive_or_of_truth_values(data):
    res = BayesRidge.from_formula("y ~ I((x > 0) ^ (a > 0))", data)
    np.testing.assert_array_equal(res.exog[:, 1], ((data.x > 0) ^ (data.a > 0)).astype(float))

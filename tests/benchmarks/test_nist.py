"""The linear regressions of NIST: the data give the certified values, and least squares keeps their digits."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from benchmarks import nist
from benchmarks import nist_data as data_sets
from pybayesridge import BayesRidge, DegenerateFitWarning, PrecisionWarning

HALF = Fraction(1, 2)
"""Units of the last published digit."""

DIGITS = {
    "Norris": (11.8, 10.8, 10.8, 14.0),
    "Pontius": (11.4, 11.9, 12.0, 14.0),
    "NoInt1": (13.8, 12.0, 12.0, 14.0),
    "NoInt2": (14.0, 13.6, 13.5, 14.0),
    "Filip": (6.4, 6.3, 6.9, 9.2),
    "Longley": (10.4, 11.1, 13.7, 13.5),
    "Wampler1": (8.3, 14.0, 14.0, 14.0),
    "Wampler2": (11.9, 14.0, 14.0, 14.0),
    "Wampler3": (8.5, 9.0, 12.9, 14.0),
    "Wampler4": (6.7, 9.0, 13.8, 14.0),
    "Wampler5": (4.6, 9.0, 13.8, 12.1),
}
"""Digits of coefficients, standard errors, residual standard deviation and R²: one fewer than the fewest seen."""

OF_STANDARD_ERRORS = 2e-12
"""Errors of the coefficients of the noisy polynomials in standard errors; worst seen 1.7e-13."""

every_data_set = pytest.mark.parametrize("name", list(nist.DATASETS))


@pytest.mark.every_case
@every_data_set
def test_the_data_give_the_certified_values_to_all_published_digits(name):
    data = nist.DATASETS[name]
    found, certified = data_sets.exact(data), data.certified
    pairs = [
        *zip(certified.params, found.params, strict=True),
        *zip(certified.bse, found.bse, strict=True),
        (certified.residual_sd, found.residual_sd),
        (certified.rsquared, found.rsquared),
    ]
    for published, value in pairs:
        unit = Fraction(10) ** Decimal(published).as_tuple().exponent
        assert abs(Fraction(published) - Fraction(value)) <= HALF * unit


@pytest.mark.every_case
@every_data_set
def test_least_squares_keeps_its_digits(name):
    data = nist.DATASETS[name]
    digits = nist.digits_of(nist.of_ridge(data), data)
    assert all(found > least for found, least in zip(digits.values(), DIGITS[name], strict=True)), digits


@pytest.mark.parametrize("name", ["Wampler3", "Wampler4", "Wampler5"])
def test_coefficients_are_known_far_better_than_their_standard_errors(name):
    data = nist.DATASETS[name]
    found = nist.of_ridge(data)
    certified = np.array([float(v) for v in data.certified.params])
    bse = np.array([float(v) for v in data.certified.bse])
    assert (np.abs(found["params"] - certified) / bse).max() < OF_STANDARD_ERRORS
    assert "collinear" in found["findings"]


def test_lost_digits_are_announced():
    y, x = nist.DATASETS["Filip"].arrays()
    with pytest.warns(PrecisionWarning, match=r"limit this fit to about 5 digits: columns are nearly collinear"):
        res = BayesRidge(y, x).fit("fixed", lam=0)
    assert any("The columns are collinear (condition number" in text for text in res.notes)
    y, x = nist.DATASETS["Wampler1"].arrays()
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        BayesRidge(y, x).fit("fixed", lam=0)


def test_columns_in_units_in_which_digits_are_not_enough_are_refused():
    y, x = nist.DATASETS["Filip"].arrays()
    with pytest.raises(ValueError, match=r"lam=0 needs columns that are linearly independent"):
        BayesRidge(y, x, standardize=False).fit("fixed", lam=0)


def test_the_page_has_every_data_set_and_program(monkeypatch):
    monkeypatch.setattr(nist.peers_r, "has", lambda package: False)
    monkeypatch.setattr(nist, "DATASETS", {name: nist.DATASETS[name] for name in ("NoInt2", "Longley")})
    pytest.importorskip("statsmodels")
    text = nist.page(nist.measure(quick=True))
    assert text.count("| Longley |") == 5
    assert "| data | n | k | BayesRidge | OLS (pinv) | OLS (qr) | lstsq |" in text


def test_digits_of_zeros_and_of_wrong_numbers():
    assert nist.log_relative_error([1.001, 2.0], ["1.0", "2.0"]) == pytest.approx(3.0, abs=1e-6)
    assert nist.log_relative_error(1e-9, "0.000000000000000") == pytest.approx(9.0, abs=1e-6)
    assert nist.log_relative_error(-5.0, "1.0") == pytest.approx(0.0, abs=1e-6)

"""The net notices what changes, and nothing else."""

import functools

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from tests.effort import pairs, share
from tests.net import crossings
from tests.net.__main__ import compare, difference, grade
from tests.net.ask import answers
from tests.net.kinds import kinds, made


def test_two_fits_of_the_same_data_give_the_same_answers(capsys):
    kind = kinds()["ridge em"]
    before, after = ({"ridge em": answers(kind, made(kind)[0])} for _ in range(2))
    assert len(before["ridge em"]) > 200
    assert compare(before, after) == 0
    after["ridge em"] = after["ridge em"] | {"tau2": after["ridge em"]["tau2"] * 1.01, "method": "exact"}
    del after["ridge em"]["bse"]
    assert compare(before, after) == 3
    said = capsys.readouterr().out
    for words in ("tau2: DIFFERENT 1.0e-02", "bse: GONE", "method: TEXT"):
        assert words in said


def test_differences_are_relative_to_the_largest_number():
    assert difference(np.array([1e6, 1.0]), np.array([1e6, 1.5])) == pytest.approx(5e-7)
    assert difference(np.array([1.0, np.nan]), np.array([1.0, 2.0])) == np.inf
    assert difference(np.zeros(2), np.zeros(3)) == np.inf
    assert [grade(x) for x in (0.0, 1e-13, 1e-9, 1e-5, 0.1)] == ["equal", "moved", "quantiles", "1e-4", "DIFFERENT"]


@functools.cache
def asked(fit):
    """What a fit answers about the table itself."""
    return crossings.answers_of(crossings.fits()[fit], crossings.Form())


@pytest.mark.parametrize(("fit", "form"), pairs(share(crossings.fits(), 3), crossings.FORMS, each=1))
def test_the_same_data_in_another_form_have_the_same_answers(fit, form):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    other = crossings.FORMS[form]
    assert crossings.differences(asked(fit), crossings.answers_of(crossings.fits()[fit], other), other) == []

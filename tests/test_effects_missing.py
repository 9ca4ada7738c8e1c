"""``effects()`` and ``predictions()`` over rows with missing values."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, load
from tests.test_effects import data

MISSING_ROWS = [2, 7, 40]


@pytest.fixture(scope="module")
def frame():
    return data()


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_rows_of_data_with_missing_values_are_left_out_as_by_the_fit(frame, family):
    """A fit from a formula leaves such rows out, and so do averages over new data."""
    response = "y" if family == "gaussian" else "event"
    res = BayesRidge.from_formula(f"{response} ~ x*g + u", frame, family=family).fit()
    new = frame.assign(x=frame["x"].where(~np.isin(np.arange(len(frame)), MISSING_ROWS)))
    whole = new.drop(index=new.index[MISSING_ROWS])
    pd.testing.assert_frame_equal(res.effects(data=new), res.effects(data=whole))
    for at in ("mean", "observed"):
        asked = {"grid": {"g": ["a", "b"]}, "at": at}
        pd.testing.assert_frame_equal(res.predictions(**asked, data=new), res.predictions(**asked, data=whole))


def test_missing_values_are_refused_where_the_fit_refuses_them(frame):
    gaps = frame.assign(z=frame["z"].where(np.arange(len(frame)) > 3))
    strict = BayesRidge.from_formula("y ~ x + z", frame, missing="raise").fit()
    arrays = BayesRidge(frame["y"], frame[["x", "z"]]).fit()
    for res, rows in ((strict, gaps), (arrays, gaps[["x", "z"]])):
        with pytest.raises(ValueError, match="missing values in 'z': leave those rows out"):
            res.effects("x", data=rows)
    dropping = BayesRidge(frame["y"], frame[["x", "z"]], missing="drop").fit()
    wanted = dropping.predictions({"x": [1.0]}, at="observed", data=gaps[["x", "z"]].iloc[4:])
    found = dropping.predictions({"x": [1.0]}, at="observed", data=gaps[["x", "z"]])
    pd.testing.assert_frame_equal(found, wanted)


def test_saved_fits_and_streams_know_what_they_do_about_missing_values(frame, tmp_path):
    pa = pytest.importorskip("pyarrow")
    gaps = frame.assign(z=frame["z"].where(np.arange(len(frame)) > 3))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    wanted = BayesRidge.from_formula("y ~ x + z", frame).fit().effects("z", data=gaps.iloc[4:])
    for missing in ("drop", "raise"):
        res = BayesRidge.from_arrow(table, "y ~ x + z", missing=missing).fit()
        res.save(tmp_path / "fit", remove_data=True)
        read = load(tmp_path / "fit")
        for each in (res, read):
            if missing == "raise":
                with pytest.raises(ValueError, match="missing values in 'z'"):
                    each.effects("z", data=gaps)
            else:
                np.testing.assert_allclose(each.effects("z", data=gaps), wanted, rtol=1e-7)

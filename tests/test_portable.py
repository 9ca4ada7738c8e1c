"""Fits in files of text and numbers: what comes back, the gallery of earlier files, and what is refused."""

import io
import json
import pickle
from contextlib import nullcontext
from datetime import date

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, load
from pybayesridge.exceptions import DataWarning
from pybayesridge.results import portable
from pybayesridge.results.encoding import Decoder, Encoder
from pybayesridge.results.stored_classes import STORED, NotStoredError, class_of, name_of
from tests.fuzz.files import changed
from tests.gallery import make

SAME = 1e-9
"""Predictions and intervals of stored numbers, computed by other processors and libraries."""

FORMATS = sorted(folder.name for folder in make.FOLDER.parent.glob("format*"))


@pytest.fixture(scope="module")
def fits():
    return make.fits()


def there_and_back(value):
    encoder = Encoder()
    root = json.loads(json.dumps(encoder.value(value, "value"), allow_nan=False))
    entries = json.loads(json.dumps(encoder.entries, allow_nan=False))
    arrays = {kind: np.concatenate(parts) for kind, parts in encoder.arrays.items()}
    return Decoder(entries, arrays).value(root)


@pytest.mark.parametrize("folder", FORMATS)
def test_every_file_of_the_gallery_is_read(folder):
    stored = make.FOLDER.parent / folder
    answers = json.loads((stored / "numbers.json").read_text(encoding="utf-8"))
    assert {path.stem for path in stored.glob("*.fit")} == set(answers)
    for name, wanted in answers.items():
        res = load(stored / f"{name}.fit")
        found = make.numbers(res)
        for what, value in wanted.items():
            unit = np.abs(np.asarray(value)).max() or 1.0
            np.testing.assert_allclose(found[what], value, rtol=SAME, atol=SAME * unit, err_msg=f"{name}: {what}")
        assert len(str(res.summary())) > 500
        removed = name.endswith("removed")
        assert (res.model.endog is None) == removed
        if not removed:
            assert len(res.fittedvalues) == len(make.data())


def test_a_family_with_another_name_in_an_earlier_file():
    res = load(make.FOLDER.parent / "format2" / "overdispersed.fit")
    assert res.model.family == "negative-binomial"
    assert "family='negative-binomial'" in res.recipe.code
    assert "negativebinomial" not in str(res.summary())
    assert res.prior_sensitivity()["shift"].notna().all()


def test_options_that_an_earlier_file_lacks_are_not_guessed():
    res = load(make.FOLDER.parent / "format1" / "selection_exact.fit")
    with pytest.raises(ValueError, match="earlier version, which did not keep the options: fit again"):
        res.prior_sensitivity()


def test_a_loaded_fit_gives_all_that_it_gave(fits):
    for name, res in fits.items():
        file, twice = io.BytesIO(), io.BytesIO()
        res.save(file)
        res.save(twice)
        assert twice.getvalue() == file.getvalue()
        file.seek(0)
        back = load(file)
        assert type(back) is type(res)
        assert str(back.summary()) == str(res.summary())
        assert back.recipe.code == res.recipe.code
        pd.testing.assert_frame_equal(back.conf_int(0.2), res.conf_int(0.2))
        pd.testing.assert_index_equal(back.model.data.row_labels, res.model.data.row_labels)
        draws = back.sample(5, rng=1), res.sample(5, rng=1)
        pd.testing.assert_frame_equal(*draws)
        assert back.model.source.data is back.model.data
        again = back.model.fit(res.method, **({"lam": 2.0, "solver": "laplace"} if res.method == "fixed" else {}))
        if name not in ("binomial_selection", "selection_ep"):
            np.testing.assert_allclose(again.params, res.params, rtol=1e-8, atol=1e-10)
        if res.model.variables is not None and res.model.family == "gaussian":
            pd.testing.assert_frame_equal(back.effects("a"), res.effects("a"))


def test_values():
    shared = np.arange(3.0)
    loaded = there_and_back(
        {
            "numbers": (1, 2.5, float("nan"), float("inf"), -0.0, 10**30, np.float64("-inf"), np.int8(3), np.True_),
            "text": ["ä\ud800", None, True],
            (1, 2): {3: "x"},
            "arrays": [shared, shared, np.zeros((2, 0), dtype=bool), np.ones((2, 3), np.float32, order="F")],
            "np": [np, np.exp],
        }
    )
    one, two, *rest = loaded["numbers"]
    assert (one, two, rest[3], rest[5]) == (1, 2.5, 10**30, np.int8(3))
    assert np.isnan(rest[0])
    assert np.signbit(rest[2])
    assert isinstance(rest[4], np.float64)
    assert loaded["text"] == ["ä\ud800", None, True]
    assert loaded[1, 2] == {3: "x"}
    assert loaded["arrays"][0] is loaded["arrays"][1]
    assert loaded["arrays"][2].shape == (2, 0)
    assert loaded["arrays"][3].dtype == np.float32
    assert loaded["arrays"][3].flags.f_contiguous
    assert loaded["np"] == [np, np.exp]


INDEXES = [
    pd.RangeIndex(2, 8, 2, name="rows"),
    pd.Index(["a", "b", "c"], name="label"),
    pd.Index([1.5, np.nan, 2.0]),
    pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("b", 3)], names=["x", None]),
    pd.DatetimeIndex(["2020-01-31", "2020-02-01", "2021-03-04"]),
    pd.DatetimeIndex(["2020-01-31", "2020-02-01", "2021-03-04"], tz="Europe/Zurich"),
    pd.period_range("2020-01", periods=3, freq="M"),
    pd.to_timedelta([1, 2, 3], unit="h"),
    pd.CategoricalIndex(["u", "v", "u"], categories=["v", "u"], ordered=True),
    pd.Index([True, False, True]),
]


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: type(index).__name__ + str(index.dtype))
def test_labels(index):
    pd.testing.assert_index_equal(there_and_back(index), index, exact="equiv")


def test_frames():
    frame = pd.DataFrame(
        {
            "a": [1.0, np.nan, 3.0],
            "b": pd.array([1, None, 3], dtype="Int64"),
            "c": ["x", None, "y"],
            "d": pd.Categorical(["x", None, "y"]),
            "e": pd.array(["x", None, "y"], dtype="string"),
            "f": [True, False, True],
        },
        index=["p", "q", "r"],
    )
    pd.testing.assert_frame_equal(there_and_back(frame), frame)
    twice = frame.iloc[:, [0, 0]]
    pd.testing.assert_frame_equal(there_and_back(twice), twice)
    pd.testing.assert_frame_equal(there_and_back(frame[[]]), frame[[]], check_column_type=False)
    pd.testing.assert_series_equal(there_and_back(frame["b"]), frame["b"])


def test_every_name_is_a_class_of_the_package():
    assert len(set(STORED)) == len(STORED)
    for name in STORED:
        assert name_of(class_of(name)) == name
    with pytest.raises(KeyError):
        class_of("files.written_whole")
    assert name_of(dict) is None


def half(x):
    return x / 2


def test_values_and_functions_of_numpy_in_a_formula_are_stored_and_others_are_not():
    frame, log1p, shift = make.data(), np.log1p, 0.5  # noqa: F841
    for formula in ("y ~ a + log1p(b ** 2) + np.exp(c - shift)", "y ~ half(a) + log1p(b ** 2) + np.exp(c - shift)"):
        res = BayesRidge.from_formula(formula, frame).fit("em")
        file = io.BytesIO()
        with pytest.warns(DataWarning, match="uses 'half'") if "half" in formula else nullcontext():
            res.save(file, remove_data=True)
        file.seek(0)
        back = load(file)
        assert set(back.model.formula_spec.context) == {"log1p", "shift"}
        if "half" in formula:
            with pytest.raises(ValueError, match="uses 'half' of the session"):
                back.predict(frame.head(3))
        else:
            np.testing.assert_allclose(back.predict(frame.head(3)), res.predict(frame.head(3)), rtol=SAME)


CODINGS = ["", ", contr.SAS", ", contr.sum", ", contr.helmert", ", contr.diff", ", contr.poly", ", Treatment('z')"]


@pytest.mark.parametrize("coding", CODINGS)
def test_codings_of_factors(coding):
    frame = make.data()
    res = BayesRidge.from_formula(f"y ~ a:C(site{coding}) + poly(b, 2) + cr(c, df=3) + scale(a)", frame).fit("em")
    file = io.BytesIO()
    res.save(file)
    file.seek(0)
    back = load(file)
    np.testing.assert_allclose(back.predict(frame.head(5)), res.predict(frame.head(5)), rtol=SAME)
    with pytest.raises(ValueError, match="level that the fit has not seen"):
        back.predict(frame.head(1).assign(site="other"))


def test_what_a_file_cannot_hold(tmp_path):
    frame = make.data()
    path = tmp_path / "fit"
    labelled = frame.set_index(pd.Index([date(2020, 1, 1 + i) for i in range(len(frame))], dtype=object))
    res = BayesRidge(labelled["y"], labelled[["a"]]).fit("em")
    with pytest.raises(ValueError, match=r"datetime\.date, which a file of text.*format='pickle'") as caught:
        res.save(path)
    assert "row_labels" in str(caught.value)
    assert not path.exists()
    res.save(path, format="pickle")
    assert load(path, allow_code=True).predict().index.equals(labelled.index)
    res.save(path, remove_data=True)
    with pytest.raises(ValueError, match="format must be 'portable' or 'pickle', not 'json'"):
        res.save(path, format="json")
    for value in (object(), {1, 2}, np.array([object()]), np.array(["a"]), half):
        with pytest.raises(NotStoredError):
            Encoder().value(value, "it")


def test_nothing_is_unpickled(fits, tmp_path, monkeypatch):
    path = tmp_path / "fit"
    fits["ridge_formula"].save(path)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, lambda *_: pytest.fail("unpickled"))
    np.testing.assert_array_equal(load(path).params, fits["ridge_formula"].params)


def test_foreign_damaged_and_later_files(fits, tmp_path):
    path = tmp_path / "fit"
    fits["selection_ep"].save(path)
    content = path.read_bytes()
    for length in (3, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"damaged|no complete pickle") as caught:
            load(path)
        assert str(path) in str(caught.value)
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match="is not a fit saved by pybayesridge: it is another archive"):
        load(tmp_path / "other.npz")
    path.write_bytes(changed(content, lambda text: text.update(format=9, writer="7.1")))
    with pytest.raises(ValueError, match=r"written by pybayesridge 7\.1, in format 9.*upgrade pybayesridge"):
        load(path)

    def unknown(text):
        next(entry for entry in text["entries"] if "class" in entry)["class"] = "os.system"

    path.write_bytes(changed(content, unknown))
    with pytest.raises(ValueError, match=r"cannot be read by version.*os\.system"):
        load(path)

    def loop(text):
        text["entries"][0] = {"series": {"ref": 0}}

    path.write_bytes(changed(content, loop))
    with pytest.raises(ValueError, match="cannot be read"):
        load(path)

    def another_type(text):
        text["root"] = {"list": [1, 2]}

    path.write_bytes(changed(content, another_type))
    with pytest.raises(ValueError, match="it holds a list"):
        load(path)


def test_a_changed_bit_is_seen_or_means_nothing(fits):
    file = io.BytesIO()
    fits["ridge_em"].save(file)
    content, params = file.getvalue(), fits["ridge_em"].params
    rng = np.random.default_rng(0)
    for at in rng.integers(4, len(content), 60):
        broken = bytearray(content)
        broken[at] ^= 1 << int(rng.integers(8))
        try:
            found = load(io.BytesIO(broken)).params
        except ValueError as error:
            found = str(error)
        if isinstance(found, str):
            assert found.startswith("the file is")
        else:
            np.testing.assert_array_equal(found, params)


def test_a_file_is_numpys(fits, tmp_path):
    """As the documentation says: an archive that ``numpy.load`` opens."""
    fits["selection_exact"].save(tmp_path / "fit.npz")
    with np.load(tmp_path / "fit.npz") as arrays:
        text = json.loads(arrays["fit.json"])
        (entry,) = [one for one in text["entries"] if one.get("class") == "ep.model.hyperparameters.Hyperparameters"]
        place = text["entries"][entry["fields"]["prior_inclusion"]["ref"]]
        found = arrays[place["array"]][place["at"] : place["at"] + 3]
    np.testing.assert_array_equal(found, fits["selection_exact"].posterior.selection.hyper.prior_inclusion)
    assert text["format"] == portable.FORMAT


def test_selection_may_start_from_a_loaded_fit():
    frame = make.data()
    model = SpikeSlab(frame["y"], frame[["a", "b", "c"]])
    res, file = model.fit("ep", hyper="maximize"), io.BytesIO()
    res.save(file)
    file.seek(0)
    again = model.fit("ep", hyper="maximize", start=load(file))
    np.testing.assert_allclose(again.params, res.params, rtol=1e-4, atol=1e-6)

"""What a fit has to say is the same everywhere: warnings, summary, report, JSON and R."""

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pybayesridge
from pybayesridge import BayesRidge, Moments, PybayesridgeWarning, SpikeSlab, r_bridge
from pybayesridge.cli.as_json import as_json
from pybayesridge.findings import Finding
from tests.problems import regression

CONDITION = 1e-6
"""Of a condition number of 1e4 by the Gram matrix, relative."""


def arrays(noise=1.0):
    return regression(40, 4, noise=noise)


def nothing():
    return np.tile([1.0, -1.0], 10), np.repeat([1.0, -1.0], 10)[:, None]


def collinear():
    y, x = arrays()
    return y, np.column_stack([x, x[:, 0] + 1e-6 * x[:, 1]])


def nearly_collinear():
    y, x = arrays()
    return y, np.column_stack([x, x[:, 0] + 1e-3 * np.sin(np.arange(40))])


def of_moments(model, make, **fit):
    y, x = make()
    return model.from_moments(Moments.from_arrays(y, x)).fit(**fit)


CASES = {
    "no signal": (lambda: BayesRidge(*nothing(), prior=(1.0, 0.5)).fit("em"), {"no-signal"}),
    "constant y": (lambda: BayesRidge(np.ones(40), arrays()[1]).fit(), {"nothing-to-explain"}),
    "nothing varies": (lambda: BayesRidge(*arrays(), unpenalized=[0, 1, 2, 3]).fit(), {"nothing-to-shrink"}),
    "exact": (lambda: BayesRidge(arrays()[1] @ np.ones(4), arrays()[1]).fit(), {"exact-fit"}),
    "exact, moments": (
        lambda: of_moments(BayesRidge, lambda: (arrays()[1] @ np.ones(4), arrays()[1])),
        {"exact-fit"},
    ),
    "too few iterations": (lambda: BayesRidge(*arrays()).fit("em", accelerate=False, maxiter=1), {"not-converged"}),
    "coarse quadrature": (lambda: BayesRidge(*arrays()).fit("exact", tol=1e-15, maxiter=1), {"not-converged"}),
    "edge": (lambda: BayesRidge(*arrays()).fit("loocv", grid=[1e-3, 1e-4]), {"grid-edge"}),
    "digits, moments": (lambda: of_moments(BayesRidge, collinear, method="fixed", lam=1e-9), {"lost-digits"}),
    "digits, ep": (
        lambda: SpikeSlab.from_moments(Moments.from_arrays(*collinear()), slab_var=1e8, noise_var=1.0).fit(),
        {"lost-digits"},
    ),
    "several targets": (
        lambda: BayesRidge(np.column_stack([arrays()[0], np.ones(40)]), arrays()[1]).fit(),
        {"nothing-to-explain"},
    ),
    "collinear": (lambda: BayesRidge(*collinear()).fit(), set()),
    "nearly collinear": (lambda: BayesRidge(*nearly_collinear()).fit(), set()),
    "more columns than rows": (lambda: BayesRidge(*regression(6, 9)).fit(), set()),
    "constant y, ep": (lambda: SpikeSlab(np.ones(40), arrays()[1]).fit(), {"nothing-to-explain"}),
    "hardly any noise": (lambda: SpikeSlab(*arrays(noise=1e-8)).fit("exact"), {"little-noise"}),
    "hardly any noise, ep": (lambda: SpikeSlab(*arrays(noise=1e-8)).fit("ep"), {"little-noise"}),
    "too few iterations, ep": (lambda: SpikeSlab(*arrays()).fit("damped", maxiter=1), {"not-converged"}),
}


def made(case):
    """Results and the warnings of the fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = CASES[case][0]()
    return res, [w for w in caught if issubclass(w.category, PybayesridgeWarning)]


def in_words(text):
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("case", CASES)
def test_every_warning_is_a_finding(case):
    res, caught = made(case)
    raised = [found for found in res.findings if found.category is not None]
    assert CASES[case][1] <= {found.code for found in raised}
    assert [(str(w.message), w.category) for w in caught] == [(found.sentence, found.category) for found in raised]
    assert all(w.filename == __file__ for w in caught)
    for found in raised:
        assert found.severity == "warning"


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nearly collinear", "condition number of the standardised columns: "),
        ("collinear", "(linearly dependent)"),
        ("more columns than rows", "9 columns for 6 rows"),
        ("exact, moments", None),
        ("nothing varies", None),
        ("no signal", None),
    ],
)
def test_collinear_columns_are_a_finding(case, words):
    res, _ = made(case)
    found = [f.text for f in res.findings if f.code == "collinear"]
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


def test_columns_in_their_own_units_are_not_called_collinear():
    y, x = arrays()
    res = BayesRidge(y, x * [1.0, 1e3, 1e-3, 1.0], standardize=False).fit()
    assert res.condition_number > 1e3
    assert "collinear" not in [f.code for f in res.findings]


def test_the_condition_number_is_that_of_the_standardised_columns():
    y, x = nearly_collinear()
    res = BayesRidge(y, x).fit()
    assert res.condition_number == pytest.approx(np.linalg.cond((x - x.mean(axis=0)) / x.std(axis=0)), rel=CONDITION)
    assert float(res.diagnostics()["condition_number"]) == res.condition_number


@pytest.mark.parametrize("case", CASES)
def test_findings_are_in_the_summary(case):
    res, _ = made(case)
    text = in_words(str(res.summary()))
    for i, found in enumerate(res.findings, 1):
        label = "Warning: " if found.severity == "warning" else ""
        assert f"[{i}] {label}{found.sentence}" in text


@pytest.mark.parametrize("case", CASES)
def test_no_summary_shows_a_bare_infinity(case):
    res, _ = made(case)
    text = str(res.summary())
    assert not re.search(r"(?<![a-z])-?(inf|nan)(?![a-z])", text)
    infinite = isinstance(res.model, BayesRidge) and not np.isfinite([res.lambda_, res.tau2]).all()
    assert infinite == ("stands for infinity" in in_words(text))


@pytest.mark.parametrize("case", CASES)
def test_findings_are_in_the_report(case, tmp_path, monkeypatch):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("pybayesridge.report.figures.svg", lambda draw, number, height: "<svg></svg>")
    res, _ = made(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        page = res.report(tmp_path / "out.html").read_text(encoding="utf-8")
    for found in res.findings:
        words = found.sentence.replace("&", "&amp;").replace("'", "&#39;")
        assert f'<li class="{found.severity}">' in page
        assert f"{found.severity.capitalize()}</span> {words}</li>" in page


@pytest.mark.parametrize("case", CASES)
def test_findings_are_in_json(case):
    res, caught = made(case)
    if res.model.data.n_dropped or res.model.formula_spec is None:
        res.model.formula = "y ~ x"
    command = "ridge" if isinstance(res.model, BayesRidge) else "spikeslab"
    found = json.loads(json.dumps(as_json(res, command, alpha=0.05, warnings=[str(w.message) for w in caught])))
    assert found["findings"] == [
        {"code": f.code, "severity": f.severity, "text": f.text, "targets": list(f.targets)} for f in res.findings
    ]
    assert found["notes"] == [f.sentence for f in res.findings]
    assert set(found["warnings"]) <= set(found["notes"])


def test_findings_go_to_r_and_come_back_for_its_report():
    y, x = nothing()
    answer = r_bridge.bayes_ridge(
        y[:, None],
        x,
        x_names=["a"],
        y_names=["y"],
        from_formula=False,
        model={"prior": [1.0, 0.5]},
        fit={"method": "em"},
    )
    flat = answer["value"]["findings"]
    res, _ = made("no signal")
    assert flat["code"] == [f.code for f in res.findings]
    assert flat["severity"] == [f.severity for f in res.findings]
    assert flat["text"] == [f.sentence for f in res.findings]
    assert answer["warnings"] == [f.sentence for f in res.findings if f.category is not None]
    rows = [dict(zip(flat, row, strict=True)) for row in zip(*flat.values(), strict=True)]
    back = r_bridge.findings_of_r(rows)
    assert back == [Finding(f.code, f.severity, None, f.sentence) for f in res.findings]


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize(("family", "words"), [("gaussian", "precision weights"), ("binomial", "frequency weights")])
def test_weights_are_noted(model, family, words):
    y, x = arrays()
    y = y if family == "gaussian" else (y > np.median(y)).astype(float)
    for weights in (None, np.resize([1.0, 2.0], len(y))):
        res = model(y, x, family=family, weights=weights).fit("ep" if model is SpikeSlab else "em")
        found = [found.text for found in res.findings if found.code == "weights"]
        assert len(found) == (weights is not None)
        assert not found or words in in_words(str(res.summary()))


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_weights_of_moments_are_noted(model):
    y, x = arrays()
    for weights in (None, np.resize([1.0, 2.0], len(y))):
        res = model.from_moments(Moments.from_arrays(y, x, weights=weights)).fit("ep" if model is SpikeSlab else "em")
        assert ("weights" in [found.code for found in res.findings]) == (weights is not None)


def test_findings_are_a_frame_for_who_wants_one():
    res, _ = made("several targets")
    table = pd.DataFrame(res.findings)
    assert list(table.columns) == ["code", "severity", "category", "text", "targets"]
    assert table.set_index("code").loc["nothing-to-explain", "targets"] == ("y2",)
    assert "(target 'y2')" in res.notes[0]


def test_findings_stay_with_saved_results(tmp_path):
    res, _ = made("digits, moments")
    res.save(tmp_path / "fit", remove_data=True)
    assert pybayesridge.load(tmp_path / "fit").findings == res.findings


def test_nobody_sorts_findings_by_their_words():
    root = Path(pybayesridge.__file__).parent
    for path in (root / "report").rglob("*.py"):
        assert not re.search(
            r"""["'][^"']*["'] in (note|text|sentence)|endswith\(["'][^"']* """, path.read_text(encoding="utf-8")
        )
    for path in (root / "r_bridge.py", root / "cli" / "as_json.py"):
        assert not re.search(r"""\bin note\b|endswith\(""", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("code", [int, float, bool])
def test_a_yes_no_response_without_family_is_noted(model, code, tmp_path):
    y, x = arrays()
    res = model((y > np.median(y)).astype(code), x).fit()
    found = [note for note in res.findings if note.code == "yes-no-response"]
    assert [note.severity for note in found] == ["note"]
    assert "family='binomial'" in found[0].text
    res.save(tmp_path / "fit", remove_data=True)
    assert "yes-no-response" in [note.code for note in pybayesridge.load(tmp_path / "fit").findings]


def test_only_zeros_and_ones_are_yes_no_responses():
    y, x = arrays()
    up = (y > np.median(y)).astype(float)
    several = BayesRidge(np.column_stack([y, up, np.where(up, 1.0, 0.5), up * 0]), x)
    with pytest.warns(pybayesridge.DegenerateFitWarning):
        res = several.fit()
    assert [note.targets for note in res.findings if note.code == "yes-no-response"] == [("y2",)]
    for fit in (BayesRidge(y, x).fit(), BayesRidge(up, x, family="binomial").fit()):
        assert "yes-no-response" not in [note.code for note in fit.findings]

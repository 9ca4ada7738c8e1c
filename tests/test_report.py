"""Reports: one well-formed file that needs no network and says what the results say."""

import csv
import html
import io
import json
import pickle
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, cli
from tests.effort import number as number_of
from tests.effort import share
from tests.problems import regression

pytestmark = pytest.mark.usefixtures("short_runs")

jinja2 = pytest.importorskip("jinja2")
matplotlib = pytest.importorskip("matplotlib")

from pybayesridge.report.figures import WIDTH, svg  # noqa: E402
from pybayesridge.report.parts import table_of  # noqa: E402
from pybayesridge.ridge.loocv import leverages  # noqa: E402
from pybayesridge.text import number  # noqa: E402

SAME = 1e-12
"""The same numbers by another way through the code, beside the largest."""

REFIT = 1e-9
"""Rows left out one by one, or the fit made again from the report."""

LARGEST = 1_500_000
"""Bytes of a report of two thousand coefficients."""

VOID = {"meta", "link", "br", "img", "input", "hr", "wbr"}


class Reader(HTMLParser):
    """Checks nesting and ids, and collects what a test asks for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tables, self.text, self.hrefs = [], [], [], [], [], []
        self.goes_on = False
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        for href in self.hrefs:
            assert href.startswith("#")
            assert href[1:] in self.ids
        for link in self.links:
            assert link.startswith("data:image/png;base64,")

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        assert len(named) == len(attrs), (tag, attrs)
        if "id" in named:
            self.ids.append(named["id"])
        if "href" in named or "xlink:href" in named:
            href = named.get("href", named.get("xlink:href"))
            (self.links if tag == "image" else self.hrefs).append(href)
        assert "src" not in named
        self.hrefs += [f"#{name}" for value in named.values() for name in re.findall(r"url\(#([^)]*)\)", value or "")]
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append(named.get("data-value", ""))
        if tag not in VOID:
            self.open.append(tag)
        self.goes_on = tag == "wbr"

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            if self.goes_on:
                self.text[-1] += data
            else:
                self.text.append(data)
            self.goes_on = False
            if "th" in self.open and "table" in self.open:
                self.tables[-1][-1][-1] += data if self.open[-1] == "th" and "tbody" in self.open else data.strip()

    def said(self):
        return re.sub(r"\s+", " ", " ".join(self.text))

    def numbers(self, table=0):
        """A table as a frame."""
        head, *rows = self.tables[table]
        return pd.DataFrame(
            [[float(value) for value in row[1:]] for row in rows], index=[row[0] for row in rows], columns=head[1:]
        )


def report(res, folder, **options):
    path = res.report(folder / "out.html", **options)
    assert path == folder / "out.html"
    text = path.read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "")
    assert "@import" not in text
    return Reader(text)


def frame(n=60):
    y, x = regression(n, 3, noise=0.3)
    data = pd.DataFrame(x, columns=["a", "b", "<b>c</b>"])
    data["g"] = (["u", "v<script>", "w"] * n)[:n]
    data["w"] = np.linspace(1, 3, n)
    data["y"] = y
    return data


FORMULA = "y ~ a + b + C(g) + `<b>c</b>`"


def ridge(n=40, p=6, method="em", model=None, **fit):
    y, x = regression(n, p, noise=0.5)
    return BayesRidge(y, x, **(model or {})).fit(method, **fit)


def selection(n=60, p=6, model=None, method="ep", **fit):
    y, x = regression(n, p, noise=0.5)
    return SpikeSlab(y, x, **(model or {})).fit(method, **fit)


RIDGES = {
    "em": lambda: ridge(),
    "exact": lambda: ridge(method="exact"),
    "fixed": lambda: ridge(method="fixed", lam=2.0),
    "loocv": lambda: ridge(method="loocv"),
    "gcv": lambda: ridge(method="gcv"),
    "dual": lambda: ridge(15, 30, method="exact"),
    "weights": lambda: ridge(model={"weights": np.linspace(1, 3, 40), "unpenalized": ["x2"]}),
    "prior": lambda: ridge(model={"prior": (1.0, 2.0), "standardize": False}, dof="paper", parameterization="tau"),
    "half-cauchy": lambda: ridge(model={"prior": "half-cauchy"}),
    "scale": lambda: ridge(model={"prior": (0.5, 0.5, 0.25)}, method="exact"),
    "noise": lambda: ridge(model={"sigma2": 0.5, "intercept": False}),
    "formula": lambda: BayesRidge.from_formula(FORMULA, frame(), weights="w", unpenalized=["a"]).fit("exact"),
}
SELECTIONS = {
    "ep": lambda: selection(),
    "exact": lambda: selection(method="exact"),
    "sampled": lambda: selection(60, 16, method="exact", mcse=0.05, model={"noise_var": 1.0}),
    "pcep": lambda: selection(method="pcep"),
    "average": lambda: selection(hyper="average"),
    "given": lambda: selection(model={"prior_inclusion": 0.3, "slab_var": 1.0, "noise_var": 1.0}),
    "columns": lambda: selection(model={"prior_inclusion": np.linspace(0.1, 0.9, 6)}),
    "weights": lambda: selection(model={"weights": np.linspace(1, 3, 60), "unpenalized": ["x2"]}),
    "wide": lambda: selection(40, 90, model={"prior_inclusion": 0.1, "slab_var": 1.0, "noise_var": 1.0}),
    "zero": lambda: selection(model={"prior_inclusion": 0.0}),
    "formula": lambda: SpikeSlab.from_formula(FORMULA, frame()).fit(),
}


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("case", RIDGES)
def test_ridge(case, tmp_path):
    res = RIDGES[case]()
    page = report(res, tmp_path)
    assert "res = model.fit(" in page.said()
    table = page.numbers()
    assert set(table.index) == set(res.params.index)
    wanted = np.column_stack([res.params, res.bse, res.conf_int()])
    np.testing.assert_allclose(table.loc[res.params.index], wanted, rtol=SAME, atol=SAME)
    hyper = page.numbers(1)
    np.testing.assert_allclose(hyper, res.hyperparameters(), rtol=SAME)
    assert list(hyper.index) == list(res.hyperparameters().index)
    assert "Bayesian ridge regression of y" in page.said()
    assert number(res.loo_mse**0.5) in page.said()


@pytest.mark.filterwarnings("ignore:No penalised column varies")
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_without_penalised_coefficients_none_of_them_is_counted(family, tmp_path):
    data = frame().assign(y=lambda d: d.y > 0 if family == "binomial" else d.y)
    page = report(BayesRidge.from_formula("y ~ 1", data, family=family).fit(), tmp_path)
    assert not any("None of 0" in text for text in page.text)


def test_columns_of_a_table_are_written_alike():
    values = np.array([[0.99961, 1239000.0, 0.0412, np.inf], [1e-9, 49.15, 2.5e6, 0.0]])
    table = table_of("Caption", "name", ["share", "a", "b", "c"], ["r", "s"], values, shares=(0,))
    texts = [("1.000", "1,239,000", "0.04120", "–"), ("0.000", "49.15", "2,500,000", "0")]
    assert [row.texts for row in table.rows] == texts
    assert [row.values for row in table.rows] == [tuple(line) for line in values]
    long = table_of("Caption", "name", ["a"], ["r"] * 201, np.full((201, 1), 1239000.5))
    assert long.csv.splitlines()[1] == "r,1239000.5"


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("case", SELECTIONS)
def test_selection(case, tmp_path):
    res = SELECTIONS[case]()
    page = report(res, tmp_path, alpha=0.1)
    table = page.numbers()
    assert set(table.index) == set(res.params.index)
    wanted = [res.inclusion_prob, res.params, res.bse, res.cond_mean, np.sqrt(res.cond_var), res.conf_int(0.1)]
    np.testing.assert_allclose(table.loc[res.params.index], np.column_stack(wanted), rtol=SAME, atol=SAME)
    for name in res.median_model():
        assert name in page.said()
    groups = bool(res.group_members())
    if groups:
        of_group = page.numbers(1)["inclusion probability"]
        np.testing.assert_allclose(of_group, res.group_inclusion_prob[of_group.index], rtol=SAME, atol=SAME)
    exact = res.method == "exact"
    hyperparameters = page.numbers(1 + groups)
    means = hyperparameters["mean" if exact else "value"].iloc[1:3]
    np.testing.assert_allclose(means, [res.slab_var, res.noise_var], rtol=SAME, err_msg=case)
    if exact:
        wanted = res.hyperparameters(0.1)
        learned = [name in res.learned for name in wanted.index[:3]]
        sizes = ["size", "groups_included"][: 2 if groups else 1]
        ours = hyperparameters.set_axis(["prior_inclusion", "slab_var", "noise_var", "prior_share", *sizes])
        ours = ours.loc[wanted.index]
        np.testing.assert_allclose(ours[3:], wanted[3:], rtol=SAME)
        np.testing.assert_allclose(ours[:3][learned], wanted[:3][learned], rtol=SAME)
        assert ours[:3][np.invert(learned)].iloc[:, 1:].isna().all(axis=None)


@pytest.mark.usefixtures("sketched")
def test_reports_cite_the_method_that_was_used(tmp_path):
    """Expectation propagation, a sum over all sets, which needs no paper, or sampling."""
    said = {name: report(SELECTIONS[name](), tmp_path).said() for name in ("ep", "exact", "sampled")}
    assert "Spike-and-slab Priors. arXiv" in said["ep"]
    assert "Spike-and-slab Priors. arXiv" not in said["exact"] + said["sampled"]
    assert "It is a sum over all sets" in said["exact"]
    assert "Metropolis-Hastings" not in said["ep"] + said["exact"]
    assert "Sets were sampled from it by a Metropolis-Hastings algorithm in " in said["sampled"]


@pytest.mark.parametrize(
    ("make", "count"),
    share([(RIDGES["dual"], 8), (RIDGES["weights"], 8), (SELECTIONS["wide"], 9), (SELECTIONS["pcep"], 9)], 2),
)
def test_pictures_are_in_the_page(make, count, tmp_path):
    res = make()
    page = report(res, tmp_path)
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert text.count("<svg") == text.count("<figure>") == count
    assert text.count("currentColor") > 20 * count
    pictures = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert not [color for picture in pictures for color in re.findall(r"[: \"]#[0-9a-f]{6}\b", picture)]
    widths = {re.search(r'viewBox="0 0 (\S+) ', picture).group(1) for picture in pictures}
    assert widths == {f"{72 * WIDTH:g}"}
    assert "max-width" not in "".join(pictures)
    assert "fitted values" in page.said()


def spines(draw):
    """Whether the left, right and top spines of each Axes are drawn."""
    seen = []

    def drawn(ax):
        draw(ax=ax)
        for each in ax.figure.axes:
            seen.append(tuple(each.spines[side].get_visible() for side in ("left", "right", "top")))

    svg(drawn, 1, 4.0)
    return seen


def test_only_a_second_axis_has_a_right_spine():
    res = RIDGES["loocv"]()
    assert spines(res.plot_coefficients) == [(True, False, False)]
    assert spines(res.plot_residuals) == [(True, False, False)]
    assert [right for _, right, _ in spines(res.plot_lambda)] == [False, True]


def test_names_do_not_break_the_page(tmp_path):
    data = frame()
    data = data.rename(columns={"y": "y</title><script>alert(1)</script>"})
    res = BayesRidge.from_formula("`y</title><script>alert(1)</script>` ~ a + b + C(g) + `<b>c</b>`", data).fit()
    page = report(res, tmp_path, title="<i>title</i>", question="a < b & c?")
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<b>" not in text
    assert "alert(1)</script>" not in text
    assert "<i>title" not in text
    assert text.count("<script") == 1
    for said in ("<b>c</b>", "C(g)[T.v<script>]", "v<script>", "<i>title</i>", "a < b & c?"):
        assert said in page.said()


@pytest.mark.usefixtures("sketched")
def test_data_are_told(tmp_path):
    data = frame()
    data.loc[[3, 5], "a"] = np.nan
    data["flat"] = 2.0
    res = BayesRidge.from_formula(FORMULA + " + flat", data, weights="w", unpenalized=["b"]).fit()
    said = report(res, tmp_path).said()
    for text in (
        "58 used; 2 omitted (missing values)",
        "Intercept, b",
        "3 levels: u, v<script>, w (treatment coding, the first is the reference)",
        "precision weights, ",
        f"Formula {FORMULA} + flat",
        "Constant columns, coefficient 0 flat",
    ):
        assert text in said, text
    assert "Weights none" in report(ridge(), tmp_path).said()


@pytest.mark.usefixtures("sketched")
def test_the_recipe_is_in_the_page(tmp_path):
    res = RIDGES["weights"]()
    said = report(res, tmp_path).said()
    assert re.sub(r"\s+", " ", res.recipe.code) in said
    assert "weights : a weight for each row" in said
    assert "endog : the response" in said


@pytest.mark.parametrize("make", share([ridge, selection], 2))
def test_without_rows(make, tmp_path):
    res = make(model={"weights": np.linspace(1, 3, 40)}, n=40)
    full = report(res, tmp_path)
    res.save(tmp_path / "fit.pickle", remove_data=True)
    back = type(res).load(tmp_path / "fit.pickle")
    page = report(back, tmp_path)
    assert "do not contain the rows" in page.said()
    assert "precision weights (not with the results)" in page.said()
    assert "not with the results" not in full.said()
    assert "normal QQ plot" in full.said()
    assert "normal QQ plot" not in page.said()
    pd.testing.assert_frame_equal(page.numbers(), full.numbers(), rtol=SAME)
    again = report(pickle.loads(pickle.dumps(make(n=40))), tmp_path)
    assert "Weights none" in again.said()


def many_targets(q=12):
    y, x = regression(40, 4, noise=0.3)
    rng = np.random.default_rng(1)
    return BayesRidge(pd.DataFrame({f"t<{i}>": y + rng.normal(size=40) for i in range(q)}), x).fit()


@pytest.mark.usefixtures("sketched")
def test_many_targets(tmp_path):
    res = many_targets()
    page = report(res, tmp_path)
    overview = page.numbers()
    assert list(overview.index) == list(res.params.columns)
    np.testing.assert_allclose(overview["lambda"], res.lambda_, rtol=SAME)
    np.testing.assert_allclose(overview["R-squared"], res.rsquared, rtol=SAME)
    for i in range(10):
        name = f"t<{i}>"
        table = page.numbers(1 + 3 * i)
        np.testing.assert_allclose(table.loc[res.params.index, "mean"], res.params[name], rtol=SAME, atol=SAME)
        np.testing.assert_allclose(table.loc[res.params.index, "sd"], res.bse[name], rtol=SAME)
    assert len(page.tables) == 31
    assert "2 more targets appear only in the table of targets" in page.said()
    for target in ("t<7>", 7):
        one = report(res, tmp_path, target=target)
        table = one.numbers()
        np.testing.assert_allclose(table.loc[res.params.index, "mean"], res.params["t<7>"], rtol=SAME, atol=SAME)
        assert "regression of t<7>" in one.said()
        assert len(one.tables) == 3
    with pytest.raises(ValueError, match="target 'none' is not one of"):
        res.report(tmp_path / "out.html", target="none")


@pytest.mark.usefixtures("sketched")
def test_model_checks(tmp_path):
    data = frame().assign(up=lambda data: (data["y"] > data["y"].mean()).astype(int))
    yes_no = BayesRidge.from_formula("up ~ a + b", data, family="binomial").fit()
    for res, statistics in (
        (BayesRidge.from_formula("y ~ a + b", data).fit(), ["mean", "sd", "min", "max"]),
        (SpikeSlab.from_formula("y ~ a + b", data).fit("exact"), ["mean", "sd", "min", "max"]),
        (yes_no, ["mean"]),
    ):
        page = report(res, tmp_path, alpha=0.1)
        score, table = res.loo(), page.numbers(-1)
        assert (
            f"predictive score (elpd) is {score.elpd:,.1f}, with standard error {number(score.se, 2)}." in page.said()
        )
        wanted = res.ppc(statistics, alpha=0.1)
        assert table.index.tolist() == statistics
        assert "Each row was predicted from all other rows" in page.said()
        assert table["p"].to_numpy() == pytest.approx(wanted["p"])
        assert table.iloc[:, 3:].to_numpy() == pytest.approx(wanted[["lower", "upper"]].to_numpy())
    alone = data.assign(dummy=np.arange(len(data)) == 3)
    res = BayesRidge.from_formula("y ~ a + dummy", alone, unpenalized=["dummy"]).fit()
    said = report(res, tmp_path).said()
    assert "There is no leave-one-out predictive score: row 3 has no leave-one-out density" in said
    assert "Density of the observed response" in said


def test_many_coefficients(tmp_path):
    p = number_of(2000, 400)
    res = ridge(50, p)
    page = report(res, tmp_path)
    assert (tmp_path / "out.html").stat().st_size < LARGEST
    table = page.numbers()
    assert len(table) == 200
    assert f"The first 200 of {p + 1:,} rows are shown; all are below as CSV." in page.said()
    text = "".join(page.text)
    text = text[text.index("coefficient,mean") :].split("\n\n")[0]
    rows = list(csv.reader(io.StringIO(text)))[1 : p + 2]
    got = pd.DataFrame([[float(v) for v in row[1:]] for row in rows], index=[row[0] for row in rows])
    wanted = np.column_stack([res.params, res.bse, res.conf_int()])
    np.testing.assert_allclose(got.loc[res.params.index], wanted, rtol=SAME, atol=SAME)
    np.testing.assert_array_equal(got.index[:200], table.index)


@pytest.mark.usefixtures("sketched")
def test_path(tmp_path):
    res = ridge()
    path = tmp_path / "out.html"
    path.write_text("something else", encoding="utf-8")
    assert res.report(str(path)) == path
    assert isinstance(res.report(path), Path)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        res.report(tmp_path / "absent" / "out.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        res.report(tmp_path)
    for bad in (None, 3, "", io.StringIO()):
        with pytest.raises(ValueError, match="path must be the name of a file"):
            res.report(bad)
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        res.report(path, alpha=2)


def test_nothing_is_left_behind(tmp_path):
    from matplotlib import pyplot

    before, figures = dict(matplotlib.rcParams), pyplot.get_fignums()
    ridge().report(tmp_path / "out.html")
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == figures


@pytest.mark.usefixtures("sketched")
def test_warnings_are_told(tmp_path):
    with pytest.warns(match="NOT CONVERGED"):
        res = selection(model={"prior_inclusion": 0.3, "slab_var": 1.0, "noise_var": 1.0}, method="damped", maxiter=1)
    said = report(res, tmp_path).said()
    assert "Warning NOT CONVERGED" in said
    assert "has converged" not in said


@pytest.mark.usefixtures("sketched")
def test_degenerate_fits(tmp_path):
    y, x = regression(20, 3)
    with pytest.warns(match="unpenalised columns fit the response exactly"):
        res = BayesRidge(np.ones(20), x).fit()
    assert "nothing to explain" in report(res, tmp_path).said()
    with pytest.warns(match="least squares without noise"):
        res = BayesRidge(x @ np.ones(3), x).fit()
    assert "fit the response exactly" in report(res, tmp_path).said()
    with pytest.warns(match="No penalised column varies"):
        res = BayesRidge(y, x, unpenalized=[0, 1, 2]).fit()
    assert "nothing to shrink" in report(res, tmp_path).said()
    with pytest.warns(match="No signal"):
        res = BayesRidge(np.tile([1.0, -1.0], 10), np.repeat([1.0, -1.0], 10)[:, None], prior=(1.0, 0.5)).fit("em")
    assert "Warning No signal" in report(res, tmp_path).said()
    alone = np.zeros((20, 1))
    alone[4] = 1.0
    res = BayesRidge(y, np.hstack([x, alone]), unpenalized=[3]).fit()
    assert "1 row(s) cannot be predicted from the others" in report(res, tmp_path).said()


@pytest.mark.usefixtures("sketched")
def test_large_leverage_and_residual_are_named(tmp_path):
    y, x = regression(60, 3, noise=0.3)
    x[7] += 100 * x.std(axis=0)
    y[7] += 100.0
    y[12] += 300.0
    rows = pd.Index([f"row {i}" for i in range(60)])
    res = BayesRidge(pd.Series(y, index=rows, name="y"), pd.DataFrame(x, index=rows, columns=list("abc"))).fit()
    said = report(res, tmp_path).said()
    assert "1 row(s) have a leverage above 0.5: 'row 7'" in said
    assert "'row 12'" in said


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
@pytest.mark.parametrize("weighted", [False, True])
def test_leverage(shape, weighted):
    y, x = regression(*shape)
    w = np.linspace(1, 3, shape[0]) if weighted else np.ones(shape[0])
    w = w / w.mean()
    res = BayesRidge(y, x, weights=w).fit("fixed", lam=2.0)
    got = leverages(res.posterior.design, res.ridge_fit.spectrum, res.ridge_fit.log_t2)[:, 0]
    center = w @ x / w.sum()
    unit = np.sqrt(w @ (x - center) ** 2 / w.sum())
    z = np.sqrt(w)[:, None] * np.column_stack([np.ones(shape[0]), (x - center) / unit])
    hat = z @ np.linalg.solve(z.T @ z + np.diag([0.0] + [2.0] * shape[1]), z.T)
    np.testing.assert_allclose(got, np.diag(hat), rtol=REFIT)


def test_left_out_share():
    y, x = regression(25, 4)
    w = np.linspace(1, 3, 25)
    res = BayesRidge(y, x, weights=w).fit()
    others = np.array([np.average(np.delete(y, i), weights=np.delete(w, i)) for i in range(25)])
    wanted = 1 - w @ np.asarray(res.loo_residuals) ** 2 / (w @ (y - others) ** 2)
    np.testing.assert_allclose(res.loo_rsquared, wanted, rtol=REFIT)


@pytest.mark.usefixtures("sketched")
@pytest.mark.usefixtures("sketched")
def test_citations_are_those_of_the_package(tmp_path):
    text = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    titles = re.findall(r'title: "(.*)"', text)
    assert len(titles) >= 2
    said = "".join(report(res, tmp_path).said() for res in (ridge(), selection(), SELECTIONS["sampled"]()))
    for title in titles:
        if title != "Advances in Neural Information Processing Systems":
            assert title in said


def test_templates_are_in_the_package():
    files = {file.name for file in (resources.files("pybayesridge") / "templates").iterdir()}
    assert {"report.html.j2", "formulas.html.j2", "report.css", "report.js"} <= files


def test_missing_jinja_is_named(tmp_path):
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from pybayesridge import BayesRidge; import numpy as np\n"
        "x = np.arange(12.0).reshape(6, 2) ** 1.5\n"
        "res = BayesRidge(x[:, 0] + np.array([1.0, -1, 2, 0, 1, 0]), x[:, [1]]).fit()\n"
        f"try:\n    res.report({str(tmp_path / 'out.html')!r})\nexcept ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pybayesridge[report]'" in out.stdout
    assert not (tmp_path / "out.html").exists()


CLICK = """(() => {
  const head = document.querySelectorAll("table.sortable thead th")[1];
  const body = document.querySelector("table.sortable tbody");
  const order = () => Array.from(body.rows, (row) => Number(row.cells[1].dataset.value));
  head.click();
  const down = order(), first = head.getAttribute("aria-sort");
  head.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  return [down, first, order(), head.getAttribute("aria-sort")];
})()"""


def test_numbers_of_one_kind_are_written_alike():
    values = np.array([[1.8786, 0.08835, 1.879, 0.01794], [-0.2573, 0.0179, -0.1768, 0.0925]])
    table = table_of("", "", list("abcd"), list("xy"), values, alike=((0, 2), (1, 3)))
    assert [row.texts for row in table.rows] == [
        ("1.879", "0.08835", "1.879", "0.01794"),
        ("-0.257", "0.01790", "-0.177", "0.09250"),
    ]
    across = table_of("", "", list("ab"), list("xy"), np.array([[24.8903, 1468.0], [0.0402, 0.3025]]), by_row=True)
    assert [row.texts for row in across.rows] == [("24.9", "1,468.0"), ("0.0402", "0.3025")]


@pytest.mark.usefixtures("sketched")
def test_few_false_columns_are_not_counted_in_powers_of_ten(tmp_path):
    y, x = regression(60, 4, noise=0.01)
    said = report(SpikeSlab(y, x).fit(), tmp_path).said()
    assert "of which fewer than 0.01 are expected to be false" in said
    assert "Unpenalised coefficients stand first, the others are ordered by inclusion probability." in said


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_effects(family, tmp_path):
    data = frame().assign(y=lambda d: d.y if family == "gaussian" else (d.y > d.y.median()).astype(float))
    res = BayesRidge.from_formula("y ~ np.exp(a / 4) + a:b + C(g)", data, family=family).fit()
    page = report(res, tmp_path)
    place = next(i for i, rows in enumerate(page.tables) if rows[0][0] == "variable and change")
    got, wanted = page.numbers(place), res.effects()
    assert set(got.index) == {f"{variable}, {change}" for variable, change in wanted.index}
    for variable, change in wanted.index:
        row = got.loc[f"{variable}, {change}", ["mean", "sd", "P(positive)", "2.5 %", "97.5 %"]]
        columns = ["mean", "sd", "prob_positive", "lower", "upper"]
        np.testing.assert_allclose(row, wanted.loc[(variable, change), columns].astype(float), rtol=SAME)
    assert "causal only if the model is" in page.said()
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert text.count("Prediction over ") == 2 * 3


@pytest.mark.usefixtures("sketched")
def test_variables_without_a_derivative_are_named(tmp_path):
    res = BayesRidge.from_formula("y ~ np.floor(4 * a) + C(g)", frame()).fit()
    said = report(res, tmp_path).said()
    assert "the formula has no derivative with respect to 'a' everywhere" in said
    assert "g, v<script> - u" in said


def in_browser(path, script, width=1000):
    """The value of a JavaScript expression on the page, which the page's title hands over."""
    added = f"<script>document.title = JSON.stringify({script});</script></body>"
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", added), encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={path.parent / 'profile'}"]
    out = subprocess.run(
        ["chromium", *options, f"--window-size={width},900", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", out.stdout).group(1)))


NARROW = """(() => {
  const seen = () => Array.from(document.querySelectorAll("table.sortable")[0].tBodies[0].rows)
    .filter((row) => row.getBoundingClientRect().height > 0).length;
  const before = seen(), button = document.querySelector("button.all"), text = button.textContent;
  button.click();
  return [before, text, seen(), Array.from(document.querySelectorAll(".hint"), (hint) => hint.hidden)];
})()"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
@pytest.mark.usefixtures("sketched")
def test_long_and_wide_tables_in_a_browser(tmp_path):
    y, x = regression(60, 40, noise=0.5)
    res = SpikeSlab(y, x, prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    before, text, after, hidden = in_browser(res.report(tmp_path / "out.html"), NARROW, 500)
    assert (before, text, after) == (25, "Show all 41 rows", 41)
    assert hidden[0] is False
    hidden = in_browser(res.report(tmp_path / "wide.html"), NARROW, 1200)[3]
    assert hidden[0] is True


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
def test_sorting_in_a_browser(tmp_path):
    res = ridge()
    down, first, up, second = in_browser(res.report(tmp_path / "out.html"), CLICK)
    np.testing.assert_allclose(down, np.sort(res.params)[::-1], rtol=SAME)
    np.testing.assert_allclose(up, np.sort(res.params), rtol=SAME)
    assert (first, second) == ("descending", "ascending")


def test_the_demo_writes_both_reports(tmp_path, capsys):
    assert cli.main(["demo", "--report", str(tmp_path / "demo.html")]) == 0
    out = capsys.readouterr().out
    for name, family in (("ridge", "BayesRidge, method"), ("spikeslab", "SpikeSlab, method")):
        file = tmp_path / f"demo-{name}.html"
        assert str(file) in out
        text = file.read_text(encoding="utf-8")
        assert "TOTEMP" in text
        assert family in text
    assert not (tmp_path / "demo.html").exists()
    condition = re.search(r"condition number of the standardised columns: ([^)]*)\)", out).group(0)
    assert condition in (tmp_path / "demo-ridge.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize(
    ("prior", "formula", "words"),
    [
        ("r2", "t / (1 + t) is Beta(1/2, 1/2)", "A priori the share of variance"),
        ("half-cauchy", "tau is half-Cauchy", "A priori tau, one over the square root of lambda, is half-Cauchy"),
        ((0.5, 0.5), "tau is half-Cauchy", "A priori tau, one over the square root of lambda, is half-Cauchy"),
        ((1.0, 2.0), "tau squared is beta prime", "The prior of the penalty was given"),
        ((0.5, 0.5, 0.25), "tau squared over 0.25 is beta prime", "The prior of the penalty was given"),
    ],
)
def test_prior_in_formulas_and_words(prior, formula, words, tmp_path):
    res = ridge(model={"prior": prior}, method="exact")
    said = report(res, tmp_path).said()
    assert words in said
    text = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert formula in text
    assert ("prior=" in said) is (prior != "r2")
    assert prior == "r2" or f"prior={prior!r}" in said
    given = ridge(model={"prior": prior}, method="fixed", lam=1.0)
    assert "priori" not in report(given, tmp_path).said()


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize(
    ("family", "bands", "told"),
    [
        ("gaussian", None, "b is normal with mean 0 and variance tau squared sigma squared;"),
        ("gaussian", ["u", "v"], "of band k are normal with mean 0 and variance tau k squared sigma squared&#34;"),
        ("binomial", ["u", "v"], "of band k are normal with mean 0 and variance tau k squared&#34;"),
        ("ordinal", ["u", "v"], "of band k are normal with mean 0 and variance tau k squared&#34;"),
        ("negative-binomial", None, "log(1 + 1/m + α) with m the mean count and α the dispersion"),
        ("student-t", None, "c: the squared scale of the noise."),
    ],
)
def test_variances_in_formulas_are_those_of_the_family(family, bands, told, tmp_path):
    X, given = np.resize([0.0, 1.0, 3.0, -1.0, 2.0, -2.0, 0.5], (30, 2)), {"negative-binomial": {"dispersion": 0.5}}
    y = np.resize([0.0, 1.0] if family == "binomial" else [0.0, 1.0, 2.0], 30)
    model = BayesRidge(y, X, family=family, bands=bands, **given.get(family, {"df": 4.0} if family[0] == "s" else {}))
    said = report(model.fit("exact" if family == "gaussian" else "laplace"), tmp_path).said()
    text = (tmp_path / "out.html").read_text(encoding="utf-8").replace('"', "&#34;")
    assert told in text
    assert said.count(model.distribution.model_in_words) == 1

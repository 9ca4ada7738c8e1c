"""The export of a fit: that of the stored golden files, which R reads too, and what its formulas give."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.families.poisson import PoissonFamily
from pybayesridge.results import export as exports
from pybayesridge.results import export_fields
from pybayesridge.sites import posterior as sites_posterior

GOLDEN = Path(__file__).parents[1] / "r-wrapper/tests/testthat/golden"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))

QUADRATURE = 1e-5
"""Yes/no responses: expectation propagation stops at 1e-6 standard deviations, with rounding errors on the way."""

SAME = 1e-7
"""EP stops at 1e-4 of a scale-free residual, which it meets at the same iteration: then only rounding is left."""

CONTAINED = 1e-8
"""Error of a probability at a quantile."""

LINEAR = 1e-9
"""Error of means and standard deviations from the formulas, relative to the largest."""

# Singular vectors have any sign, and which nodes of no weight are kept may depend on rounding.
OF_COORDINATES = {"posterior.node_mean", "posterior.node_root", "posterior.center", "posterior.covariance"}
UP_TO_SIGN = {"posterior.right", "posterior.z", "posterior.base"} | OF_COORDINATES
NODES = {"posterior.weight", "posterior.noise", "posterior.log_t2"}
# Likewise the points of tables, between which rounding decides whether there is another one.
OF_TABLES = {"posterior.node_of", "components.points", "components.scores", "components.sizes"}
POINTS = {"posterior.log_t2_from", "posterior.log_t2_to", "posterior.log_t2_points"}
# A run of the sampler may take another way on another processor: then these agree within Monte Carlo errors.
SAMPLED = {"sets_sampled", "sets_binomial", "sets_probit"}
ERRORS = 6.0
"""Standard errors of the difference of two runs."""
UNFINISHED = 0.05
"""Least standard error of a run as short as the stored one, whose own estimates of it are rough."""

AN_ATOM = 1e-9
"""Width of a point of probability, of a posterior without an intercept."""

# Rounding errors, sentences whose words may change, and the work that it took: rounding decides on the last steps.
NOT_COMPARED = {"resid", "quadrature_error", "residual", "findings", "n_iter"}

specification = importlib.util.spec_from_file_location("make_golden", GOLDEN / "make_golden.py")
assert specification is not None
assert specification.loader is not None
golden = importlib.util.module_from_spec(specification)
specification.loader.exec_module(golden)
CASES = golden.cases()


def stored(name):
    return golden.decoded(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))


LATTICES = 5e-3
"""Error of integrals over lattices, relative to the largest; of means in posterior standard deviations."""


def assert_same(ours, theirs, what, tolerance=SAME, least=0.0):
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape, what
    finite = np.isfinite(theirs)
    np.testing.assert_array_equal(ours[~finite], theirs[~finite], err_msg=what)
    size = np.abs(theirs[finite]).max(initial=least)
    np.testing.assert_allclose(ours[finite], theirs[finite], rtol=0, atol=tolerance * size, err_msg=what)


def test_every_case_has_its_file():
    assert sorted(CASES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_exports_and_answers_are_the_golden_ones(name):
    ours, theirs = golden.made(*CASES[name]), stored(name)
    export_fields.check(ours["export"])
    export_fields.check(theirs["export"])
    new, old = (dict(export_fields.flat(made["export"])) for made in (ours, theirs))
    assert set(new) == set(old)
    if name in SAMPLED:
        error = np.hypot(np.hypot(new["inclusion_se"], old["inclusion_se"]), UNFINISHED)
        assert (np.abs(new["inclusion_prob"] - old["inclusion_prob"]) <= ERRORS * error).all()
        return
    if {"posterior.entries", "posterior.log_shape", "codes"} & set(old):
        # Where the search of the mode ends, from which nodes are laid, depends on the last digits; so does how far a
        # dispersion is looked at.
        compared = {"params", "bse", "conf_int", "prediction", "prediction_mean", "probabilities", "cut_points"}
        for what in compared & set(theirs["answers"]):
            tolerance = QUADRATURE if "codes" in old else LATTICES
            unit = (
                np.asarray(theirs["answers"]["bse"])
                if what == "params" and np.isfinite(theirs["answers"]["bse"]).all()
                else 1.0
            )
            assert_same(
                ours["answers"][what] / unit, theirs["answers"][what] / unit, what, tolerance, float(what == "params")
            )
        return
    binary = "link" in old
    tolerance = QUADRATURE if binary else SAME
    for field, value in old.items():
        if field in UP_TO_SIGN:
            assert_same(np.abs(new[field]), np.abs(value), field, tolerance)
        elif field in NODES | POINTS | OF_TABLES | NOT_COMPARED:
            continue
        elif field == "components.sd":
            # Of a variance that is known: the root of what rounding errors leave.
            assert_same(new[field], value, field, tolerance, np.abs(old["components.mean"]).max())
        elif isinstance(value, float | np.ndarray):
            assert_same(new[field], value, field, tolerance)
        else:
            assert new[field] == value, field
    if "posterior.right" in old and not binary:
        for field in NODES:
            means = [(made["posterior.weight"] * np.nan_to_num(made[field])).sum(axis=0) for made in (new, old)]
            assert_same(*means, field)
    for what, value in theirs["answers"].items():
        assert_same(ours["answers"][what], value, what, tolerance)


SOME_NODES = 1e-3
"""What nodes that are left out carry: thousands of a weight below 1e-7."""


def test_averages_over_degrees_of_freedom_are_with_their_probabilities(monkeypatch):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((20, 2))
    results = BayesRidge(x[:, 0] + rng.standard_t(2, 20), x, family="student-t").fit("laplace")
    post, shape = exports.export(results)["posterior"], results.sites_fit.shape
    sigma = results.hyperparameters()["mean"]["sigma"]
    assert_same(post["weight"][:, 0] @ np.exp(post["log_shape"]), sigma, "scale", SOME_NODES)
    probabilities = [post["weight"][post["form"] == form, 0].sum() for form in post["forms"]]
    assert_same(probabilities, shape.share, "degrees of freedom", SOME_NODES)
    monkeypatch.setattr(sites_posterior, "MOST_OF_NODES", 1000)
    with pytest.raises(ValueError, match=r"too large for R: give 'df'"):
        exports.export(results)


@pytest.mark.parametrize("name", NAMES)
def test_the_formulas_give_means_deviations_and_intervals_of_rows(name):
    made = stored(name)
    post, rows, alpha = made["export"]["posterior"], made["rows"], 1 - made["level"]
    if name.removeprefix("bands_").startswith(("binomial", "poisson", "negative", "beta", "student")):
        the_same_of_generalized(made, post, rows, alpha)
        return
    if "codes" in made["export"]:
        the_same_of_categories(made, post, rows, alpha)
        return
    if "state_mean" in post:
        the_same_of_states(made, post, rows, alpha)
        return
    if "flat_mean" in post:
        the_same_of_columns_given_rows(made, post, rows, alpha)
        return
    if made["export"]["intercept_added"]:
        rows = np.column_stack([np.ones(len(rows)), rows])
    z, x = (rows[:, post[at].astype(int) - 1] for at in ("z_at", "at"))
    v = (x - z @ post["on_z"]) / post["scale"]
    for target, answer in enumerate(np.moveaxis(made["answers"]["prediction"], 1, 0)):
        where, scale2 = at_nodes(post, v, z, target)
        weight, noise = post["weight"][:, target], post["noise"][:, target]
        base, unit = z @ post["y_on_z"][:, target], post["y_norm"][target]
        df = post["df"]
        factor = 1.0 if np.isinf(df) else df / (df - 2)
        mean = weight @ where
        if name in SAMPLED:
            # Means are those of all steps, not of the states that were kept.
            assert_same(rows @ made["export"]["params"][:, target], answer[:, 0], "mean", LINEAR)
        else:
            assert_same(base + unit * mean, answer[:, 0], "mean", LINEAR)
        variance = weight @ (factor * scale2 + (where - mean) ** 2)
        assert_same(unit * np.sqrt(variance), answer[:, 1], "mean_se", LINEAR)
        for column, probability in enumerate([alpha / 2, 1 - alpha / 2] * 2, start=2):
            spread = np.sqrt(scale2 + (noise[:, None] if column > 3 else 0.0))
            at = (answer[:, column] - base) / unit
            point = spread == 0
            below = stats.t.cdf((at - where) / np.where(point, 1.0, spread), df)
            least = weight @ np.where(point, at > where + AN_ATOM, below)
            most = weight @ np.where(point, at >= where - AN_ATOM, below)
            assert (least <= probability + CONTAINED).all()
            assert (most >= probability - CONTAINED).all()


def the_same_of_generalized(made, post, rows, alpha):
    rows = np.column_stack([np.ones(len(rows)), rows])
    z, x = (rows[:, post[at].astype(int) - 1] for at in ("z_at", "at"))
    v = (x - z @ post["on_z"]) / post["scale"]
    right = post.get("right", np.eye(v.shape[1]))
    c = np.column_stack([z @ post["z_root"], v @ right])
    outside = ((v - v @ right @ right.T) ** 2).sum(axis=1) if right.shape[1] < len(right) else np.zeros(len(v))
    roots = post["node_root"].reshape(-1, c.shape[1], c.shape[1])
    where = post["node_mean"] @ c.T
    scale2 = ((c @ roots.transpose(0, 2, 1)) ** 2).sum(axis=2) + np.exp(post.get("log_t2", 0.0)) * outside
    linear, share = (made["answers"][f"prediction_{which}"] for which in ("linear", "mean"))
    means = {"probit": stats.norm.cdf, "logit": stats.logistic.cdf, "log": np.exp, "identity": np.asarray}
    mean_of = means[made["export"]["link"]]
    if post["has_mean"]:
        assert_same(c @ post["center"], linear[:, 0], "mean", LINEAR)
    if post["has_variance"]:
        variance = ((c @ post["covariance"]) * c).sum(axis=1) + np.where(
            outside > 0, post.get("mean_t2", 0.0) * outside, 0.0
        )
        assert_same(np.sqrt(variance), linear[:, 1], "sd", LINEAR)
    points = np.linspace(-12, 12, 4001)
    probabilities = {2: alpha / 2, 3: 1 - alpha / 2}
    if made["export"]["link"] == "log":
        probabilities[0] = 0.5
        linear[:, 0] = np.log(share[:, 0])
    else:
        grid = mean_of(where[..., None] + np.sqrt(scale2)[..., None] * points)
        mean = post["weight"][:, 0] @ (grid @ stats.norm.pdf(points)) * (points[1] - points[0])
        assert_same(mean, share[:, 0], "probability", QUADRATURE)
    for column, probability in probabilities.items():
        below = post["weight"][:, 0] @ stats.norm.cdf((linear[:, column] - where) / np.sqrt(scale2))
        np.testing.assert_allclose(below, probability, atol=QUADRATURE)
        assert_same(mean_of(linear[:, column]), share[:, column], "quantile", LINEAR)


def the_same_of_categories(made, post, rows, alpha):
    """Cut points are columns after those of the coefficients, and a category lies between two of them."""
    k, count = len(made["export"]["names"]), len(made["export"]["categories"]) - 1
    cuts = np.hstack([np.zeros((count, k)), np.eye(count)])
    rows = np.hstack([rows, np.zeros((len(rows), count))])
    linear, cut_points = made["answers"]["prediction_linear"], made["answers"]["cut_points"]
    weight = post["weight"][:, 0]
    for ext, answer in ((rows, linear), (cuts, cut_points)):
        where, scale2 = in_coordinates(post, ext)
        if post["has_mean"]:
            assert_same(weight @ where, answer[:, 0], "mean", QUADRATURE)
        if post["has_variance"]:
            assert_same(np.sqrt(weight @ (scale2 + (where - weight @ where) ** 2)), answer[:, 1], "sd", QUADRATURE)
        for column, probability in ((2, alpha / 2), (3, 1 - alpha / 2)):
            below = weight @ stats.norm.cdf((answer[:, column] - where) / np.sqrt(scale2))
            np.testing.assert_allclose(below, probability, atol=QUADRATURE)
    points, distribution = (
        np.linspace(-12, 12, 4001),
        stats.norm if made["export"]["link"] == "probit" else stats.logistic,
    )
    up_to = [np.zeros(len(rows))]
    for cut in cuts:
        where, scale2 = in_coordinates(post, cut - rows)
        grid = distribution.cdf(where[..., None] + np.sqrt(scale2)[..., None] * points)
        up_to.append(weight @ (grid @ stats.norm.pdf(points)) * (points[1] - points[0]))
    up_to.append(np.ones(len(rows)))
    assert_same(np.diff(up_to, axis=0).T, made["answers"]["probabilities"], "probability", QUADRATURE)


def in_coordinates(post, rows):
    """Means and variances (K, m) of linear functions of coefficients and cut points at the nodes."""
    z, x = (rows[:, post[at].astype(int) - 1] for at in ("z_at", "at"))
    v = (x - z @ post["on_z"]) / post["scale"]
    right = post.get("right", np.eye(v.shape[1]))
    c = np.column_stack([z @ post["z_root"], v @ right])
    outside = ((v - v @ right @ right.T) ** 2).sum(axis=1)
    roots = post["node_root"].reshape(-1, c.shape[1], c.shape[1])
    scale2 = ((c @ roots.transpose(0, 2, 1)) ** 2).sum(axis=2) + np.exp(post.get("log_t2", 0.0)) * outside
    return post["node_mean"] @ c.T, scale2


def the_same_of_states(made, post, rows, alpha):
    rows = np.column_stack([np.ones(len(rows)), rows])
    z, x = (rows[:, post[at].astype(int) - 1] for at in ("z_at", "at"))
    v = (x - z @ post["on_z"]) / post["scale"]
    ends, u = np.cumsum(post["set_size"]).astype(int), z.shape[1]
    where, scale2, at, root_at = [], [], 0, 0
    for number in post["state_set"].astype(int) - 1:
        size = int(post["set_size"][number])
        inside = post["visited"][post["set_columns"][ends[number] - size : ends[number]].astype(int) - 1].astype(int)
        c, m = np.column_stack([z @ post["z_root"], v[:, inside - 1]]), u + size
        root = post["state_root"][root_at : root_at + m * m].reshape(m, m, order="F")
        where.append(c @ post["state_mean"][at : at + m])
        scale2.append(((c @ root) ** 2).sum(axis=1))
        at, root_at = at + m, root_at + m * m
    where, scale2, weight = np.array(where), np.array(scale2), post["weight"][:, 0]
    linear, share = (made["answers"][f"prediction_{which}"] for which in ("linear", "mean"))
    mean_of = {"probit": stats.norm.cdf, "logit": stats.logistic.cdf, "log": np.exp}[made["export"]["link"]]
    assert_same(rows @ made["export"]["params"][:, 0], linear[:, 0], "mean", LINEAR)
    assert_same(np.sqrt(weight @ (scale2 + (where - weight @ where) ** 2)), linear[:, 1], "sd", LINEAR)
    points = np.linspace(-12, 12, 2001)
    grid, density = mean_of(where[..., None] + np.sqrt(scale2)[..., None] * points), stats.norm.pdf(points)
    first, second = (weight @ (part @ density) * (points[1] - points[0]) for part in (grid, grid**2))
    assert_same(first, share[:, 0], "probability", QUADRATURE)
    assert_same(np.sqrt(second - first**2), share[:, 1], "its sd", QUADRATURE)
    for column, probability in ((2, alpha / 2), (3, 1 - alpha / 2)):
        below = weight @ stats.norm.cdf((linear[:, column] - where) / np.sqrt(scale2))
        np.testing.assert_allclose(below, probability, atol=CONTAINED)
        assert_same(mean_of(linear[:, column]), share[:, column], "quantile", LINEAR)


def the_same_of_columns_given_rows(made, post, rows, alpha):
    if made["export"]["intercept_added"]:
        rows = np.column_stack([np.ones(len(rows)), rows])
    z, x = (rows[:, post[at].astype(int) - 1] for at in ("z_at", "at"))
    v, flat, (u, p) = (x - z @ post["on_z"]) / post["scale"], z @ post["z_root"], (z.shape[1], x.shape[1])
    where, scale2 = np.empty((2, post["weight"].size, len(rows)))
    for i in range(post["weight"].size):
        # The covariance of all coordinates at once.
        root, at = post["root"][post["root_of"] == i + 1], slice(i * u, (i + 1) * u)
        own = np.diag(post["own"][i]) + (root.T * post["root_sign"][post["root_of"] == i + 1]) @ root
        lift = np.vstack([-post["flat_slope"][at], np.eye(p)])
        covariance = lift @ own @ lift.T
        covariance[:u, :u] += post["flat_root"][at] @ post["flat_root"][at].T
        c = np.column_stack([flat, v])
        where[i] = c @ np.r_[post["flat_mean"][i] - post["flat_slope"][at] @ post["mean"][i], post["mean"][i]]
        scale2[i] = np.einsum("ij,jk,ik->i", c, covariance, c)
    weight, linear = post["weight"][:, 0], made["answers"]["prediction_linear"]
    assert_same(weight @ where, linear[:, 0], "mean", LINEAR)
    assert_same(np.sqrt(weight @ (scale2 + (where - weight @ where) ** 2)), linear[:, 1], "sd", LINEAR)
    for column, probability in ((2, alpha / 2), (3, 1 - alpha / 2)):
        below = weight @ stats.norm.cdf((linear[:, column] - where) / np.sqrt(scale2))
        np.testing.assert_allclose(below, probability, atol=CONTAINED)


def at_nodes(post, v, z, target):
    leverage = ((z @ post["z_root"]) ** 2).sum(axis=1)
    noise = post["noise"][:, target]
    extra = np.outer(noise, leverage)
    if "set_size" in post:
        return at_states(post, v, noise[:, None], leverage)
    if "base" in post:
        return at_shares(post, v, extra, target)
    if "entries" in post:
        return at_covariances(post, v, extra, target)
    if "right" not in post:
        scale2 = post["own"] @ (v**2).T + extra
        for of, sign, row in zip(post["root_of"], post["root_sign"], post["root"], strict=True):
            scale2[int(of) - 1] += sign * (v @ row) ** 2
        for i, of in enumerate(post.get("lower_of", [])):
            n = len(post["rows"])
            inner = post["rows"] @ (post["own"][int(of) - 1] * v).T
            half = np.linalg.solve(post["lower"][i * n : (i + 1) * n], inner)
            scale2[int(of) - 1] -= (half**2).sum(axis=0)
        return post["mean"] @ v.T, scale2
    s, log_t2, c = post["s"], post["log_t2"][:, target], v @ post["right"]
    e = s**2 / (s**2 + np.exp(-log_t2)[:, None])
    outside = ((v - c @ post["right"].T) ** 2).sum(axis=1)
    scale2 = noise[:, None] * ((e / s**2) @ (c**2).T) + extra
    if s.size < v.shape[1]:
        scale2 += np.outer(noise * np.exp(log_t2), outside)
    return (e * post["z"][:, target] / s) @ c.T, scale2


def at_shares(post, v, extra, target):
    where, scale2 = np.empty((2, *extra.shape))
    for node in np.unique(post["node_of"]):
        at, factor = post["node_of"] == node, post["factors"][int(node) - 1, post["band"].astype(int) - 1]
        left, s, right = np.linalg.svd(post["base"] * factor, full_matrices=False)
        part = {"s": s, "right": right.T, "z": left.T @ post["z"]}
        part |= {name: post[name][at] for name in ("noise", "log_t2")} | {"z_root": np.zeros((0, 0))}
        where[at], scale2[at] = at_nodes(part, v * factor, np.zeros((len(v), 0)), target)
    return where, scale2 + extra


def at_covariances(post, v, extra, target):
    where, scale2 = np.empty((2, *extra.shape))
    band = post["band"].astype(int)
    for m, values in enumerate(post["entries"]):
        root = np.zeros((band.size, band.size))
        for i, j, value in zip(post["entry_row"], post["entry_column"], values, strict=True):
            root[np.flatnonzero(band == i), np.flatnonzero(band == j)] = value
        half = np.linalg.solve(root.T @ post["gram"] @ root + np.eye(band.size), root.T @ v.T)
        where[m] = half.T @ root.T @ post["gram_y"][:, target]
        scale2[m] = post["noise"][m, target] * ((root.T @ v.T) * half).sum(axis=0)
    return where, scale2 + extra


LEFT_OUT = ("bse", "fittedvalues", "resid", "right", "rows")

PRODUCTS = 1e-10
"""Error of what the rows give, relative to the largest; singular vectors are divided by singular values."""


def wide_fit(model, **arguments):
    rng = np.random.default_rng(4)
    x = rng.normal(5.0, 2.0, (20, 70))
    weights = rng.uniform(0.5, 2.0, 20)
    return model(x[:, 0] + rng.standard_normal(20), x, weights=weights, unpenalized=[3], **arguments), x


def standardized(post, x, weights):
    """The weighted rows without the intercept and the column 3."""
    z = np.column_stack([np.ones(len(x)), x[:, 3]])
    rows = (np.delete(x, 3, axis=1) - z @ post["on_z"]) / post["scale"]
    return rows * np.sqrt(weights / weights.mean())[:, None]


def test_a_ridge_without_what_the_data_give():
    model, x = wide_fit(BayesRidge)
    results = model.fit()
    whole, small = (dict(export_fields.flat(exports.export(results, without))) for without in ((), LEFT_OUT))
    export_fields.check(exports.export(results, LEFT_OUT))
    assert set(whole) - set(small) == {"bse", "fittedvalues", "resid", "posterior.right", "posterior.outside"}
    assert set(small) - set(whole) == {"posterior.half"}
    assert all(np.array_equal(small[name], value) for name, value in whole.items() if name in small)
    rows = standardized(exports.export(results)["posterior"], x, model.weights)
    assert_same(rows.T @ small["posterior.half"], whole["posterior.right"], "right", PRODUCTS)


def test_singular_vectors_that_are_no_products_with_the_rows_are_exported():
    x = np.random.default_rng(5).standard_normal((10, 20)) * np.logspace(0, -9, 20)
    model = BayesRidge(x[:, 0] + x[:, 1], x, standardize=False)
    results = model.fit("fixed", lam=1e-12)
    assert results.solver == "svd"
    post = exports.export(results, LEFT_OUT)["posterior"]
    assert "half" not in post
    np.testing.assert_array_equal(post["right"], exports.export(results)["posterior"]["right"])


def test_a_selection_has_the_rows_once():
    model, x = wide_fit(SpikeSlab)
    results = model.fit("ep")
    whole, small = (exports.export(results, without)["posterior"] for without in ((), LEFT_OUT))
    export_fields.check(exports.export(results, LEFT_OUT))
    assert set(whole) - set(small) == {"rows"}
    assert len(whole["weight"]) > 1
    # A site may be too small for the products.
    assert len(whole["root"]) < 20
    assert_same(whole["rows"], standardized(whole, x, model.weights), "rows", PRODUCTS)
    where, scale2 = at_nodes(whole, np.eye(69), np.zeros((69, 2)), 0)
    variance = whole["weight"][:, 0] @ (scale2 + (where - whole["weight"][:, 0] @ where) ** 2)
    deviation = np.sqrt(variance) * whole["y_norm"] / whole["scale"]
    assert_same(deviation, np.delete(results.bse, [0, 4]), "deviations", LINEAR)


def at_states(post, v, noise, leverage):
    ends = np.cumsum(post["set_size"]).astype(int)
    products = post["square_root"].T @ post["square_root"]
    where, spread = [], []
    for number, log_g in zip(post["state_set"].astype(int) - 1, post["log_g"], strict=True):
        within = post["set_columns"][ends[number] - int(post["set_size"][number]) : ends[number]].astype(int) - 1
        inverse = np.linalg.inv(products[np.ix_(within, within)] + np.exp(-log_g) * np.eye(within.size))
        row = v[:, post["visited"][within].astype(int) - 1]
        where.append(row @ (inverse @ post["cross"][within]))
        spread.append(np.einsum("ij,jk,ik->i", row, inverse, row) + leverage)
    return np.array(where), noise * np.array(spread)


def test_what_is_not_an_export_is_refused():
    good = exports.export(BayesRidge([1.0, 2.0, 4.0, 3.0], [[1.0], [2.0], [3.0], [5.0]]).fit())
    export_fields.check(good)
    wrong = {
        "version is 99.0": {"version": 99.0},
        "solver is missing": {"solver": None},
        "other is not a value": {"other": 1.0},
        "names must be a texts": {"names": "one"},
        r"bse must be an array of shape \(k, q\)": {"bse": np.zeros((3, 1))},
    }
    for message, change in wrong.items():
        changed = {name: value for name, value in (good | change).items() if value is not None}
        with pytest.raises(ValueError, match=message):
            export_fields.check(changed)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_fits_of_a_family_that_r_does_not_have_are_refused(model, monkeypatch):
    """A family says what R has of its fits: nothing where it is new."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    fit = model(np.arange(20) % 3, x, family="poisson").fit("ep")
    export_fields.check(exports.export(fit))
    monkeypatch.setattr(PoissonFamily, "in_r", ())
    with pytest.raises(ValueError, match="family='poisson' are for Python alone: R has 'binomial'"):
        exports.export(fit)

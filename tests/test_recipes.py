"""Recipes: the code that a fit prints makes the same fit again, whatever it was made by."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, Moments, SpikeSlab, load
from pybayesridge.recipes import Call
from tests.effort import share
from tests.problems import regression

AGAIN = 1e-12
"""The same code on the same data, beside the largest coefficient."""

Y, X = regression(60, 5, noise=0.7)
NAMES = ["a", "b", "c", "d", "e"]
W = np.linspace(1.0, 3.0, 60)
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=Y, w=W, g=(["u", "v", "w"] * 20), one=1.0)
FRAME.loc[[3, 8], "b"] = np.nan
NAMED = pd.DataFrame(X, columns=NAMES)
SPARSE = sparse.csc_matrix(np.where(X > 2.0, X, 0.0))
LATE = np.arange(60) > 9
FORMULA = "y ~ a + b + C(g) + d"


def halved(values):
    return values / 2


def parquet(folder):
    pytest.importorskip("pyarrow")
    FRAME.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def dask_frame():
    return pytest.importorskip("dask.dataframe").from_pandas(FRAME, npartitions=3)


def dask_arrays():
    array = pytest.importorskip("dask.array")
    return array.from_array(X, chunks=(20, 5)), array.from_array(Y, chunks=20), array.from_array(W, chunks=20)


def moments():
    return Moments.from_arrays(Y, NAMED)


def summary_statistics(**given):
    z = np.array([np.corrcoef(X[:, j], Y)[0, 1] for j in range(5)])
    z = z * np.sqrt(58 / (1 - z**2))
    return {"correlation": np.corrcoef(X.T), "z": z, **given}


def of_summary(model):
    given = summary_statistics()
    made = Moments.from_summary(given["correlation"], given["z"], n=60, names=NAMES, shrink=0.1)
    return model.from_moments(made, intercept=False).fit(), given


def of_dask_arrays(model):
    x, y, w = dask_arrays()
    return model.from_dask(x, endog=y, weights=w).fit(), {"data": x, "endog": y, "weights": w}


def of_dask_frame(model):
    data = dask_frame()
    return model.from_dask(data, FORMULA, weights="w", levels={"g": ["v", "u", "w"]}).fit(), {"data": data}


def of_arrow(model):
    data = pytest.importorskip("pyarrow").Table.from_pandas(FRAME)
    return model.from_arrow(data, FORMULA, weights="w", drop_cols=["d"], batch_size=17).fit(), {"data": data}


ARRAYS = {"endog": Y, "exog": X}
DATA = {"data": FRAME}

EITHER = {
    "arrays": lambda model, _: (model(Y, X).fit(), ARRAYS),
    "no intercept": lambda model, _: (model(Y, X, intercept=False, standardize=False).fit(), ARRAYS),
    "added intercept": lambda model, _: (
        model(Y, FRAME[["a", "c", "one"]], intercept="add").fit(),
        {"endog": Y, "exog": FRAME[["a", "c", "one"]]},
    ),
    "weights": lambda model, _: (
        model(Y, X, weights=W, unpenalized=["x2"]).fit(),
        {**ARRAYS, "weights": W},
    ),
    "missing": lambda model, _: (
        model(Y, FRAME[NAMES], missing="drop").fit(),
        {"endog": Y, "exog": FRAME[NAMES]},
    ),
    "formula": lambda model, _: (model.from_formula(FORMULA, FRAME).fit(), DATA),
    "subset": lambda model, _: (
        model.from_formula(FORMULA, FRAME, subset=LATE, drop_cols=["d"], weights="w", unpenalized=["a"]).fit(),
        {**DATA, "subset": LATE},
    ),
    "array of weights": lambda model, _: (
        model.from_formula("y ~ a + c", FRAME, weights=W, missing="raise").fit(),
        {**DATA, "weights": W},
    ),
    "own function": lambda model, _: (
        model.from_formula("y ~ halved(a) + c", FRAME).fit(),
        {**DATA, "halved": halved},
    ),
    "moments": lambda model, _: (model.from_moments(moments()).fit(), {"endog": Y, "exog": NAMED}),
    "added moments": lambda model, _: (
        model.from_moments(Moments.from_arrays(Y, FRAME[["a", "one"]]), intercept="add").fit(),
        {"endog": Y, "exog": FRAME[["a", "one"]]},
    ),
    "merged moments": lambda model, _: (
        model.from_moments(moments().merge(moments())).fit(),
        {"moments": moments().merge(moments())},
    ),
    "summary": lambda model, _: of_summary(model),
    "parquet": lambda model, folder: (
        model.from_parquet(
            parquet(folder), FORMULA, weights="w", drop_cols=["d"], batch_size=17, progress=False
        ).fit(),
        {},
    ),
    "arrow": lambda model, _: of_arrow(model),
    "dask frame": lambda model, _: of_dask_frame(model),
    "dask arrays": lambda model, _: of_dask_arrays(model),
}


def halves():
    return [X[:, :2], X[:, 2:]]


RIDGES = {
    "em": lambda: (BayesRidge(Y, X).fit("em", dof="paper", parameterization="tau"), ARRAYS),
    "sparse": lambda: (BayesRidge(Y, SPARSE).fit(), {"endog": Y, "exog": SPARSE}),
    "fixed": lambda: (BayesRidge(Y, X).fit("fixed", lam=2.5), ARRAYS),
    "targets": lambda: (
        BayesRidge(np.column_stack([Y, Y**2]), X).fit("fixed", lam=np.array([1.0, 1e-7])),
        {"endog": np.column_stack([Y, Y**2]), "exog": X},
    ),
    "grid": lambda: (BayesRidge(Y, X).fit("loocv", grid=np.geomspace(1e-3, 1e3, 7)), ARRAYS),
    "long grid": lambda: (
        BayesRidge(Y, X).fit("gcv", grid=np.geomspace(1e-3, 1e3, 99)),
        {**ARRAYS, "grid": np.geomspace(1e-3, 1e3, 99)},
    ),
    "columns": lambda: (
        BayesRidge.from_columns(Y, halves, unpenalized=W, weights=W, names=NAMES).fit(),
        {"endog": Y, "source": halves, "unpenalized": W, "weights": W},
    ),
    "prior": lambda: (BayesRidge(Y, X, prior=(1.0, 2.0, 0.3), sigma2=np.float64(0.5)).fit(tol=1e-6), ARRAYS),
    "formula's targets": lambda: (BayesRidge.from_formula("a + b ~ c + d", FRAME).fit("gcv", grid="glmnet"), DATA),
}

BY_NAME = pd.Series(np.linspace(0.1, 0.9, 5), index=NAMES)

SELECTIONS = {
    "given": lambda: (SpikeSlab(Y, X, prior_inclusion=0.3, slab_var=1.5, noise_var=0.7).fit(), ARRAYS),
    "array": lambda: (SpikeSlab(Y, X, prior_inclusion=np.linspace(0.1, 0.9, 5)).fit("damped", damping=0.4), ARRAYS),
    "series": lambda: (
        SpikeSlab(Y, FRAME[NAMES].fillna(0.0), prior_inclusion=BY_NAME).fit(),
        {"endog": Y, "exog": FRAME[NAMES].fillna(0.0), "prior_inclusion": BY_NAME},
    ),
    "groups": lambda: (SpikeSlab(Y, X, group={"both": ["x1", "x2"]}).fit("ep", hyper="average"), ARRAYS),
    "labels": lambda: (SpikeSlab(Y, X, group=[1, 1, 2, 2, "e"]).fit("pcep"), ARRAYS),
    "terms": lambda: (SpikeSlab.from_formula(FORMULA, FRAME, group="term").fit(), DATA),
    "columns": lambda: (SpikeSlab.from_formula(FORMULA, FRAME, group=None).fit(), DATA),
}

CASES = {
    **{
        f"{model.__name__}, {name}": (lambda folder, make=make, model=model: make(model, folder))
        for name, make in EITHER.items()
        for model in (BayesRidge, SpikeSlab)
    },
    **{f"BayesRidge, {name}": (lambda folder, make=make: make()) for name, make in RIDGES.items()},
    **{f"SpikeSlab, {name}": (lambda folder, make=make: make()) for name, make in SELECTIONS.items()},
}


@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
@pytest.mark.parametrize("case", share(CASES, 2))
def test_the_recipe_makes_the_fit_again(case, tmp_path):
    res, space = CASES[case](tmp_path)
    assert set(res.recipe.named) == set(space)
    names = dict(space)
    exec(res.recipe.code, names)
    again = names["res"]
    np.testing.assert_allclose(again.params, res.params, rtol=0, atol=AGAIN * np.abs(res.params).to_numpy().max())
    np.testing.assert_allclose(again.bse, res.bse, rtol=0, atol=AGAIN * np.abs(res.bse).to_numpy().max())
    assert again.method == res.method
    assert again.recipe == res.recipe
    assert list(again.params.index) == list(res.params.index)


def test_a_recipe_is_what_was_called():
    res = BayesRidge.from_formula(
        FORMULA, FRAME, subset=LATE, drop_cols=["d"], weights="w", unpenalized=["a"], standardize=False
    ).fit("em", maxiter=99, disp=False)
    assert res.recipe.code == (
        "from pybayesridge import BayesRidge\n\n"
        "model = BayesRidge.from_formula(\n"
        "    'y ~ a + b + C(g) + d',\n"
        "    data,\n"
        "    subset=subset,\n"
        "    drop_cols=['d'],\n"
        "    weights='w',\n"
        "    unpenalized=['a'],\n"
        "    standardize=False,\n"
        ")\n"
        "res = model.fit(method='em', maxiter=99)"
    )
    assert res.recipe.named == {"data": "the table with the variables", "subset": "the rows to use"}


@pytest.mark.parametrize("row_space", [True, False])
def test_a_recipe_is_saved_and_holds_no_data(row_space, tmp_path):
    secret = np.array([f"person-{i}" for i in range(60)])
    data = FRAME.set_index(secret).drop(columns="b")
    rows = secret[20:].tolist()
    res = BayesRidge.from_formula("y ~ a + c", data, subset=rows, weights=W).fit()
    res.save(tmp_path / "fit", remove_data=True, row_space=row_space)
    back = load(tmp_path / "fit")
    assert back.recipe == res.recipe
    assert b"person-" not in pickle.dumps(back.recipe)
    given = summary_statistics()
    res = BayesRidge.from_moments(
        Moments.from_summary(given["correlation"].tolist(), given["z"].tolist(), n=60)
    ).fit()
    assert res.recipe.named.keys() == {"correlation", "z"}


def test_moments_that_were_changed_have_no_recipe():
    whole = moments()
    assert isinstance(whole.call, Call)
    for other in (whole.merge(whole), whole.subset(columns=["a"]), whole.with_dropped(2), whole.update(Y, NAMED)):
        assert other.call is None

"""The report: average effects of the variables of the data, which may be in several terms of a formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Table, Target, ends, rows_there, table_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MOST, DRAWN = 10, 4
"""Variables in the table, and variables with a picture."""


def add_effects(out: Target, res: Any, i: int, album: Album, alpha: float) -> None:
    """Add the section on effects, where they say more than the coefficients do."""
    spec = res.model.formula_spec
    is_linear = (spec is None or spec.spec is None) and res.model.distribution.is_linear
    if is_linear or not rows_there(res) or not res.has_joint_posterior:
        return
    size = _sizes(res, i)
    names = sorted(size, key=lambda name: -size[name])
    frames, refused = [], []
    for name in names[:MOST]:
        try:
            frames.append(res.effects(name, alpha=alpha, target=i))
        except ValueError as error:
            refused.append(f"{name}: {error}.")
    for frame in frames[:1]:
        out.effects.texts.append(_words(res, len(names)))
        out.effects.tables.append(_table(frames, frame.columns, alpha))
    out.effects.texts += refused
    for name in names[: DRAWN if frames else 0]:
        caption = f"Prediction over {name}, with {percent(alpha)} intervals; other variables at mean or reference."
        out.effects.pictures.append(album.picture(_drawing(res, name, i, alpha), caption))


def _drawing(res: Any, name: str, i: int, alpha: float) -> Callable[[Axes], Axes]:
    return lambda ax: res.plot_effect(name, alpha=alpha, target=i, ax=ax)


def _sizes(res: Any, i: int) -> dict[str, float]:
    """Of each variable but groups the size of the largest coefficient of a column that depends on it."""
    names, spec = res.model.exog_names, res.model.formula_spec
    sizes = res.importance(i)
    size = dict(zip(names, np.asarray(sizes, dtype=np.float64).tolist(), strict=True))
    if spec is None or spec.spec is None:
        constant = res.model.data.const_idx
        return {name: size[name] for j, name in enumerate(res.model.data.exog_columns) if j != constant}
    found = spec.columns_by_variable()
    variables = [name for name in spec.variables if name not in spec.groups]
    return {name: max((size.get(one, 0.0) for one in found.get(name, ())), default=0.0) for name in variables}


def _words(res: Any, count: int) -> str:
    largest = f" The {MOST} of {count:,} variables with the largest coefficients are shown." if count > MOST else ""
    predicted = res.model.distribution.predicted
    return (
        f"Average change of the {predicted} with a variable, whatever terms of the formula it is in: per unit of a "
        "number, and between a level of a factor and the reference level. The other variables keep the values that "
        f"they have in each row.{largest} The change is causal only if the model is."
    )


def _table(frames: list[pd.DataFrame], columns: pd.Index, alpha: float) -> Table:
    heads = {"mean": "mean", "sd": "sd", "prob_positive": "P(positive)", "prob_zero": "P(zero)"}
    kept = [name for name in heads if name in columns]
    names = [f"{variable}, {change}" for frame in frames for variable, change in frame.index]
    values: FloatArray = np.vstack([frame[[*kept, "lower", "upper"]].to_numpy(dtype=np.float64) for frame in frames])
    return table_of(
        f"Average effects, with {percent(alpha)} intervals",
        "variable and change",
        [*(heads[name] for name in kept), *ends(alpha)],
        names,
        values,
        shares=range(2, len(kept)),
        interval=True,
        file="effects.csv",
    )

"""Arguments of the models that their constructors from formulas, moments, Parquet and Dask hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from pybayesridge._types import ArrayLike, BandsLike, FamilyLike, GroupsLike, Names


class ModelArguments(TypedDict, total=False):
    """Arguments of all models by name; each model documents its own and refuses the others."""

    intercept: bool | str
    unpenalized: Names | None
    standardize: bool
    prior: str | tuple[float, ...]
    bands: BandsLike | None
    sigma2: float | None
    link: str | None
    event: object
    categories: Sequence[Any] | None
    trials: str | ArrayLike | None
    exposure: str | ArrayLike | None
    dispersion: float | None
    df: float | None
    flat_in: str | None
    prior_inclusion: ArrayLike | Mapping[str, float] | None
    slab_var: float | None
    noise_var: float | None
    expected_size: float
    group: GroupsLike | None


class ModelOptions(ModelArguments, total=False):
    """The same and the family of the responses."""

    family: FamilyLike

"""Ordered categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.binomial.link import Link
from pybayesridge.families.binomial import like, one_column, text_of
from pybayesridge.families.family import LatentFamily, Score
from pybayesridge.late import Late
from pybayesridge.text import count, listed, repeated

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.ordinal import likelihood, posterior
    from pybayesridge.sites.prior import FlatIn
else:
    likelihood = Late("pybayesridge.ordinal.likelihood")
    posterior = Late("pybayesridge.ordinal.posterior")
    pd = Late("pandas")

MOST = 50
"""Categories that a response may have: each has a cut point of its own."""

NO_ORDER = (
    "pass an ordered Categorical (.cat.as_ordered() keeps the order of its categories), whole numbers, or the "
    "categories from the lowest to the highest as categories=, in a formula also as C(..., levels=[...])"
)


def log_score(rows: Any, probabilities: Any) -> float:
    """Mean log probability of the observed category over all copies of the rows, of probabilities (n, K)."""
    share = np.asarray(probabilities)[np.arange(rows.codes.size), rows.codes]
    with np.errstate(divide="ignore"):
        return float(rows.copies @ np.log(share) / rows.copies.sum())


@dataclass(frozen=True)
class OrdinalFamily(LatentFamily):
    """Ordered categories with a cumulative model: cut points on the scale of a latent response.

    Attributes
    ----------
    link : {"logit", "probit"}
    flat_in : {"latent", "link"}
        Units in which cut points and unpenalised coefficients have a flat prior.
    given : tuple or None
        The categories in their order, where they were given.
    categories : tuple of str
        Once a response is coded: in their order, as text.
    """

    name: ClassVar[str] = "ordinal"
    instead: ClassVar[str] = (
        "use BayesRidge without selection, or family='binomial' for one division of the categories in two"
    )
    takes: ClassVar[tuple[str, ...]] = ("link", "categories", "flat_in")
    shape: ClassVar[str] = "cut_points"
    lanes: ClassVar[tuple[str, ...]] = ("ordinal", "banded_ordinal")
    statsmodels: ClassVar[str] = ""
    in_r: ClassVar[tuple[str, ...]] = (
        "categories", "category_counts", "codes", "probabilities", "linear_predictors"
    )  # fmt: skip
    has_cuts: ClassVar[bool] = True
    in_whole_numbers: ClassVar[bool] = True
    reason: ClassVar[str] = "ordered categories have no noise variance"
    codes_itself: ClassVar[bool] = True
    predicted: ClassVar[str] = "linear predictor"
    scores: ClassVar[tuple[Score, ...]] = (Score("log_score", "log score", "larger", log_score),)
    null: ClassVar[str] = "shares of the categories"
    own: ClassVar[tuple[str, ...]] = ("cut_points", "categories", "odds_ratios")
    responses: ClassVar[str] = "ordered categories"
    statistics: ClassVar[tuple[str, ...]] = ("mean", "sd")

    link: Link = "logit"
    flat_in: FlatIn = "latent"
    given: tuple[Any, ...] | None = None
    categories: tuple[str, ...] = ()

    @classmethod
    def of(cls, **given: Any) -> OrdinalFamily:
        """The family with the arguments of a model."""
        levels = given.get("categories")
        if levels is not None and (isinstance(levels, str) or not isinstance(levels, Sequence | np.ndarray)):
            raise ValueError(f"categories must be a list, from the lowest to the highest, not {levels!r}")
        chosen = None if levels is None else tuple(levels)
        return cls(cls.checked_link(given.get("link")), cls.checked_flat_in(given.get("flat_in")), chosen)

    @property
    def model_in_words(self) -> str:
        """A sentence on the probabilities of the categories."""
        return (
            f"The {self.linear_predictor} of the probability of a category above a cut point is a linear function of "
            "the columns less the cut point, with the same coefficients at every cut point."
        )

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of models that only some families give them."""
        return {"link": self.link, "flat_in": self.flat_in}

    @property
    def in_json(self) -> Mapping[str, Any]:
        """The names of the family, the link and the categories."""
        return {"family": self.name, "link": self.link, "categories": list(self.categories)}

    def coded(self, endog: Any) -> tuple[Any, OrdinalFamily]:
        """The categories as numbers from 0, and the family with their names."""
        if endog is None:
            raise ValueError("family='ordinal' needs rows: moments do not determine its likelihood")
        column = one_column(endog, self.name, "pass one column with ordered categories")
        names, codes = _of_levels(column, self.given) if self.given is not None else _of_values(column)
        if len(names) < 2:
            found = f"all responses are {names[0]!r}" if names else "endog has no value"
            raise ValueError(f"{found}: an ordinal model needs at least two categories")
        if len(names) > MOST:
            raise ValueError(
                f"endog has {count(len(names))} different values, and an ordinal model a cut point for each: it "
                f"takes up to {MOST}. Put them into fewer categories, or model them as numbers with family='gaussian'"
            )
        values = np.where(codes < 0, np.nan, codes)
        _refuse_empty(names, values, "endog has no row of")
        return like(endog, column, values), replace(self, categories=tuple(names))

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """The categories of the rows that are kept."""
        _refuse_empty(self.categories, endog, "of the rows without missing values none is of")
        return endog

    def on_shape(self) -> list[str]:
        """How cut points are treated."""
        return ["Cut points have a flat prior."]

    def about_response(self, res: Any) -> tuple[str, str] | None:
        """The categories, and how many rows each has."""
        counts = res.sites_fit.likelihood.counts
        each = [f"{name}: {value:,.15g}" for name, value in zip(self.categories, counts, strict=True)]
        return "Categories", ", ".join(each)

    def without_columns(self, res: Any) -> tuple[Any, FloatArray]:
        """All rows, and the shares of the categories."""
        rows = res.sites_fit.likelihood
        share = rows.counts / rows.counts.sum()
        each = likelihood.from_codes(np.arange(share.size), rows.counts, share.size, self.link)
        return each, np.tile(share, (share.size, 1))

    def rows(self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None) -> Any:
        """The likelihood of the rows."""
        return likelihood.from_codes(endog, weights, len(self.categories), self.link)

    def mean(self, linear: FloatArray) -> FloatArray:
        """Refused: the probabilities depend on cut points."""
        raise ValueError(
            "ordered categories have a probability each and no mean: use which='linear', odds_ratios(), or predict() "
            "for the probabilities"
        )

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Categories from 0, given cut points (m, K - 1)."""
        assert shape is not None
        share = posterior.probabilities_at(linear, shape, self.link)
        at = np.cumsum(share[..., :-1], axis=-1) < generator.random(linear.shape)[..., None]
        return np.asarray(at.sum(axis=-1), dtype=np.float64)


def _of_levels(column: pd.Series, given: Sequence[Any]) -> tuple[list[str], AnyArray]:
    """The categories in the order that was given, and the position of each row's, -1 where it is missing."""
    names = [text_of(level) for level in given]
    if len(set(names)) < len(names):
        raise ValueError(f"categories names one twice: {listed(repeated(names))}")
    where = {name: i for i, name in enumerate(names)}
    found = {value: text_of(value) for value in pd.unique(column.dropna())}
    unknown = [name for name in found.values() if name not in where]
    if unknown:
        raise ValueError(f"endog has values that categories does not name: {listed(unknown)}")
    codes = column.map(lambda value: -1 if pd.isna(value) else where[text_of(value)])
    return names, codes.to_numpy(dtype=np.float64, na_value=-1.0)


def _of_values(column: pd.Series) -> tuple[list[str], AnyArray]:
    """The categories in their own order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        if not column.cat.ordered:
            raise ValueError(f"the categories of endog ({listed(column.cat.categories)}) have no order: {NO_ORDER}")
        return [text_of(level) for level in column.cat.categories], column.cat.codes.to_numpy()
    plain = column.infer_objects()
    if not pd.api.types.is_numeric_dtype(plain.dtype) or pd.api.types.is_complex_dtype(plain.dtype):
        raise ValueError(f"the values of endog are text, which has no order: {NO_ORDER}")
    values = plain.to_numpy(dtype=np.float64, na_value=np.nan)
    seen = values[~np.isnan(values)]
    if not (seen == np.rint(seen)).all():
        raise ValueError(
            "family='ordinal' takes whole numbers as categories, and endog has fractions: put them into categories, "
            "as with pandas.cut, or model them as numbers with family='gaussian'"
        )
    levels = np.unique(seen)
    return [text_of(level) for level in levels], np.where(
        np.isnan(values), -1, np.searchsorted(levels, np.nan_to_num(values))
    )


def _refuse_empty(names: Sequence[str], codes: FloatArray, start: str) -> None:
    """Refuse categories without a row: nothing determines the cut points beside them."""
    known = codes[~np.isnan(codes)].astype(np.intp)
    empty = [name for name, rows in zip(names, np.bincount(known, minlength=len(names)), strict=True) if not rows]
    if empty:
        raise ValueError(
            f"{start} the category {listed(empty)}, so that its cut points are not determined: leave it out, as with "
            ".cat.remove_unused_categories() or a shorter categories="
        )

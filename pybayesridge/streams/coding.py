"""Formulas on rows that come in batches.

What a transform learns from all rows (levels of factors, means and standard deviations) is found in a first pass, or
declared; it is never that of the first batch. Then every batch is coded in the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from formulaic import SimpleFormula
from formulaic.errors import DataMismatchWarning
from formulaic.parser.types import Factor, Term
from scipy import sparse

from pybayesridge._types import FloatArray
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.formula.band_terms import bands_at, bands_of_levels
from pybayesridge.formula.bands import Band
from pybayesridge.formula.bars import BandTerm
from pybayesridge.formula.build import layout
from pybayesridge.formula.calls import (
    SPLINES,
    as_state,
    as_written,
    code_tree,
    makes_factor,
    text,
)
from pybayesridge.formula.names import factors_of, names_of, own_of_side
from pybayesridge.formula.response import numeric_endog
from pybayesridge.formula.spec import FormulaSpec
from pybayesridge.formula.values import kinds_of, model_matrix, plain_dtypes
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.blocks import BlockSums
from pybayesridge.streams.expressions import no_levels, not_a_number, refuse_dependent, rows_alone
from pybayesridge.streams.plan import EXACT, StreamPlan

MOST_COMBINATIONS = 1_000_000
"""Most levels of a group, or values of the variable of a smooth curve."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Results of a first pass; the results of two passes can be merged.

    Attributes
    ----------
    levels : dict
        Values of each factor. In the order of their categories where the column has such a type.
    moments : Moments or None
        Of the arguments of ``scale`` and ``center``.
    combinations : dict
        Of groups and of smooth curves, the rows of the columns that they are made of which differ, and how often
        they occur.
    n : int
        Number of rows, where there are such terms.
    """

    levels: dict[str, list[Any]] = field(default_factory=dict)
    moments: Moments | None = None
    combinations: dict[BandTerm, pd.Series] = field(default_factory=dict)
    n: int = 0

    def merge(self, other: Survey) -> Survey:
        """The survey of the rows of both."""
        levels = {
            name: list(dict.fromkeys([*self.levels.get(name, []), *other.levels.get(name, [])]))
            for name in {**self.levels, **other.levels}
        }
        parts = [part for part in (self.moments, other.moments) if part is not None]
        both = {
            term: _added([each.combinations[term] for each in (self, other) if term in each.combinations], term)
            for term in {**self.combinations, **other.combinations}
        }
        moments = parts[0].merge(parts[1]) if len(parts) == 2 else (parts[0] if parts else None)
        return Survey(levels, moments, both, self.n + other.n)


def _added(counts: Sequence[pd.Series], term: BandTerm) -> pd.Series:
    """How often each combination occurs in several parts."""
    out = counts[0] if len(counts) == 1 else counts[0].add(counts[1], fill_value=0.0)
    if len(out) > MOST_COMBINATIONS:
        raise ValueError(
            f"{term.written} has more than {MOST_COMBINATIONS:,} different values: round them, or use groups with "
            "fewer levels"
        )
    return out


@dataclass(frozen=True, slots=True)
class Coding:
    """How every batch is coded.

    Attributes
    ----------
    plan : StreamPlan
    specs : formulaic.ModelSpecs
        Of both sides, with the states of all rows; on the right without the terms of `as_given`.
    as_given : dict
        Columns of the design that are columns of numbers of the data, and the names of these.
    spec : FormulaSpec
        Of the right-hand side, for predictions.
    terms : dict
        Positions of each term's columns.
    plain : bool
        Whether the formula takes columns as they are, so that no batch has to be checked.
    responses : list of str or None
        Where it takes nothing but columns of numbers, one a term, the responses: then there is nothing to code.
    sample : pandas.DataFrame
        A few complete rows, with which a batch of one row is checked.
    """

    plan: StreamPlan
    specs: Any
    as_given: dict[str, str]
    spec: FormulaSpec
    terms: dict[str, list[int]]
    plain: bool
    responses: list[str] | None
    sample: pd.DataFrame

    @property
    def states(self) -> dict[str, Any]:
        """States of the transforms of both sides."""
        spec: Any = self.spec.spec
        return {**self.specs.lhs.transform_state, **spec.transform_state}

    def moments(self, frame: pd.DataFrame) -> Moments | None:
        """Moments of the complete rows of a batch; None where there are none."""
        if len(frame) == 0:
            return None
        weights = None if self.plan.weights is None else frame[self.plan.weights].to_numpy(dtype=np.float64)
        if self.responses is not None:
            y = pd.DataFrame(_stacked(frame, self.responses), columns=self.responses)
            x = NamedColumns(_stacked(frame, self.spec.columns), self.spec.columns)
            return Moments.from_arrays(y, x, weights=weights)
        endog, coded = self._matrices(frame)
        _refuse_made_missing(endog, coded)
        if not self.plain:
            if len(frame) > 1:
                self._check_rows(frame, endog, coded)
            else:
                # The categories of a batch may lack levels of the sample.
                several = pd.concat([_uncategorized(frame), _uncategorized(self.sample)], ignore_index=True)
                self._check_rows(several, *self._matrices(several))
        return Moments.from_arrays(endog, self._joined(frame, coded), weights=weights)

    def add_to(self, sums: BlockSums, frame: pd.DataFrame) -> None:
        """Add the complete rows of a batch, of a formula that has terms with a variance of their own."""
        weights = None if self.plan.weights is None else frame[self.plan.weights].to_numpy(dtype=np.float64)
        if weights is not None and not ((weights > 0) & np.isfinite(weights)).all():
            raise ValueError(f"weights ({self.plan.weights!r}) must be positive and finite")
        values, table = self._values(frame)
        gone = ~np.isfinite(values).all(axis=0)
        if gone.any():
            at = int(np.flatnonzero(gone)[0])
            raise not_a_number(self._dense_names[at], int((~np.isfinite(values[:, at])).sum()))
        if not np.isfinite(table.data).all():
            raise ValueError("an effect of a group is infinite or not a number: leave those rows out")
        if len(frame) > 1:
            self._check_values(frame, values, table)
        else:
            several = pd.concat([_uncategorized(frame), _uncategorized(self.sample)], ignore_index=True)
            self._check_values(several, *self._values(several))
        sums.add(values, table, weights)

    def _values(self, frame: pd.DataFrame) -> tuple[FloatArray, Any]:
        """Columns that are not those of groups, with the responses, and those of groups, as a csr matrix."""
        endog, coded = self._matrices(frame)
        here = plain_dtypes(frame.reset_index(drop=True), self.plan.variables)
        dense: list[Any] = [self._joined(frame, coded).matrix]
        columns: list[Any] = []
        for each in bands_at(self.spec.bands, here, self.plan.context):
            dense.append(each.unpenalized)
            (columns if each.band.kind == "group" else dense).append(each.penalized)
        values = np.column_stack([*dense, endog.to_numpy(dtype=np.float64)])
        return values, sparse.hstack(columns, format="csr") if columns else sparse.csr_matrix((len(frame), 0))

    def _check_values(self, frame: pd.DataFrame, values: FloatArray, table: Any) -> None:
        """Refuse columns of :meth:`_values` that have other values in a few rows without the others."""
        rows = rows_alone(len(frame))
        alone, effects = self._values(_uncategorized(frame.iloc[rows].reset_index(drop=True), text_only=True))
        refuse_dependent(self._dense_names, values[rows], alone)
        some = table[rows]
        used = np.union1d(some.indices, effects.indices)
        names = self.sparse_columns
        refuse_dependent([names[j] for j in used], some[:, used].toarray(), effects[:, used].toarray())

    @property
    def _dense_names(self) -> list[str]:
        """Names of the first part of :meth:`_values`."""
        return [*self.dense_columns, *map(str, self.specs.lhs.column_names)]

    @property
    def dense_columns(self) -> list[str]:
        """Columns of the design that are not those of groups."""
        out = list(self.spec.columns)
        for band in self.spec.bands:
            out += band.unpenalized if band.kind == "group" else band.all_columns
        return out

    @property
    def sparse_columns(self) -> list[str]:
        """Columns of groups."""
        return [name for band in self.spec.bands if band.kind == "group" for name in band.columns]

    def moments_of_blocks(self, sums: BlockSums) -> BlockMoments:
        """The moments of all columns."""
        order = [*self.spec.columns, *(name for band in self.spec.bands for name in band.all_columns)]
        targets = [str(name) for name in self.specs.lhs.column_names]
        return sums.moments(self.dense_columns, self.sparse_columns, targets, order)

    def _joined(self, frame: pd.DataFrame, coded: pd.DataFrame) -> NamedColumns:
        """All columns of the design: those that were coded, and the others as they are in the data."""
        out = np.empty((len(frame), len(self.spec.columns)), order="F")
        for j, name in enumerate(self.spec.columns):
            source = self.as_given.get(name)
            out[:, j] = (coded[name] if source is None else frame[source]).to_numpy()
        return NamedColumns(out, self.spec.columns)

    def _matrices(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The responses, and the columns of the design that are not as in the data."""
        try:
            made = _model_matrix(self.specs, frame, self.plan)
        except DataMismatchWarning as error:
            raise ValueError(
                f"the data contain a level that is neither declared nor found ({error}): declare it in `levels`, or "
                "leave those rows out"
            ) from error
        endog = numeric_endog(made.lhs, self.plan.formula)
        return endog, pd.DataFrame(made.rhs)[[name for name in self.spec.columns if name not in self.as_given]]

    def _check_rows(self, frame: pd.DataFrame, endog: pd.DataFrame, exog: pd.DataFrame) -> None:
        """Code a few rows by themselves: an expression that looks at other rows gives something else."""
        at = rows_alone(len(frame))
        # Text is not coded here: codes of categories differ between batches.
        alone = self._matrices(_uncategorized(frame.iloc[at].reset_index(drop=True), text_only=True))
        for whole, some in zip((endog, exog), alone, strict=True):
            values = whole.iloc[at].to_numpy(dtype=np.float64)
            refuse_dependent(list(whole.columns), values, some.to_numpy(dtype=np.float64))


def survey(plan: StreamPlan, frame: pd.DataFrame) -> Survey | None:
    """Contribution of a batch of complete rows to the first pass; None if there are no rows.

    Of the columns those suffice that the plan names as surveyed.
    """
    if len(frame) == 0:
        return None
    levels = {}
    for name in plan.undeclared:
        column = frame[name]
        known = isinstance(column.dtype, pd.CategoricalDtype)
        levels[name] = list(column.cat.categories) if known else list(pd.unique(column))
    moments = None
    if plan.moments_of:
        terms = [Term([Factor(f"I({e})", eval_method="python")]) for e in plan.moments_of]
        arguments = SimpleFormula(terms, _ordering="none")
        made, _ = model_matrix(arguments, plain_dtypes(frame.reset_index(drop=True), plan.surveyed), plan.context)
        values = pd.DataFrame(made).set_axis(plan.moments_of, axis=1)
        moments = Moments.from_arrays(np.zeros(len(frame)), values)
    combinations = {
        term: frame.astype(dict.fromkeys(_categories(frame, names), object))
        .groupby(names, sort=False)
        .size()
        .astype(np.float64)
        for term, names in plan.combinations.items()
    }
    return Survey(levels, moments, combinations, len(frame) if plan.bands else 0)


def _categories(frame: pd.DataFrame, names: Iterable[str]) -> list[str]:
    return [name for name in names if isinstance(frame[name].dtype, pd.CategoricalDtype)]


def make_coding(
    plan: StreamPlan, found: Survey, sample: pd.DataFrame, ordered: Iterable[str], drop_cols: Iterable[str] | None
) -> Coding:
    """Fix the coding of all batches.

    Parameters
    ----------
    plan : StreamPlan
    found : Survey
        Of all rows; empty where nothing had to be found.
    sample : pandas.DataFrame
        A few complete rows. Only the types of their values matter.
    ordered : iterable of str
        Factors whose columns have categories, in an order of their own.
    drop_cols : iterable of str or None
    """
    levels: dict[str, list[Any]] = {}
    for name in plan.factors:
        values = plan.declared.get(name)
        levels[name] = _in_order(found.levels[name], name, name in ordered) if values is None else values
    template = _template(sample, levels)
    with np.errstate(all="ignore"):
        made, _ = model_matrix(plan.parsed, template, plan.context)
    specs, spec = made.model_spec, made.rhs.model_spec
    for side in (specs.lhs, specs.rhs):
        _set_states(side, plan, found)
        _check_factors(side, plan)
    numeric_endog(made.lhs, plan.formula)
    keep, terms, has_intercept = layout(spec, list(spec.column_names), drop_cols)
    found_right = names_of(plan.parsed.rhs)
    variables = sorted(found_right.read & set(plan.variables))
    kinds = kinds_of(template, variables)
    own = own_of_side(found_right, plan.context)
    bands: tuple[Band, ...] = ()
    if plan.bands:
        named = {name for one in plan.bands for name in one.names.read}
        variables = sorted((found_right.read | named) & set(plan.variables))
        own = plan.context
        kinds = kinds_of(template, variables)
        bands = _bands(plan, found, template, spec)
    right = FormulaSpec(plan.formula, spec, keep, variables, kinds, own, has_intercept, tuple(own), (), bands)
    at = len(keep)
    for band in bands:
        terms[band.of_term] = list(range(at, at + len(band.all_columns)))
        at += len(band.all_columns)
    every = [term for side in (plan.parsed.lhs, plan.parsed.rhs) for term in side]
    plain = all(
        str(factor.expr).strip("`") in (*plan.variables, "1", "0") for term in every for factor in term.factors
    )
    direct = plain and not plan.factors and all(len(term.factors) == 1 for term in every)
    responses = [str(name) for name in pd.DataFrame(made.lhs).columns]
    numbers = direct and {*responses, *keep} <= set(plan.variables)
    as_given, rest = _as_given(spec, plan)
    specs = type(specs)(lhs=specs.lhs, rhs=rest)
    return Coding(plan, specs, as_given, right, terms, plain, responses if numbers else None, sample)


def _bands(plan: StreamPlan, found: Survey, template: pd.DataFrame, fixed: Any) -> tuple[Band, ...]:
    """The terms with a variance of their own, by what a first pass found."""
    distinct = {}
    for term, counts in found.combinations.items():
        frame = counts.index.to_frame(index=False)
        for name in frame.columns:
            frame[name] = frame[name].astype(template[name].dtype)
        distinct[term] = (frame, counts.to_numpy())

    def complete(spec: Any) -> None:
        _set_states(spec, plan, found)
        _check_factors(spec, plan)

    return bands_of_levels(plan.bands, template, distinct, found.n, plan.context, fixed, complete)


def _as_given(spec: Any, plan: StreamPlan) -> tuple[dict[str, str], Any]:
    """Columns of the design that are columns of numbers of the data, and the specification of the other terms.

    It takes about a millisecond to code a column, however few rows there are.
    """
    names = list(spec.column_names)
    out: dict[str, str] = {}
    others = []
    for term, where in spec.term_slices.items():
        factor = term.factors[0]
        name = str(factor.expr)
        kind = spec.encoder_state[name][0] if name in spec.encoder_state else None
        plain = factor.eval_method is Factor.EvalMethod.LOOKUP and name in plan.variables
        if len(term.factors) == 1 and plain and kind is Factor.Kind.NUMERICAL and len(names[where]) == 1:
            out[names[where][0]] = name
        else:
            others.append(term)
    if not others:
        return {}, spec
    return out, spec.subset(others)


def _uncategorized(frame: pd.DataFrame, *, text_only: bool = False) -> pd.DataFrame:
    """Categories as the objects that they stand for."""
    dtypes = {str(name): dtype for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)}
    if text_only:
        dtypes = {name: t for name, t in dtypes.items() if pd.api.types.infer_dtype(t.categories) == "string"}
    return frame.astype(dict.fromkeys(dtypes, object)) if dtypes else frame


def _refuse_made_missing(*made: pd.DataFrame) -> None:
    """Refuse what is not a number although the columns that it is made of are there, such as the log of -1."""
    for part in made:
        absent = part.isna().sum()
        for name, count in absent[absent > 0].items():
            raise not_a_number(str(name), int(count))


def _stacked(frame: pd.DataFrame, names: Sequence[str]) -> FloatArray:
    """Columns of numbers as one matrix, each contiguous as it came."""
    out = np.empty((len(frame), len(names)), order="F")
    for j, name in enumerate(names):
        out[:, j] = frame[name].to_numpy()
    return out


def _model_matrix(specs: Any, frame: pd.DataFrame, plan: StreamPlan) -> Any:
    frame = plain_dtypes(frame.reset_index(drop=True), plan.variables)
    made, without_level = model_matrix(specs, frame, plan.context)
    if without_level.any():
        raise ValueError(
            f"a factor of {plan.formula!r} has no level in {int(without_level.sum())} complete row(s): add it to the "
            "data as a column, without those rows"
        )
    return made


def _set_states(spec: Any, plan: StreamPlan, found: Survey) -> None:
    """Put the exact means and standard deviations in the place of the sample's."""
    for key, state in spec.transform_state.items():
        if not state:
            continue
        call = code_tree(key)
        function = call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ""
        if function not in (*EXACT, *SPLINES):
            raise ValueError(
                f"{key} depends on all rows in a way that a stream cannot compute: add it to the data as a column"
            )
        if function in SPLINES:
            continue
        expression = text(as_written(call.args[0])) if isinstance(call, ast.Call) else ""
        known = [] if found.moments is None else found.moments.columns
        same = [name for name in known if as_state(name) == as_state(expression)]
        if found.moments is None or len(same) != 1:
            raise ValueError(f"the mean of {expression!r} in {key} was not found: add it to the data as a column")
        m = found.moments.subset(same)
        state["center"] = np.float64(m.x_mean[0])
        if function == "scale":
            if m.n - state["ddof"] <= 0 or m.xx[0, 0] == 0:
                raise ValueError(f"{key}: {expression!r} does not vary, so that it has no standard deviation")
            state["scale"] = np.sqrt(m.xx[0, 0] / (m.n - state["ddof"]))


def _check_factors(spec: Any, plan: StreamPlan) -> None:
    for key, (kind, _) in spec.encoder_state.items():
        if kind is Factor.Kind.CATEGORICAL and key.strip("`") not in plan.factors and not _is_c(spec, key):
            raise no_levels(str(key))


def _is_c(spec: Any, key: str) -> bool:
    """Whether a factor is a call of ``C``."""
    found = next(factor for factor in factors_of(spec.formula) if factor.expr == key)
    return found.eval_method is Factor.EvalMethod.PYTHON and makes_factor(key)


def _in_order(values: Sequence[Any], name: str, ordered: bool) -> list[Any]:
    if ordered:
        return list(values)
    try:
        return sorted(values)
    except TypeError as error:
        raise ValueError(f"the values of {name!r} have no order ({error}): declare its levels") from error


def _template(sample: pd.DataFrame, levels: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """A few rows in which every level of every factor occurs."""
    sample = plain_dtypes(sample.reset_index(drop=True), [str(c) for c in sample.columns])
    size = max([len(sample), *(len(values) for values in levels.values())])
    out = sample.iloc[np.arange(size) % len(sample)].reset_index(drop=True)
    for name, values in levels.items():
        every = [values[i % len(values)] for i in range(size)]
        own = sample[name].dtype
        numeric = pd.api.types.is_numeric_dtype(own)
        # A column of numbers may be used as a number too, so that it keeps its type.
        out[name] = (
            pd.Series(every, dtype=own)
            if numeric
            else pd.Categorical(every, categories=values, ordered=getattr(own, "ordered", False))
        )
    return out

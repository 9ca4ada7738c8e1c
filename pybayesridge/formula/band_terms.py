"""Terms of a formula with a variance of their own → columns: effects of groups, smooth curves, columns put together.

Each term makes one band, a set of penalised columns that share a variance, or several.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.parser.types import Factor

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.exceptions import DataWarning
from pybayesridge.formula.all_rows import terms_of_all_rows
from pybayesridge.formula.bands import Band, BandColumns
from pybayesridge.formula.bars import BAND, SMOOTH, BandTerm, ColumnsTerm, GroupTerm, SmoothTerm
from pybayesridge.formula.calls import as_state, column_of
from pybayesridge.formula.groups import GroupLevels, dummies
from pybayesridge.formula.hints import FormulaError, name_hint
from pybayesridge.formula.names import (
    Context,
    Names,
    names_in_code,
    names_of,
    refuse_named_intercept,
    sees_other_rows,
)
from pybayesridge.formula.parse import parse_sum
from pybayesridge.formula.shared import matrices_of
from pybayesridge.formula.smooths import CURVE, learned
from pybayesridge.formula.values import kinds_of, model_matrix, plain_dtypes, refuse_all_but_numbers
from pybayesridge.text import listed, repeated

LINE = "line"
"""The unpenalised column of a smooth curve; where a number multiplies it, the number itself is another one."""


@dataclass(frozen=True, slots=True)
class ParsedTerm:
    """A term with its inner formula.

    Attributes
    ----------
    term : GroupTerm, SmoothTerm or ColumnsTerm
    parsed : formulaic.Formula
        The sum before the bar, the basis of the curve, or the columns.
    names : Names
        All that it reads.
    multiplied : bool
        Whether it is a smooth curve that a number multiplies.
    """

    term: BandTerm
    parsed: Any
    names: Names
    multiplied: bool = False


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A term at the rows of the fit.

    Attributes
    ----------
    parsed : ParsedTerm
    spec : formulaic.ModelSpec
        With what its transforms have learned.
    made : (n, columns of `spec`) array
    """

    parsed: ParsedTerm
    spec: ModelSpec
    made: FloatArray

    @property
    def frame(self) -> pd.DataFrame:
        """The columns with their names."""
        return pd.DataFrame(self.made, columns=list(self.spec.column_names), copy=False)

    @property
    def gaps(self) -> pd.DataFrame:
        """One column that is NaN in rows in which any is."""
        gone = np.where(np.isnan(self.made).any(axis=1), np.nan, 0.0)
        return pd.DataFrame({self.parsed.term.written: gone})

    def terms_of_all_rows(self, frame: pd.DataFrame, own: Mapping[str, Any]) -> tuple[str, ...]:
        """The term, if some of it has other values where some rows are coded without the others."""
        return (self.parsed.term.written,) if terms_of_all_rows(self.spec, frame, self.frame, own) else ()


def parsed_terms(terms: Iterable[BandTerm], frame: pd.DataFrame, context: Context | None) -> tuple[ParsedTerm, ...]:
    """The terms with their inner formulas.

    Raises
    ------
    FormulaError
        For groups that are not columns of the data, and where ``s`` or ``band`` is a function of the caller's.
    """
    terms = tuple(terms)
    _refuse_own_functions(terms, context or {})
    known = [str(column) for column in frame.columns]
    for term in terms:
        by = term.by if isinstance(term, SmoothTerm) else ""
        for name in term.groups if isinstance(term, GroupTerm) else (by,):
            if name and name not in known:
                raise FormulaError(
                    f"{term.written} names {name!r}, which is not a column of the data{name_hint(name, known)}"
                )
    return tuple(_parsed(term, frame) for term in terms)


def _refuse_own_functions(terms: Sequence[BandTerm], context: Context) -> None:
    """Refuse ``s(x)`` and ``band(x)`` where the caller has functions of these names, which formulas called before."""
    for kind, name in ((SmoothTerm, SMOOTH), (ColumnsTerm, BAND)):
        used = [term for term in terms if isinstance(term, kind)]
        if used and callable(context.get(name)):
            what = "a smooth curve" if name == SMOOTH else "a set of columns with a penalty of their own"
            raise FormulaError(
                f"{used[0].written} is {what} in a formula, and there is a function {name} of yours: rename "
                f"yours, or call it in braces, {{{used[0].written}}}"
            )


def _parsed(term: BandTerm, frame: pd.DataFrame) -> ParsedTerm:
    if isinstance(term, GroupTerm):
        parsed = parse_sum(term.effects)
        return ParsedTerm(term, parsed, names_of(parsed) | Names(terms=frozenset(term.groups)))
    if isinstance(term, ColumnsTerm):
        parsed = parse_sum(" + ".join(term.terms))
        return ParsedTerm(term, parsed, names_of(parsed))
    names = names_in_code(term.argument) | Names(terms=frozenset({term.by} - {""}))
    multiplied = bool(term.by) and not term.as_factor and _is_number(frame, term.by)
    return ParsedTerm(
        term, parse_sum(f"0 + {CURVE}({term.argument}, {term.basis}, {not multiplied})"), names, multiplied
    )


def _is_number(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column holds numbers or truth values."""
    column = frame.loc[:, [str(one) == name for one in frame.columns]].iloc[:, :1].set_axis([name], axis=1)
    return kinds_of(plain_dtypes(column, [name]), [name])[name] in ("number", "boolean")


def left_out(terms: Iterable[ParsedTerm]) -> set[str]:
    """Columns that a dot does not stand for: groups, and what is part of a smooth curve or a band."""
    out: set[str] = set()
    for one in terms:
        if isinstance(one.term, GroupTerm):
            out |= set(one.term.groups)
        elif isinstance(one.term, SmoothTerm):
            out |= names_in_code(one.term.argument).read | ({one.term.by} if one.multiplied else set())
        elif isinstance(one.term, ColumnsTerm):
            out |= one.names.read
    return out


def names_of_terms(terms: Iterable[ParsedTerm]) -> Names:
    """Every name in the terms."""
    out = Names()
    for one in terms:
        out = out | one.names
    return out


def evaluated(terms: Iterable[ParsedTerm], frame: pd.DataFrame, own: Mapping[str, Any]) -> tuple[Evaluated, ...]:
    """The terms at rows in which nothing that they read is missing, before levels are coded."""
    out = []
    for one in terms:
        try:
            if sees_other_rows(one.parsed):
                raise FormulaError(
                    "neighbouring rows (lag) cannot be looked at here: make a column of the expression"
                )
            made, without_level = matrices_of(one.parsed, frame, own)
            refuse_named_intercept(made.model_spec)
        except FormulaError as error:
            raise FormulaError(f"{one.term.written}: {error}") from error
        values = _values(made, len(frame))
        if isinstance(one.term, SmoothTerm) and values.shape[1] != one.term.basis - 1:
            raise FormulaError(
                f"{one.term.written}: a smooth curve is a function of one variable, not of several columns"
            )
        values[without_level] = np.nan
        out.append(Evaluated(one, made.model_spec, values))
    return tuple(out)


def _values(made: Any, n: int) -> FloatArray:
    values = pd.DataFrame(made).to_numpy(dtype=np.float64, copy=True)
    return values.reshape(n, len(made.model_spec.column_names))


def bands_of(
    terms: Iterable[Evaluated], frame: pd.DataFrame, rows: BoolArray, fixed: ModelSpec
) -> tuple[BandColumns, ...]:
    """The bands of a formula at the rows of the fit.

    Parameters
    ----------
    terms : iterable of Evaluated
    frame : (n, …) DataFrame
        The columns of the data.
    rows : (n,) bool array
        The complete rows, of which levels are taken.
    fixed : formulaic.ModelSpec
        Of the rest of the formula.

    Raises
    ------
    FormulaError
        For groups that cannot have a variance, and for terms of which one is part of another.
    """
    some = frame.loc[rows].reset_index(drop=True)
    out: list[BandColumns] = []
    for one in terms:
        values = one.made[rows]
        if isinstance(one.parsed.term, GroupTerm):
            made = _groups(one.parsed.term, one.spec, values, some)
        elif isinstance(one.parsed.term, SmoothTerm):
            if one.parsed.multiplied:
                _refuse_constant(one.parsed.term, some)
            made = _smooths(one.parsed.term, one.spec, values, some, multiplied=one.parsed.multiplied)
        else:
            made = _columns(one.parsed.term, one.spec, values)
        out += [_at(band, values, some, None if band.groups is None else band.groups.codes(some)) for band in made]
    _refuse_twice([each.band for each in out])
    _refuse_within([each.band for each in out], fixed)
    return tuple(out)


def bands_of_levels(
    terms: Iterable[ParsedTerm],
    sample: pd.DataFrame,
    distinct: Mapping[BandTerm, tuple[pd.DataFrame, FloatArray]],
    n: int,
    own: Mapping[str, Any],
    fixed: ModelSpec,
    complete: Callable[[ModelSpec], None],
) -> tuple[Band, ...]:
    """The bands of a formula whose rows are not in memory.

    Parameters
    ----------
    terms : iterable of ParsedTerm
    sample : DataFrame
        Rows in which each level of each factor occurs.
    distinct : mapping
        Of each group the combinations of levels that occur, of each smooth curve the values of its variable and the
        levels of its factor, and how often they do.
    n : int
        Number of rows.
    own : mapping
        The caller's values that the formula uses.
    fixed : formulaic.ModelSpec
        Of the rest of the formula.
    complete : callable
        Gives the transforms of a specification, other than of curves, what they learn of all rows.

    Raises
    ------
    FormulaError
        As :func:`bands_of`.
    """
    out: list[Band] = []
    for one in terms:
        term = one.term
        frame, counts = distinct.get(term, (sample, np.ones(len(sample))))
        here = sample
        if isinstance(term, SmoothTerm):
            here = sample.iloc[np.arange(len(frame)) % len(sample)].reset_index(drop=True).assign(**frame)
        try:
            made, _ = matrices_of(one.parsed, here, own)
            spec = made.model_spec
            refuse_named_intercept(spec)
            if isinstance(term, SmoothTerm):
                x = frame[term.argument].to_numpy(dtype=np.float64)
                state = learned(x, term.basis, centered=not one.multiplied, counts=counts)
                next(each for key, each in spec.transform_state.items() if key.startswith(CURVE)).update(state)
        except FormulaError as error:
            raise FormulaError(f"{term.written}: {error}") from error
        if isinstance(term, GroupTerm):
            complete(spec)
            out += _groups(term, spec, np.ones((1, len(spec.column_names))), frame, n)
        elif isinstance(term, SmoothTerm):
            values = _values(model_matrix(spec, here, own)[0], len(here))
            out += _smooths(term, spec, values, here, multiplied=one.multiplied)
        else:
            complete(spec)
            out += _columns(term, spec, np.empty((0, 0)))
    _refuse_twice(out)
    _refuse_within(out, fixed)
    return tuple(out)


def _groups(
    term: GroupTerm, spec: ModelSpec, values: FloatArray, frame: pd.DataFrame, n: int | None = None
) -> Iterator[Band]:
    groups = GroupLevels.of(frame, term.groups)
    count, n = len(groups.pairs), len(frame) if n is None else n
    if count == 1:
        raise FormulaError(
            f"{term.written}: {groups.name!r} has one level, {groups.told()[0]}, so that nothing varies between "
            "groups: leave the term out"
        )
    if count >= n:
        raise FormulaError(
            f"{term.written}: {groups.name!r} has as many levels as there are rows ({n}), and effects of rows "
            "cannot be told from noise: leave the term out; overdispersed counts have family='negative-binomial', "
            "trials 'beta-binomial'"
        )
    names = list(spec.column_names)
    if not names:
        raise FormulaError(f"{term.written} has no effects: write (1 | {groups.name})")
    if not term.correlated and any(kind is Factor.Kind.CATEGORICAL for kind, _ in spec.encoder_state.values()):
        raise FormulaError(
            f"{term.written}: effects of the levels of a factor are not independent with two bars, since they depend "
            "on its coding: write a bar for correlated ones, (0 + f | g), or (1 | g:f) for independent ones with one "
            "variance"
        )
    empty = [name for name, column in zip(names, values.T, strict=True) if not column.any()]
    if empty:
        raise FormulaError(f"{term.written}: {listed(empty)} is zero in every row: leave it out")
    told = groups.told()
    for j, name in enumerate(names):
        effect = "1" if name == "Intercept" else name
        start = "" if effect == "1" else f"{effect}|"
        yield Band(
            f"{start}{groups.name}",
            "group",
            tuple(f"{start}{level}" for level in told),
            (),
            False,
            spec,
            (j,),
            effect,
            groups,
            correlated=term.written if term.correlated and len(names) > 1 else "",
        )


def _refuse_constant(term: SmoothTerm, frame: pd.DataFrame) -> None:
    """Refuse a curve that is multiplied by a constant."""
    if np.ptp(frame[term.by].to_numpy(dtype=np.float64)) == 0:
        raise FormulaError(f"{term.written}: {term.by!r} is constant, so that the curve is s({term.argument})")


def _smooths(
    term: SmoothTerm, spec: ModelSpec, values: FloatArray, frame: pd.DataFrame, *, multiplied: bool
) -> Iterator[Band]:
    label, penalized = f"{SMOOTH}({term.argument})", tuple(range(1, values.shape[1]))

    def band(name: str, unpenalized: Sequence[str], **beside: Any) -> Band:
        columns = tuple(f"{name}.{j}" for j in penalized)
        lines = tuple(f"{name}.{one}" for one in unpenalized)
        return Band(name, "smooth", columns, lines, False, spec, penalized, term.argument, **beside)

    if not term.by:
        yield band(label, (LINE,))
    elif multiplied:
        name = f"{label}:{term.by}"
        yield band(name, ("constant", LINE), by=(term.by, None))
    else:
        groups = GroupLevels.of(frame, (term.by,))
        codes, told = groups.codes(frame), groups.told()
        ordered = getattr(frame[term.by].dtype, "ordered", False)
        if len(told) == 1:
            raise FormulaError(f"{term.written}: {term.by!r} has one level, so that the curve is s({term.argument})")
        for level in range(int(ordered), len(told)):
            if np.unique(values[codes == level, 0]).size < 2:
                raise FormulaError(
                    f"{term.written}: the rows of {told[level]} have one value of {term.argument}, too few for a "
                    "curve: leave them out"
                )
            yield band(f"{label}:{told[level]}", (LINE,), groups=groups, by=(term.by, groups.levels[0][level]))


def _columns(term: ColumnsTerm, spec: ModelSpec, values: FloatArray) -> Iterator[Band]:
    names = list(spec.column_names)
    at = tuple(j for j, name in enumerate(names) if name != "Intercept")
    yield Band(term.name, "columns", tuple(names[j] for j in at), (), True, spec, at)


def _at(band: Band, values: FloatArray, frame: pd.DataFrame, codes: IntArray | None) -> BandColumns:
    """A band at rows: `values` of its specification, `codes` of the levels."""
    n, none = len(frame), np.empty((len(frame), 0))
    unseen, level = np.zeros(n), np.full(n, -1, dtype=np.int64)
    if band.kind == "columns":
        return BandColumns(band, values[:, band.of_spec], none, unseen, level)
    if band.kind == "group":
        assert band.groups is not None
        assert codes is not None
        effect = values[:, band.of_spec[0]]
        new = codes < 0
        unseen[new] = effect[new]
        return BandColumns(
            band, dummies(codes, effect, len(band.columns)), none, unseen, band.groups.new(frame, codes)
        )
    curve, line = values[:, band.of_spec], values[:, :1]
    if band.by is not None and band.groups is not None:
        assert codes is not None
        here = codes == band.groups.levels[0].index(band.by[1])
        curve, line = np.where(here[:, None], curve, 0.0), np.where(here[:, None], line, 0.0)
    elif band.by is not None:
        number = frame[band.by[0]].to_numpy(dtype=np.float64)[:, None]
        curve, line = number * curve, np.hstack([number, number * line])
    return BandColumns(band, curve, line, unseen, level)


def _refuse_twice(bands: Sequence[Band]) -> None:
    """Refuse bands that would be the same, and columns that are in two bands."""
    known: set[tuple[str, frozenset[str]]] = set()
    for band in bands:
        if band.kind != "group" or band.groups is None:
            continue
        key, told = (band.term, frozenset(band.groups.variables)), band.groups.name
        if key not in known:
            known.add(key)
            continue
        raise FormulaError(
            f"the formula has the effects ({band.term} | {told}) twice: leave one out; a slope without an intercept "
            f"is (0 + x | {told}), both independent of each other are (x || {told})"
        )
    names = repeated(band.name for band in bands)
    if names:
        raise FormulaError(f"the formula has {names[0]} twice: leave one out")
    columns = repeated(name for band in bands for name in (*band.columns, *band.unpenalized))
    if columns:
        raise FormulaError(f"the column(s) {listed(columns)} are in two bands: leave them out of one")


def _refuse_within(bands: Sequence[Band], fixed: ModelSpec) -> None:
    """Refuse terms that are part of a band, whose columns would be there twice."""
    sums = [_factors(term, fixed) for term in fixed.formula]
    names = set(fixed.column_names)
    for band in bands:
        beside = sums + [
            _factors(term, other.spec)
            for other in bands
            if other.kind == "columns" and other is not band
            for term in other.spec.formula
        ]
        for told, factors in _within(band):
            if factors in beside:
                raise FormulaError(
                    f"{told} is part of {band.of_term} already: leave {told} out of the rest of the formula"
                )
        inside = names & {*band.columns, *band.unpenalized}
        if inside:
            raise FormulaError(
                f"the column(s) {listed(sorted(inside))} are in the band {band.name} and once more in the formula: "
                "leave them out of one"
            )
    _refuse_sums_of_curves(bands)
    _warn_of_heights(bands, sums)


_Factors = frozenset[tuple[str, str]]
"""The factors of a term: "levels" of a column, or "values" of an expression."""


def _factors(term: Any, spec: ModelSpec) -> _Factors:
    """The factors of a term, written alike."""
    out = set()
    for factor in term.factors:
        kind = spec.encoder_state.get(factor.expr, (None, {}))[0]
        column = column_of(factor)
        if kind is Factor.Kind.CATEGORICAL and column:
            out.add(("levels", column))
        else:
            is_name = factor.eval_method is Factor.EvalMethod.LOOKUP
            out.add(("values", as_state(f"`{factor.expr}`" if is_name else str(factor.expr))))
    return frozenset(out)


def _within(band: Band) -> Iterator[tuple[str, _Factors]]:
    """Terms whose columns are sums of those of a band, as users write them."""
    if band.kind == "group" and band.groups is not None and band.term == "1":
        yield ":".join(band.groups.variables), frozenset(("levels", name) for name in band.groups.variables)
    if band.kind != "smooth":
        return
    argument = ("values", as_state(band.term))
    if band.by is None:
        yield band.term, frozenset({argument})
        return
    by, level = band.by
    multiplier = ("values", as_state(f"`{by}`")) if band.groups is None else ("levels", by)
    yield f"{by}:{band.term}", frozenset({multiplier, argument})
    if band.groups is None:
        yield by, frozenset({multiplier})
    elif level == band.groups.levels[0][0]:  # the curves of all levels
        yield band.term, frozenset({argument})


def _refuse_sums_of_curves(bands: Sequence[Band]) -> None:
    """Refuse a curve beside one for each level of a factor, which is their sum."""
    whole = {band.term for band in bands if band.kind == "smooth" and band.by is None}
    first: dict[str, str] = {}
    for band in bands:
        if band.kind != "smooth" or band.by is None or band.groups is None or band.by[1] != band.groups.levels[0][0]:
            continue
        variable = band.by[0]
        if band.term in whole:
            raise FormulaError(
                f"{SMOOTH}({band.term}) is the sum of the curves of all levels of {variable!r}: leave it out, or "
                f"make {variable!r} an ordered factor, whose first level has no curve of its own"
            )
        if first.setdefault(band.term, variable) != variable:
            raise FormulaError(
                f"the curves of {band.term} for all levels of {first[band.term]!r} and of {variable!r} have the same "
                "sum: make one of them an ordered factor, whose first level has no curve of its own"
            )


def _warn_of_heights(bands: Sequence[Band], sums: Sequence[_Factors]) -> None:
    """Warn of curves for each level of a factor that is not in the formula: they say nothing of its heights."""
    grouped = {band.groups.variables for band in bands if band.kind == "group" and band.groups and band.term == "1"}
    for name in dict.fromkeys(band.by[0] for band in bands if band.by is not None and band.groups is not None):
        if frozenset({("levels", name)}) not in sums and (name,) not in grouped:
            warnings.warn(
                f"the curves with by={name} are centred, and {name!r} itself is not in the formula, so that all its "
                f"levels have one height: add {name}, or (1 | {name})",
                DataWarning,
                stacklevel=6,
            )


def bands_at(bands: Sequence[Band], frame: pd.DataFrame, context: Mapping[str, Any]) -> tuple[BandColumns, ...]:
    """The bands at new rows.

    Parameters
    ----------
    bands : sequence of Band
    frame : (m, …) DataFrame
        Rows in which nothing is missing but groups.
    context : mapping
        What the fit used of the caller's.

    Raises
    ------
    ValueError
        For a factor with a level that the fit has not seen, and for groups of another kind than in the fit. A group
        that the fit has not seen is none: see :class:`BandColumns`.
    """
    done: dict[int, FloatArray] = {}
    out = []
    for band in bands:
        if id(band.spec) not in done:
            made, without_level = model_matrix(band.spec, frame, context)
            done[id(band.spec)] = _values(made, len(frame))
            done[id(band.spec)][without_level] = np.nan
        codes = None
        if band.groups is not None:
            codes = band.groups.codes(frame)
            new = codes < 0
            if band.kind == "smooth" and new.any():
                levels = pd.unique(frame[band.groups.variables[0]][new]).tolist()
                raise ValueError(
                    f"new data have a level of {band.groups.name!r} that the fit has not seen ({listed(levels)}), "
                    f"for which {band.name} has no curve: leave those rows out"
                )
        elif band.by is not None:
            refuse_all_but_numbers(frame, [band.by[0]])
        out.append(_at(band, done[id(band.spec)], frame, codes))
    return tuple(out)

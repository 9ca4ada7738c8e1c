"""Terms with a variance of their own, taken out of a formula before formulaic reads the rest.

The formula is split by the tokens of formulaic, of which only the beginnings are used: those are exact also where
names are in backticks or expressions in braces.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from formulaic.errors import FormulaicError
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token

from pybayesridge.formula.calls import code_tree, text
from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.limits import MOST_OF_A_CURVE
from pybayesridge.formula.quoted import in_backticks, name_of
from pybayesridge.text import listed

SMOOTH, BAND = "s", "band"
"""Functions that make bands where they stand alone in a sum."""

BASIS = 10
"""Functions in the basis of a smooth curve where the formula does not say how many."""

FEWEST = 3
"""Fewest functions in the basis of a smooth curve: a line, a constant and one that bends."""


@dataclass(frozen=True, slots=True)
class GroupTerm:
    """``(x | g)`` or ``(x || g)``, of one grouping factor.

    Attributes
    ----------
    written : str
        As the user wrote it.
    effects : str
        The formula before the bar.
    groups : tuple of str
        Columns of the data whose values together are the levels.
    correlated : bool
        Whether it has one bar.
    """

    written: str
    effects: str
    groups: tuple[str, ...]
    correlated: bool

    @property
    def codes(self) -> tuple[str, ...]:
        """The formula that it holds; the groups are columns."""
        return (self.effects,)


@dataclass(frozen=True, slots=True)
class SmoothTerm:
    """``s(x, k=10, by=g)``.

    Attributes
    ----------
    written : str
    argument : str
        The expression of which the curve is a function.
    basis : int
        Number of knots.
    by : str
        Column of the data; empty without.
    as_factor : bool
        Whether ``by=C(g)`` says that its values are levels.
    """

    written: str
    argument: str
    basis: int
    by: str = ""
    as_factor: bool = False

    @property
    def codes(self) -> tuple[str, ...]:
        """The expression that it holds."""
        return (self.argument,)


@dataclass(frozen=True, slots=True)
class ColumnsTerm:
    """``band(a, b, name="c")``.

    Attributes
    ----------
    written : str
    terms : tuple of str
        Columns, expressions and their products.
    name : str
    """

    written: str
    terms: tuple[str, ...]
    name: str

    @property
    def codes(self) -> tuple[str, ...]:
        """The terms that it holds."""
        return self.terms


BandTerm = GroupTerm | SmoothTerm | ColumnsTerm


@dataclass(frozen=True, slots=True)
class Split:
    """A formula in two parts.

    Attributes
    ----------
    fixed : str
        The formula without the terms that were taken out.
    terms : tuple
        These terms, in their order.
    """

    fixed: str
    terms: tuple[BandTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """A token and what follows it up to the next one."""

    token: Token
    written: str

    @property
    def signs(self) -> str:
        """The operator it is; empty for anything else."""
        return str(self.token.token) if self.token.kind is Token.Kind.OPERATOR else ""

    @property
    def bracket(self) -> str:
        """The bracket it is; empty for anything else."""
        return str(self.token.token) if self.token.kind is Token.Kind.CONTEXT else ""

    @property
    def function(self) -> str:
        """Which of :data:`SMOOTH` and :data:`BAND` it calls; in braces these are the caller's own functions."""
        if self.token.kind is not Token.Kind.PYTHON or self.written.startswith("{"):
            return ""
        name, _, rest = str(self.token.token).partition("(")
        return name if name in (SMOOTH, BAND) and _closes_at_end(f"({rest}") else ""


@dataclass(frozen=True, slots=True)
class _Item:
    """A summand: the signs before it, and its pieces."""

    signs: str
    pieces: tuple[_Piece, ...]

    @property
    def written(self) -> str:
        return _text(self.pieces)


def take_out(formula: str) -> Split:
    """The terms in bars and the calls of ``s`` and ``band`` in a formula, and the formula without them.

    A formula without any, or that has no tokens, is returned as it is.

    Raises
    ------
    FormulaError
        For such a term that is not a summand of the right-hand side, and for one that cannot be read.
    """
    try:
        pieces = _pieces(formula)
    except FormulaicError:
        return Split(formula)
    _refuse_spaces(pieces)
    tildes = [i for i, piece in enumerate(pieces) if "~" in piece.signs]
    if not _has_terms(pieces) or len(tildes) > 1:
        return Split(formula)
    at = tildes[0] if tildes else -1
    if _has_terms(pieces[: max(at, 0)]):
        raise FormulaError("terms such as (1 | g) and s(x) stand on the right-hand side of a formula, after ~")
    before, _, signs = pieces[at].signs.partition("~") if tildes else ("", "", "")
    kept, terms = _taken_out(_items(pieces[at + 1 :], signs))
    left = f"{_text(pieces[:at])} {before}~ " if tildes else ""
    return Split(left + (kept or "1"), tuple(terms))


def _pieces(written: str) -> list[_Piece]:
    tokens = list(tokenize(written))
    starts = [*(int(token.source_start or 0) for token in tokens), len(written)]
    return [_Piece(token, written[start:end]) for token, (start, end) in zip(tokens, pairwise(starts), strict=True)]


def _text(pieces: Iterable[_Piece]) -> str:
    return "".join(piece.written for piece in pieces).strip()


def _depths(pieces: Sequence[_Piece]) -> list[int]:
    """How many brackets each piece stands in; an opening one itself not in it, nor the closing one."""
    out, depth = [], 0
    for piece in pieces:
        depth -= piece.bracket in (")", "]")
        out.append(depth)
        depth += piece.bracket in ("(", "[")
    return out


def _closes_at_end(written: str) -> bool:
    """Whether the bracket with which a text begins closes at its end."""
    try:
        depths = _depths(_pieces(written))
    except FormulaicError:
        return False
    return len(depths) > 1 and depths[-1] == 0 and min(depths[1:-1], default=1) > 0


def _is_bracketed(pieces: Sequence[_Piece]) -> bool:
    """Whether all stands in one pair of parentheses."""
    depths = _depths(pieces)
    ends = len(pieces) > 1 and (pieces[0].bracket, pieces[-1].bracket) == ("(", ")")
    return ends and depths[-1] == 0 and min(depths[1:-1], default=1) > 0


def _bars(pieces: Sequence[_Piece]) -> list[int]:
    """Positions of bars outside brackets."""
    return [i for i, depth in enumerate(_depths(pieces)) if depth == 0 and "|" in pieces[i].signs]


def _has_terms(pieces: Sequence[_Piece]) -> bool:
    """Whether there is a bar within brackets, or a call that makes a band."""
    inside = any(depth > 0 and "|" in piece.signs for piece, depth in zip(pieces, _depths(pieces), strict=True))
    return inside or any(piece.function for piece in pieces)


def _refuse_spaces(pieces: Sequence[_Piece]) -> None:
    for piece, after in pairwise(pieces):
        name = str(piece.token.token)
        if name in (SMOOTH, BAND) and piece.written.strip() == name and after.bracket == "(":
            raise FormulaError(f"{name} is called without a space before the parenthesis: write {name}(x)")


def _items(pieces: Sequence[_Piece], signs: str = "") -> list[_Item]:
    """The summands of a sum."""
    out: list[_Item] = []
    begin = 0
    for i, depth in enumerate(_depths(pieces)):
        if depth == 0 and pieces[i].signs and set(pieces[i].signs) <= set("+-"):
            if i > begin or out:
                out.append(_Item(signs, tuple(pieces[begin:i])))
                signs = ""
            signs, begin = signs + pieces[i].signs, i + 1
    return [*out, _Item(signs, tuple(pieces[begin:]))]


def _taken_out(items: Iterable[_Item]) -> tuple[str, list[BandTerm]]:
    """A sum without its terms that make bands, and these."""
    kept: list[tuple[str, str]] = []
    terms: list[BandTerm] = []
    for item in items:
        rest, found = _taken_out_of(item.pieces)
        if found and "-" in item.signs:
            raise FormulaError(f"{item.written} cannot be subtracted: leave it out of the formula")
        terms += found
        if rest or not found:
            kept.append((item.signs, rest))
    signs, first = kept[0] if kept else ("", "")
    sums = [f"- {first}" if "-" in signs else first, *(f"{signs} {rest}" for signs, rest in kept[1:])]
    return " ".join(sums).strip(), terms


def _taken_out_of(pieces: Sequence[_Piece]) -> tuple[str, list[BandTerm]]:
    """What is left of a summand, and the terms in it."""
    written = _text(pieces)
    if not _has_terms(pieces):
        return written, []
    if len(pieces) == 1:
        return "", [_smooth(written) if pieces[0].function == SMOOTH else _columns(written)]
    if not _is_bracketed(pieces):
        raise FormulaError(_not_alone(pieces))
    inside = pieces[1:-1]
    if _bars(inside):
        return "", list(_group_terms(inside, written))
    rest, terms = _taken_out(_items(inside))
    return f"({rest})" if rest else "", terms


def _not_alone(pieces: Sequence[_Piece]) -> str:
    """What to write for a term that is part of a product or of another expression."""
    written = _text(pieces)
    if any(piece.function == SMOOTH for piece in pieces):
        return (
            f"{written}: a smooth curve stands alone in a sum; one that differs between groups is s(x, by=g), one "
            "whose height is proportional to z is s(x, by=z)"
        )
    if any(piece.function == BAND for piece in pieces):
        return f"{written}: band() stands alone in a sum; products of columns go into it, band(a:b, b:c)"
    return (
        f"{written}: a term with a bar stands alone in a sum, in parentheses of its own; a slope that varies by "
        "group is (x | g), groups of combinations are (1 | a:b)"
    )


def _group_terms(inside: Sequence[_Piece], written: str) -> Iterator[GroupTerm]:
    """The terms that ``effects | groups`` is: several where factors are nested."""
    bars = _bars(inside)
    at = bars[0]
    if len(bars) > 1 or inside[at].signs not in ("|", "||"):
        raise FormulaError(f"{written} cannot be read: a term has one bar, (x | g), or two together, (x || g)")
    effects, groups = _text(inside[:at]), inside[at + 1 :]
    if _has_terms(inside[:at]):
        raise FormulaError(
            f"{written}: before a bar stand columns whose effects vary by group, not smooth curves or other bars; a "
            "curve for each group is s(x, by=g)"
        )
    if not effects:
        raise FormulaError(f"{written} has nothing before the bar: write (1 {inside[at].signs} {_text(groups)})")
    if any(piece.token.token == "." or "~" in piece.signs for piece in inside[:at]):
        raise FormulaError(f"{written}: before a bar the columns are named, without . or ~")
    while _is_bracketed(groups):
        groups = groups[1:-1]
    for nested in _nested(groups, effects, written):
        yield GroupTerm(written, effects, nested, inside[at].signs == "|")


def _nested(groups: Sequence[_Piece], effects: str, written: str) -> list[tuple[str, ...]]:
    """The grouping factors of ``a:b`` (one) and of ``a/b`` (``a`` and ``a:b``)."""
    names, signs = groups[::2], [piece.signs for piece in groups[1::2]]
    if len(groups) % 2 and all(sign and set(sign) <= set("+*") for sign in signs) and signs:
        told = [_text([piece]) for piece in names]
        each = [*told, ":".join(told)] if "*" in "".join(signs) else told
        raise FormulaError(
            f"{written}: each grouping factor has a term of its own: write "
            + " + ".join(f"({effects} | {one})" for one in each)
        )
    if len(groups) % 2 == 0 or not all(sign in (":", "/") for sign in signs):
        raise FormulaError(
            f"{written} cannot be read: after a bar stands a column whose values are the groups, g, their "
            "combinations, a:b, or factors of which one is nested in the other, a/b"
        )
    out, so_far = [], [_group(names[0], written)]
    for sign, piece in zip(signs, names[1:], strict=True):
        if sign == "/":
            out.append(tuple(so_far))
        so_far.append(_group(piece, written))
    if len(set(so_far)) < len(so_far):
        raise FormulaError(f"{written} names a grouping factor twice")
    return [*out, tuple(so_far)]


def _group(piece: _Piece, written: str) -> str:
    """The column that a grouping factor is, as it is or in ``C()``."""
    found = str(piece.token.token)
    if piece.token.kind is Token.Kind.NAME:
        return found
    if piece.token.kind is Token.Kind.PYTHON:
        name = _column_in_c(_tree(found, written))
        if name:
            return name
    raise FormulaError(
        f"{written}: {found} cannot be a grouping factor, which is a column of the data: make a column of it"
    )


def _tree(written: str, term: str) -> ast.expr:
    try:
        return code_tree(written)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FormulaError(f"{term} cannot be read: {in_backticks(str(error)).partition(' (<')[0]}") from error


def _column_in_c(node: ast.expr) -> str:
    """The column in ``C(column)``; empty for anything else."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C"):
        return ""
    one = len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Name)
    return name_of(node.args[0].id) if one and isinstance(node.args[0], ast.Name) else ""


def _smooth(written: str) -> SmoothTerm:
    """The term that a call of ``s`` is."""
    call = _tree(written, written)
    assert isinstance(call, ast.Call)
    if len(call.args) != 1 or isinstance(call.args[0], ast.Starred):
        raise FormulaError(
            f"{written}: s() is a smooth curve of one variable, s(x) or s(x, k=10); a surface is a product of "
            "splines, bs(x, df=4):bs(z, df=4)"
        )
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    kind = given.pop("bs", None)
    if kind is not None and not (isinstance(kind, ast.Constant) and kind.value == "cr"):
        effects = "; effects of groups are (1 | g)" if isinstance(kind, ast.Constant) and kind.value == "re" else ""
        raise FormulaError(f"{written}: smooth curves are cubic regression splines, so leave out bs={effects}")
    unknown = [str(name) for name in given if name not in ("k", "by")]
    if unknown:
        raise FormulaError(f"{written}: s() has the arguments k and by, not {listed(unknown)}")
    basis = given.get("k", ast.Constant(BASIS))
    count = basis.value if isinstance(basis, ast.Constant) else None
    if type(count) is not int or not FEWEST <= count <= MOST_OF_A_CURVE:
        raise FormulaError(
            f"{written}: k is the number of functions in the basis, a whole number from {FEWEST} to {MOST_OF_A_CURVE}"
        )
    by, as_factor = given.get("by"), False
    if by is None:
        name = ""
    else:
        name = name_of(by.id) if isinstance(by, ast.Name) else _column_in_c(by)
        as_factor = not isinstance(by, ast.Name)
        if not name:
            raise FormulaError(f"{written}: by= takes a column of the data, or C(column) for numbers that are levels")
    return SmoothTerm(written, text(call.args[0]), count, name, as_factor)


def _columns(written: str) -> ColumnsTerm:
    """The term that a call of ``band`` is."""
    inside = _pieces(written.strip()[len(BAND) + 1 : -1])
    name, terms = "", []
    for pieces in _arguments(inside):
        told = _text(pieces)
        if len(pieces) > 1 and pieces[1].signs == "=":
            value = _tree(_text(pieces[2:]), written)
            named = isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.strip()
            if pieces[0].token.token != "name" or not named or name:
                raise FormulaError(f'{written}: band() takes columns and the argument name="...", not {told}')
            name = str(named)
        elif not pieces or any(piece.signs not in ("", ":") or piece.bracket for piece in pieces):
            raise FormulaError(
                f"{written}: band() takes columns, functions of them and products, band(a, np.log(b), a:c); the sum "
                "of two columns is I(a + b)"
            )
        elif any(piece.token.token == "." or piece.token.kind is Token.Kind.VALUE for piece in pieces):
            raise FormulaError(f"{written}: band() takes the names of columns, without . and numbers")
        elif any(piece.function for piece in pieces):
            raise FormulaError(f"{written}: s() and band() cannot stand in another band: write a sum of them")
        else:
            terms.append(told)
    if not terms:
        raise FormulaError(f'{written} has no columns: write band(a, b) or band(a, b, name="c")')
    return ColumnsTerm(written, tuple(terms), name or f"{BAND}({', '.join(terms)})")


def _arguments(pieces: Sequence[_Piece]) -> list[Sequence[_Piece]]:
    """Pieces between commas outside brackets; none after a comma at the end."""
    commas = [i for i, depth in enumerate(_depths(pieces)) if depth == 0 and pieces[i].signs == ","]
    parts = [pieces[i + 1 : j] for i, j in pairwise([-1, *commas, len(pieces)])]
    return parts if parts[-1] or len(parts) == 1 else parts[:-1]

"""Linear combinations of coefficients written as text, by formulaic's parser of constraints."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from formulaic.errors import FormulaicError
from formulaic.parser.types import Token
from formulaic.utils.constraints import ConstraintToken, LinearConstraintParser, ScaledFactor

from pybayesridge._types import FloatArray
from pybayesridge.text import did_you_mean

SIGNS = frozenset("+-*/=,")
"""Operators of a combination, one character each."""

TOGETHER = ("**", "//", "==")
"""Operators of other languages, which are not two of these."""

EXPONENT = re.compile(r"\d[\d.]*[eE]\d*")
"""A number such as 1e3, or the beginning of one such as 1e-3: the parser takes it for a name."""


@dataclass(frozen=True, slots=True)
class Combination:
    """``sum of weights * coefficients - value``.

    Attributes
    ----------
    text : str
        As the user wrote it.
    weights : (k,) array
        Over all coefficients.
    value : float
    """

    text: str
    weights: FloatArray
    value: float


class _Parser(LinearConstraintParser):
    """formulaic's, with names in quotes, those of interactions, and signs that follow one another, spaces or not."""

    def get_tokens(self, formula: str) -> list[ConstraintToken]:
        out = []
        for token in super().get_tokens(formula):
            if token.kind is Token.Kind.VALUE and token.token[:1] in "'\"":
                out.append(_token(token, ast.literal_eval(token.token), Token.Kind.NAME, 0, len(token.token)))
            elif token.kind is Token.Kind.OPERATOR and set(token.token) <= SIGNS and token.token not in TOGETHER:
                out += [_token(token, sign, token.kind, i, 1) for i, sign in enumerate(token.token)]
            else:
                out.append(token)
        return _with_interactions(out)


def _with_interactions(tokens: list[ConstraintToken]) -> list[ConstraintToken]:
    """The names on both sides of a colon as one."""
    out: list[ConstraintToken] = []
    rest = iter(tokens)
    for token in rest:
        after = next(rest, None) if out and _is_colon(token) else None
        if after is None or Token.Kind.OPERATOR in (out[-1].kind, after.kind):
            out += [token] if after is None else [token, after]
            continue
        first = out.pop()
        name = ConstraintToken(
            f"{first.token}:{after.token}",
            kind=Token.Kind.NAME,
            source=first.source,
            source_start=first.source_start,
            source_end=after.source_end,
        )
        out.append(name)
    return out


def _is_colon(token: ConstraintToken) -> bool:
    return token.kind is Token.Kind.OPERATOR and token.token == ":"


def _token(source: ConstraintToken, text: str, kind: Token.Kind, offset: int, length: int) -> ConstraintToken:
    start = source.source_start + offset
    return ConstraintToken(text, kind=kind, source=source.source, source_start=start, source_end=start + length - 1)


def combinations(text: str, names: Sequence[str]) -> list[Combination]:
    """Parse one combination, or several with commas between them.

    Parameters
    ----------
    text : str
        ``"x1 - 2*x2"``, ``"x1 = 2"``, ``"`my column` - x1, x2"``; the name of a coefficient as it is, that of an
        interaction also within a sum, and with its factors in any order.
    names : sequence of str
        Of all coefficients.

    Raises
    ------
    ValueError
        If it cannot be parsed, is not linear, or names something that is not a coefficient.
    """
    return [_combination(part, names) for part in _parts(text, names)]


def _parts(text: str, names: Sequence[str]) -> list[str]:
    """The text between commas that stand outside parentheses and names."""
    if text in names or text.strip() in names:
        return [text if text in names else text.strip()]
    depth, begin, out = 0, 0, []
    for token in _tokens(text, names):
        depth += (token.token == "(") - (token.token == ")")
        if token.kind is Token.Kind.OPERATOR and token.token == "," and depth == 0:
            out.append(text[begin : token.source_start].strip())
            begin = token.source_start + 1
    return [*out, text[begin:].strip()]


def _tokens(text: str, names: Sequence[str]) -> list[ConstraintToken]:
    try:
        return _Parser(names).get_tokens(text)
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise _not_parsed(text) from error


def _combination(text: str, names: Sequence[str]) -> Combination:
    position = {name: i for i, name in enumerate(names)}
    weights, value = np.zeros(len(names)), 0.0
    if (name := _found(text, names)) in position:
        weights[position[name]] = 1.0
        return Combination(text, weights, value)
    for part in _terms(text, names):
        if part.factor == 1:
            value -= part.scale
            continue
        name = _found(str(part.factor.expr), names)
        if name not in position:
            raise ValueError(f"the contrast {text!r} names {name!r}, {_unknown(name, names)}")
        weights[position[name]] += part.scale
    return Combination(text, weights, float(value))


def _terms(text: str, names: Sequence[str]) -> list[ScaledFactor]:
    """Coefficients and constants of one combination, each with its factor."""
    tokens = _tokens(text, names)
    if sum(token.token == "=" and token.kind is Token.Kind.OPERATOR for token in tokens) > 1:
        raise ValueError(
            f"the contrast {text!r} has more than one '=': write several contrasts with commas between them"
        )
    if any(EXPONENT.fullmatch(token.token) and token.token not in names for token in tokens):
        raise ValueError(f"the contrast {text!r} has a number with an exponent: write 0.001 instead of 1e-3")
    try:
        found = _Parser(names).get_terms(text)
    except ZeroDivisionError as error:
        raise ValueError(f"the contrast {text!r} divides by zero") from error
    except RuntimeError as error:
        raise ValueError(
            f"the contrast {text!r} is not linear in the coefficients: they can be multiplied and divided by "
            "numbers only"
        ) from error
    except (FormulaicError, SyntaxError, ValueError) as error:
        raise _not_parsed(text) from error
    if not isinstance(found, set):
        raise _not_parsed(text)
    return list(found)


def _found(name: str, names: Sequence[str]) -> str:
    """The name of a coefficient, also where the factors of an interaction are in another order; else as it is."""
    if name in names or ":" not in name:
        return name
    same = [one for one in names if ":" in one and _in_order(one) == _in_order(name)]
    return same[0] if len(same) == 1 else name


def _in_order(name: str) -> str:
    return ":".join(sorted(name.split(":")))


def _unknown(name: str, names: Sequence[str]) -> str:
    reference = " (the reference level of a factor has none)" if "[T." in name else ""
    alike = {_in_order(one): one for one in names if one.count(":") == name.count(":") > 0}
    near = difflib.get_close_matches(_in_order(name), alike, n=1)
    hint = f": did you mean {alike[near[0]]!r}?" if near else did_you_mean(name, names)
    return f"which is not a coefficient of the fit{reference}{hint}"


def _not_parsed(text: str) -> ValueError:
    return ValueError(
        f"the contrast {text!r} cannot be parsed: write a sum of coefficients such as 'x1 - 2*x2' or 'x1 = 2', with "
        "names that contain spaces or signs in backticks"
    )

"""Terms in bars and calls of s() and band() taken out of formulas, by random formulas put together from parts."""

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pybayesridge.formula.bars import ColumnsTerm, GroupTerm, SmoothTerm, take_out
from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.parse import parse
from tests.effort import number

COLUMNS = ["y", "x", "z", "g", "h", "my g", "a|b", "(1 | g)", "s"]
FRAME = pd.DataFrame(columns=COLUMNS)

PLAIN = [
    "x",
    "0",
    "1",
    ".",
    "log(x)",
    "`my g`",
    "`a|b`",
    "`(1 | g)`",
    "`s`",
    "x:z",
    "x*z",
    "x/z",
    "(x + z)**2",
    "(x - z)",
    "((x) + 1)",
    "x:(z + g)",
    "C(g)",
    "{x | z}",
    "{s(x)}",
    "I(x | z)",
    "np.log(s(x, z))",
    "Q('(1 | g)')",
    "bs(x, df=4)",
    "z %in% g",
]

BANDS = {
    "(1 | g)": [GroupTerm("(1 | g)", "1", ("g",), True)],
    "(1|`my g`)": [GroupTerm("(1|`my g`)", "1", ("my g",), True)],
    "(x ||g)": [GroupTerm("(x ||g)", "x", ("g",), False)],
    "(0+log(x)|g:h)": [GroupTerm("(0+log(x)|g:h)", "0+log(x)", ("g", "h"), True)],
    "( x - 1 | (C(g)) )": [GroupTerm("( x - 1 | (C(g)) )", "x - 1", ("g",), True)],
    "(1|g / h)": [GroupTerm("(1|g / h)", "1", names, True) for names in (("g",), ("g", "h"))],
    "({x | z} + `a|b`|g)": [GroupTerm("({x | z} + `a|b`|g)", "{x | z} + `a|b`", ("g",), True)],
    "s(x)": [SmoothTerm("s(x)", "x", 10)],
    "s( `my g`, k = 5,by=`a|b`)": [SmoothTerm("s( `my g`, k = 5,by=`a|b`)", "`my g`", 5, "a|b")],
    "s(log(x), by=C(g))": [SmoothTerm("s(log(x), by=C(g))", "log(x)", 10, "g", True)],
    "s(x, bs='cr', k=3)": [SmoothTerm("s(x, bs='cr', k=3)", "x", 3)],
    "band(x, z:g, log(y))": [ColumnsTerm("band(x, z:g, log(y))", ("x", "z:g", "log(y)"), "band(x, z:g, log(y))")],
    "band(`(1 | g)`, name='a b')": [ColumnsTerm("band(`(1 | g)`, name='a b')", ("`(1 | g)`",), "a b")],
}


@st.composite
def sums(draw, depth=2):
    """A sum as (text, text with names in the place of what makes bands, the bands); None stands for such a name."""
    text, marked, found = [], [], []
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["plain", "band", "nested"] if depth else ["plain", "band"]))
        if kind == "plain":
            one = draw(st.sampled_from(PLAIN))
            parts = one, [one], []
        elif kind == "band":
            one = draw(st.sampled_from(list(BANDS)))
            parts = one, [None], [one]
        else:
            inner = draw(sums(depth - 1))
            parts = f"({inner[0]})", ["(", *inner[1], ")"], inner[2]
        sign = draw(st.sampled_from(["+", "-"] if not parts[2] else ["+"])) if i else ""
        space = draw(st.sampled_from(["", " ", "\n  "])) if i else ""
        text.append(f"{space}{sign}{space}{parts[0]}")
        marked += [sign, *parts[1]]
        found += parts[2]
    return "".join(text), marked, found


@settings(deadline=None, max_examples=number(3000, 200))
@given(sums())
@example(("(1 | g)- 1", [None, "-", "1"], ["(1 | g)"]))
@example(("((1 | g)+-x)", ["(", None, "+-", "x", ")"], ["(1 | g)"]))
def test_what_is_left_is_the_formula_without_these_terms(made):
    text, marked, found = made
    split = take_out(f"log(y) ~ {text}")
    assert list(split.terms) == [term for one in found for term in BANDS[one]]
    names = iter(range(len(found)))
    with_names = " ".join(f"q_{next(names)}" if part is None else part for part in marked)
    wanted = [str(term) for term in parse(f"log(y) ~ {with_names}", FRAME).rhs]
    left = parse(split.fixed, FRAME)
    assert [str(term) for term in left.rhs] == [term for term in wanted if not term.startswith("q_")]
    assert [str(term) for term in left.lhs] == ["log(y)"]
    if not found:
        assert split.fixed == f"log(y) ~ {text}"
    assert take_out(split.fixed).terms == ()


@settings(deadline=None, max_examples=number(1000, 100))
@given(st.sampled_from(list(BANDS)), st.sampled_from(PLAIN), st.sampled_from([":", "*", "/", "^", "**", "%in%", " "]))
def test_products_with_these_terms_are_refused(band, plain, sign):
    for text in (f"{band} {sign} {plain}", f"{plain} {sign} {band}", f"z + ({band} + x) {sign} {plain}"):
        if sign == " " and not text.replace(" ", "").startswith(("(", "z")):
            continue
        with pytest.raises(FormulaError):
            parse(take_out(f"y ~ {text}").fixed, FRAME)


@pytest.mark.parametrize(
    "formula", ["y ~ x", "y ~ x | z", "y ~ {s(x)}", "y ~ log(s(x))", "y ~ `s`", "x +", "y ~ s(x", ""]
)
def test_other_formulas_are_left_as_they_are(formula):
    assert take_out(formula).fixed == formula
    assert take_out(formula).terms == ()


@pytest.mark.parametrize(
    ("formula", "told"),
    {
        "y ~ (1 | g):x": r"\(1 \| g\):x: a term with a bar stands alone in a sum.*a slope .* is \(x \| g\)",
        "y ~ x - (1 | g)": r"\(1 \| g\) cannot be subtracted: leave it out",
        "y ~ x - (z + (1 | g))": "cannot be subtracted",
        "y ~ x*(1 | g)": "stands alone in a sum",
        "y ~ x (1 | g)": "stands alone in a sum",
        "y ~ [(1 | g)]": "stands alone in a sum",
        "(1 | g) ~ x": "right-hand side",
        "s(y) ~ x": "right-hand side",
        "y ~ s(x):z": r"s\(x\):z: a smooth curve stands alone.*s\(x, by=g\).*s\(x, by=z\)",
        "y ~ band(x):z": "band.. stands alone",
        "y ~ s (x)": r"without a space before the parenthesis: write s\(x\)",
        "y ~ (s(x) | g)": r"not smooth curves or other bars; a curve for each group is s\(x, by=g\)",
        "y ~ ((1 | h) | g)": "not smooth curves or other bars",
        "y ~ (1 | g | h)": r"one bar, \(x \| g\), or two together",
        "y ~ (| g)": r"nothing before the bar: write \(1 \| g\)",
        "y ~ (x |)": "after a bar stands a column",
        "y ~ (. | g)": "without . or ~",
        "y ~ (1 | a + b)": r"write \(1 \| a\) \+ \(1 \| b\)$",
        "y ~ (x || a*b)": r"write \(x \| a\) \+ \(x \| b\) \+ \(x \| a:b\)$",
        "y ~ (1 | a:a)": "a grouping factor twice",
        "y ~ (1 | a - b)": "after a bar stands a column",
        "y ~ (x | 1)": "1 cannot be a grouping factor, which is a column of the data",
        "y ~ (1 | np.floor(x))": r"np.floor\(x\) cannot be a grouping factor",
        "y ~ s(x, z)": r"a surface is a product of splines, bs\(x, df=4\):bs\(z, df=4\)",
        "y ~ s()": "smooth curve of one variable",
        "y ~ s(x, bs='re')": r"leave out bs=; effects of groups are \(1 \| g\)",
        "y ~ s(x, bs='tp')": "leave out bs=$",
        "y ~ s(x, m=2)": "arguments k and by, not 'm'",
        "y ~ s(x, k=2)": "a whole number from 3 to 1000",
        "y ~ s(x, k=5.0)": "a whole number from 3 to 1000",
        "y ~ s(x, k=n)": "a whole number from 3 to 1000",
        "y ~ s(x, by=x + z)": "by= takes a column",
        "y ~ s(.)": "cannot be read",
        "y ~ band()": "band.. takes columns",
        "y ~ band(x + z)": r"the sum of two columns is I\(a \+ b\)",
        "y ~ band(x, .)": "without . and numbers",
        "y ~ band(s(x))": "cannot stand in another band",
        "y ~ band(name='c')": "has no columns",
        "y ~ band(x, name=c)": 'the argument name="..."',
        "y ~ band(x, label='c')": 'the argument name="..."',
    }.items(),
)
def test_refusals_say_what_to_write(formula, told):
    with pytest.raises(FormulaError, match=told):
        take_out(formula)

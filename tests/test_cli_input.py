"""What users type wrongly, and what nobody should be able to type: one line on stderr and exit status 2."""

import gzip
import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybayesridge import BayesRidge, cli
from pybayesridge.cli import tables
from pybayesridge.cli.conditions import rows_where
from pybayesridge.formula.check import refuse_code
from pybayesridge.formula.names import names_of
from pybayesridge.formula.parse import parse
from pybayesridge.formula.quoted import identifier, in_backticks
from tests.effort import number, share

N = 30


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2)).round(3)
    y = (x @ [2.0, -1.0] + rng.normal(size=N)).round(3)
    g = rng.choice(["a", "b", "c"], N)
    return pd.DataFrame({"y": y, "x1": x[:, 0], "x 2": x[:, 1], "g": g, "k": np.arange(N)})


@pytest.fixture
def data(frame, tmp_path):
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    return str(path)


def run(capsys, *arguments):
    try:
        status = cli.main([str(a) for a in arguments])
    except SystemExit as stopped:
        status = stopped.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys, *arguments):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, ""), (arguments, out)
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err


KNOWN = [
    "y ~ x1 + `x 2` + C(g)",
    "y ~ .",
    "log(y + 100) ~ x1 * C(g, contr.treatment('b')) + np.sqrt(np.abs(x1))",
    "y ~ bs(x1, df=4) + poly(`x 2`, degree=2) + scale(x1)",
    "y ~ {x1 + 2} + I(x1**2) + I(x1**2.5 > 1) + C(x1 > 0)",
    "y ~ C(g, levels=['b', 'a', 'c']) + C(g, contr.sum) : x1",
    "y ~ np.where(x1 > 0, x1, 0) + np.clip(`x 2`, -1, np.pi) + np.log1p(k) + lag(k)",
    "y ~ I((x1 > 0) & (k < 5)) + I(-x1) + I(k // 2 % 3)",
    "y ~ C(k % 2, contr.custom({'a': [1, 0]})) + 0 + Q('x 2')",
]


@pytest.mark.parametrize("formula", KNOWN)
def test_known_transforms_are_accepted(formula, frame):
    refuse_code(formula, set(frame.columns))


@pytest.mark.parametrize("formula", KNOWN[:6])
def test_accepted_formulas_are_fitted(formula, frame, data, capsys):
    status, out, err = run(capsys, "ridge", formula, data)
    assert (status, err) == (0, "")
    assert out == f"{BayesRidge.from_formula(formula, frame).fit().summary()}\n"


MARK = "escaped"
ESCAPES = [
    "I(__import__('os').system('touch {file}'))",
    "{{__import__('os').system('touch {file}')}}",
    "{{open('{file}', 'w')}}",
    "I(open('{file}', 'w').close())",
    "I(eval(\"open('{file}', 'w')\"))",
    "I(exec(\"open('{file}', 'w')\"))",
    "bs(x1, df=open('{file}', 'w'))",
    "bs(x1, **{{'df': 4}})",
    "bs(*[x1])",
    "C(g, contr.treatment(open('{file}', 'w')))",
    "I([open('{file}', 'w') for _ in [1]])",
    "I((lambda: open('{file}', 'w'))())",
    "I((open)('{file}', 'w'))",
    "I(x1.map(lambda v: open('{file}', 'w')))",
    "I(x1.to_csv('{file}'))",
    "I(x1.__class__)",
    "I(().__class__.__bases__[0].__subclasses__())",
    "I(getattr(x1, 'to_csv')('{file}'))",
    "I(np.save('{file}', x1))",
    "I(np.lib.npyio.os.system('touch {file}'))",
    "I(np.loadtxt('{file}'))",
    "I(np.f2py.os.system('touch {file}'))",
    "I(np.frompyfunc(open, 2, 1)('{file}', 'w'))",
    "I(np.vectorize(open)('{file}', 'w'))",
    "I(np.log(x1, k))",
    "I(np.log(x1, out=k))",
    "log(x1, k)",
    "I(np.add.at(k, 0, 1))",
    "I(np.clip(x1, 0, 1, k))",
    'C(g, levels=[\'a", open("{file}", "w"), "\'])',
    "C(g, levels=[\"+open('{file}', 'w')] #\"])",
    "C(g, levels=['a`, open(`{file}`) `'])",
    "C(g, levels=['\\x22, open(1)'])",
    "I(f'{{open(1)}}')",
    "I(x1 if open('{file}', 'w') else 0)",
    "I((z := open('{file}', 'w')))",
    "hashed(g, levels=3, hash_func=open)",
    "hashed(g, levels=3, hash_func=eval)",
    "scale(x1, _state=k)",
    "scale(x1, _context=k)",
    "contr.mro()",
    "contr.__class__('A', (), {{}})",
    "I(x1[0])",
    "I(k @ k)",
    "I(9**9**9)",
    "I(1 << 10**9)",
    "I('a' * 10**10)",
    "I(b'a')",
    "I(np.pi.real.__class__)",
    "I(`x1`.to_csv('{file}'))",
    "I(`__import__('os').system('touch {file}')`)",
    "Q(open('{file}', 'w'))",
    "I(ｏｐｅｎ('{file}', 'w'))",
    "I(breakpoint())",
    "I(print(x1))",
    "I(yield_)",
    "I(...)",
    "__builtins__",
    "np.os",
    "I(await_)",
    "__import__('os').system('touch {file}')",
]


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_formula_runs_code(escape, data, tmp_path, capsys):
    file = tmp_path / MARK
    code = escape.format(file=file)
    for formula in (f"y ~ x1 + {code}", f"{code} ~ x1"):
        err = refused(capsys, "ridge", formula, data)
        assert "formula" in err or "Operator" in err or "syntax" in err.lower() or "Unexpected" in err, err
        assert not file.exists()


@pytest.mark.parametrize("escape", ESCAPES)
def test_no_formula_with_code_passes_the_check(escape, frame, tmp_path):
    with pytest.raises(Exception, match=r"formula|Operator|Unexpected|quote"):
        refuse_code(f"y ~ x1 + {escape.format(file=tmp_path / MARK)}", set(frame.columns))


def test_columns_do_not_hide_functions(frame, tmp_path, capsys):
    columns = {*frame.columns, "np", "C", "contr"}
    for formula in ("y ~ np.log(x1)", "y ~ C(g)", "y ~ C(g, contr.sum)", "y ~ np + C"):
        refuse_code(formula, columns)
    for formula in ("y ~ `np`.log(x1)", "y ~ I(np.log)", "y ~ I(C.x1)", "y ~ I(`C`(x1))"):
        with pytest.raises(ValueError, match=r"the formula|quote|Unexpected"):
            refuse_code(formula, columns)
    odd = frame.assign(C=frame.x1, np=frame.x1 / 9)
    odd.to_csv(tmp_path / "odd.csv", index=False)
    status, out, err = run(capsys, "ridge", "y ~ C(g) + C + np.exp(np)", tmp_path / "odd.csv")
    assert (status, err) == (0, "")
    same = frame.assign(v=frame.x1, w=frame.x1 / 9)
    expected = BayesRidge.from_formula("y ~ C(g) + v + np.exp(w)", same).fit()
    assert f"{expected.params.iloc[-1]:.3g}" in out


def test_names_in_backticks_and_text_that_looks_like_one(frame):
    for name in ("it's", "a\\b", 'a"b', "open('x')", "log(x1)", "a b"):
        refuse_code(f"y ~ `{name}` + I(`{name}` ** 2)", {*frame.columns, name})
    # Text that is an identifier of a name with quotes stays text.
    inside = identifier("', open('x'), '")
    refuse_code(f"y ~ C(g, levels=['{inside}'])", frame.columns)
    assert in_backticks(f"C(g, levels=['{inside}'])") == f"C(g, levels=['{inside}'])"
    names = names_of(parse(f"y ~ C(g, levels=['{inside}'])", frame))
    assert "open" not in names.functions


def test_code_runs_when_it_is_allowed(frame, data, tmp_path, capsys):
    status, _, err = run(capsys, "ridge", "y ~ I(x1.clip(0, 1)) + C(g)", data, "--allow-code")
    assert (status, err) == (0, "")
    assert "--allow-code" in refused(capsys, "ridge", "y ~ I(x1.clip(0, 1))", data)


CONDITIONS = [
    "x1 > 0",
    "x1 > 0 and `x 2` < 0.5",
    "x1 > 0 & `x 2` < 0.5 | k == 3",
    "not (x1 > 0) or g == 'a'",
    "~(x1 > 0)",
    "-1 < x1 <= 1",
    "g in ['a', \"b\"]",
    "g not in ('a',) and k % 3 == 1",
    "k * 2 - 1 >= x1 ** 2 / 3 + 4 // 2",
    "g != 'b'",
    "x1 == x1",
    "g == 'a' or (g == \"b\" and k in [1, 2, 3, 20])",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_those_of_pandas(condition, frame):
    frame.loc[[2, 5, 11], "x1"] = np.nan
    np.testing.assert_array_equal(rows_where(condition, frame), frame.eval(condition, engine="python"))


def test_integers_of_a_condition_do_not_wrap(frame):
    frame["small"] = np.full(N, 100, dtype=np.int8)
    assert rows_where("small * small == 10000", frame).all()
    assert rows_where("small + small > 127", frame).all()


def test_missing_values_satisfy_no_comparison(frame):
    frame["h"] = pd.array([None, 1] * (N // 2), dtype="Int64")
    frame["t"] = pd.array([None, "a"] * (N // 2), dtype="string")
    expected = np.arange(N) % 2 == 1
    np.testing.assert_array_equal(rows_where("h > 0", frame), expected)
    np.testing.assert_array_equal(rows_where("t == 'a' and h > 0", frame), expected)
    np.testing.assert_array_equal(rows_where("0 < h < 2", frame), expected)


BAD_CONDITIONS = [
    "@__import__('os').system('touch {file}')",
    "x1 > @np.pi",
    "x1.to_csv('{file}') > 0",
    "__import__('os').system('touch {file}')",
    "open('{file}', 'w')",
    "[open('{file}', 'w') for _ in [1]]",
    "x1 > (lambda: 1)()",
    "x1[0] > 1",
    "x1 = 3",
    "x1 := 3",
    "x9 > 1",
    "g > 1",
    "g == 1",
    "x1 == 'a'",
    "g in 'abc'",
    "g in [k]",
    "k in ['1']",
    "x1 + 1",
    "g",
    "x1 and k",
    "not x1",
    "1 > 0",
    "True",
    "x1 > ",
    "x1 > 'a",
    "`x 2 > 1",
    "`x 3` > 1",
    "",
    "   ",
    "x1 is None",
    "f'{{x1}}' == 'a'",
    "x1 > 1e9",
    "g + 'a' == 'ba'",
    "g * 3 == 'a'",
    "\x00",
    "(" * 300,
    "-" * 5000 + "x1 > 0",
    "x1 > 0;",
    "x1 > 0 # and",
]


@pytest.mark.parametrize("condition", BAD_CONDITIONS)
def test_bad_conditions(condition, data, tmp_path, capsys):
    file = tmp_path / MARK
    if condition.endswith("# and"):
        assert run(capsys, "ridge", "y ~ x1", data, "--subset", condition)[0] in (0, 2)
        return
    assert "--subset" in refused(capsys, "ridge", "y ~ x1", data, "--subset", condition.format(file=file))
    assert not file.exists()


@given(text=st.text(st.sampled_from("x1kg \t()[]<>=!&|~+-*/%.,'\"`@:0123abinotrdTF_"), max_size=25))
@settings(max_examples=number(300, 100), deadline=None)
def test_any_condition_is_answered_or_refused(text):
    some = pd.DataFrame({"x1": [1.0, 2.0, np.nan], "k": [1, 2, 3], "g": ["a", None, "b"]})
    try:
        found = rows_where(text, some)
    except ValueError:
        return
    assert found.dtype == bool
    assert found.shape == (3,)


@given(text=st.text(st.sampled_from("yx1kg ~()[]{}<>=!&|+-*/%.,'\"`@:0123abinotrdTFC_"), max_size=25))
@settings(max_examples=number(100, 40), deadline=None)
def test_any_formula_is_fitted_or_refused(text, tmp_path_factory):
    path = tmp_path_factory.mktemp("formula") / "d.csv"
    path.write_text("y,x1,k,g\n1,2,3,a\n2,1,4,b\n4,1,0,a\n3,5,1,b\n5,2,2,a\n", encoding="utf-8")
    err = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        patch.setattr(sys, "stderr", err)
        try:
            status = cli.main(["ridge", "--", f"y ~ {text}", str(path)])
        except SystemExit as stopped:
            status = stopped.code
    assert status in (0, 2)
    assert "Traceback" not in err.getvalue()


def test_a_european_file(frame, data, tmp_path, capsys):
    path = tmp_path / "euro.csv"
    path.write_bytes(frame.rename(columns={"x1": "höhe"}).to_csv(index=False, sep=";", decimal=",").encode("latin-1"))
    _, expected, _ = run(capsys, "ridge", "y ~ x1 + C(g)", data)
    options = ["--sep", ";", "--decimal", ",", "--encoding", "latin-1"]
    status, out, err = run(capsys, "ridge", "y ~ höhe + C(g)", path, *options, "--save", tmp_path / "fit.pickle")
    assert (status, err) == (0, "")
    assert out.replace("höhe", "x1  ") == expected
    status, told, _ = run(capsys, "predict", tmp_path / "fit.pickle", path, *options)
    results = BayesRidge.from_formula("y ~ x1 + C(g)", frame).fit()
    assert status == 0
    found = pd.read_csv(io.StringIO(told))["mean"]
    np.testing.assert_allclose(found, results.predict(), rtol=1e-9)
    assert "--encoding latin-1" in refused(capsys, "ridge", "y ~ x1", path)
    assert "--sep ';'" in refused(capsys, "ridge", "y ~ höhe", path, "--encoding", "latin-1")
    told = refused(capsys, "ridge", "y ~ höhe", path, *options[:2], *options[4:])
    assert "--decimal ," in told
    assert "'höhe'" in told
    assert "--decimal ," in refused(capsys, "predict", tmp_path / "fit.pickle", path, *options[:2], *options[4:])


@pytest.mark.parametrize("numbers", [["1,234", "900", "12,345.5", "7,100"], ["1,234", "2,345", "3,456", "7,100"]])
def test_commas_that_may_separate_thousands(numbers, tmp_path, capsys):
    path = tmp_path / "d.csv"
    pd.DataFrame({"y": numbers, "x": [1.0, 2.5, 3.0, 5.0]}).to_csv(path, index=False)
    for formula in ("y ~ x", "x ~ y"):
        told = refused(capsys, "ridge", formula, path)
        assert "column(s) 'y' hold numbers with commas, which may separate thousands" in told


@pytest.mark.parametrize(("sep", "given"), [("\t", "tab"), ("\t", "\\t"), ("|", "|"), (" ", " "), (";", ";")])
def test_separators(sep, given, frame, data, tmp_path, capsys):
    path = tmp_path / "data.txt"
    frame.drop(columns="x 2").to_csv(path, index=False, sep=sep)
    status, out, err = run(capsys, "ridge", "y ~ x1", path, "--sep", given)
    assert (status, err) == (0, "")
    assert out == run(capsys, "ridge", "y ~ x1", data)[1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encodings(encoding, frame, tmp_path, capsys):
    path = tmp_path / "data.csv"
    frame.assign(g="é").to_csv(path, index=False, encoding=encoding)
    assert run(capsys, "ridge", "y ~ x1", path, "--encoding", encoding)[::2] == (0, "")


def test_a_byte_order_mark_is_not_in_a_name(frame, data, tmp_path, capsys):
    path = tmp_path / "excel.csv"
    frame.to_csv(path, index=False, encoding="utf-8-sig")
    assert run(capsys, "ridge", "y ~ x1", path) == run(capsys, "ridge", "y ~ x1", data)


def test_standard_input_in_another_encoding(frame, monkeypatch, capsys):
    text = frame.rename(columns={"x1": "höhe"}).to_csv(index=False).encode("latin-1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text), encoding="utf-8"))
    assert run(capsys, "ridge", "y ~ höhe", "-", "--encoding", "latin-1")[::2] == (0, "")


@pytest.fixture
def saved(data, tmp_path, capsys):
    path = tmp_path / "fit.pickle"
    assert run(capsys, "ridge", "y ~ x1 + C(g)", data, "--save", path, "--quiet") == (0, "", "")
    return path


@pytest.mark.parametrize("name", ["p.csv", "p.tsv", "p.tab", "p.csv.gz", "p.json", "p.parquet", "P.CSV"])
def test_predictions_by_the_name_of_the_file(name, saved, data, tmp_path, capsys):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    assert run(capsys, "predict", saved, data, "--output", tmp_path / name) == (0, "", "")
    expected = pd.read_csv(io.StringIO(run(capsys, "predict", saved, data)[1]))
    if name.endswith("json"):
        found = pd.read_json(tmp_path / name, precise_float=True)
    elif name.endswith("parquet"):
        found = pd.read_parquet(tmp_path / name)
    else:
        found = pd.read_csv(tmp_path / name, sep="\t" if "t" in name.partition(".")[2][:2] else ",")
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12)


def test_missing_predictions_as_json(saved, frame, tmp_path, capsys):
    path = tmp_path / "new.csv"
    frame.iloc[:3].assign(x1=[1.0, np.nan, 2.0]).set_axis(["r", "s", "t"], axis=0).to_csv(path)
    run(capsys, "predict", saved, path, "--output", tmp_path / "p.json")
    found = pd.read_json(tmp_path / "p.json")
    assert found["row"].tolist() == ["r", "s", "t"]
    assert found["mean"].isna().tolist() == [False, True, False]


@pytest.mark.parametrize(
    "name", ["p.xlsx", "p.xls", "p.pickle", "p", "p.csvx", "p.gz", "p.parquet.gz", "p.rds", ".csv"]
)
def test_other_outputs_are_refused(name, saved, data, tmp_path, capsys):
    assert ".csv, .tsv, .parquet or .json" in refused(capsys, "predict", saved, data, "--output", tmp_path / name)
    assert not (tmp_path / name).exists()


FILES = {
    "empty.csv": b"",
    "blank.csv": b"\n\n\n",
    "header.csv": b"y,x\n",
    "binary.csv": bytes(range(256)) * 20,
    "zeros.csv": bytes(1000),
    "utf16.csv": "y,x\n1,2\n2,3\n3,5\n".encode("utf-16"),
    "latin.csv": "y,x,né\n1,2,é\n".encode("latin-1"),
    "twice.csv": b"y,x,x\n1,2,3\n2,3,4\n",
    "ragged.csv": b"y,x\n1,2\n1,2,3\n",
    "wide.csv": b"y,x\n1,2,3\n1,2,3\n",
    "quote.csv": b'y,x\n1,"2\n3,4\n',
    "text.csv": b"y,x\na,b\nc,d\n",
    "inf.csv": b"y,x\n1,2\n2,inf\n3,1\n",
    "missing.csv": b"y,x\n1,\n2,NA\n3,\n",
    "semicolon.csv": b"y;x\n1;2\n2;3\n4;4\n",
    "tabs.csv": b"y\tx\n1\t2\n2\t3\n",
    "comma.tsv": b"y,x\n1,2\n2,3\n",
    "notgz.csv.gz": b"y,x\n1,2\n",
    "notzip.csv.zip": b"y,x\n1,2\n",
    "notxz.csv.xz": b"y,x\n1,2\n",
    "notbz.csv.bz2": b"y,x\n1,2\n",
    "not.parquet": b"PAR1 nothing",
    "empty.parquet": b"",
    "book.xlsx": b"PK\x03\x04",
    "data.json": b"[]",
    "norows.tsv": b"y\tx\n",
    "complex.csv": b"y,x\n1+2j,1\n2,3\n",
    "html.csv": b"<html><body>404</body></html>",
    "nameless.csv": b",,\n1,2,3\n",
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(name, tmp_path, capsys):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    path = tmp_path / name
    path.write_bytes(FILES[name])
    err = refused(capsys, "ridge", "y ~ x", path)
    assert str(path) in err or "'x'" in err or "rows" in err or "column" in err, err
    refused(capsys, "spikeslab", "y ~ x", path)


def test_unreadable_paths(data, tmp_path, capsys):
    refused(capsys, "ridge", "y ~ x1", tmp_path)
    refused(capsys, "ridge", "y ~ x1", tmp_path / "none.csv")
    refused(capsys, "ridge", "y ~ x1", f"{data}/below.csv")
    refused(capsys, "ridge", "y ~ x1", "a" * 5000)
    refused(capsys, "ridge", "y ~ x1", "a\0b")
    refused(capsys, "ridge", "y ~ x1", "http://localhost:1/d.csv")
    refused(capsys, "ridge", "y ~ x1", "s3://bucket/d.csv")


CALLS = [
    ["ridge", "y ~ a | b"],
    ["ridge", "y ~ x1 | x1"],
    ["ridge", "y | x1 ~ k"],
    ["ridge", "y"],
    ["ridge", "~ x1"],
    ["ridge", ""],
    ["ridge", "~"],
    ["ridge", "y ~ x1 ~ k"],
    ["ridge", "y ~ ((x1"],
    ["ridge", "y ~ x1))"],
    ["ridge", "y ~ `x1"],
    ["ridge", "y ~ 'x1"],
    ["ridge", "y ~ x 2"],
    ["ridge", "y ~ x1 +"],
    ["ridge", "y ~ C()"],
    ["ridge", "y ~ C(1, 2, 3, 4)"],
    ["ridge", "y ~ bs(x1, df=-1)"],
    ["ridge", "y ~ bs(g)"],
    ["ridge", "y ~ lag(x1, 'a')"],
    ["ridge", "y ~ log(g)"],
    ["ridge", "y ~ x1 ** k"],
    ["ridge", "y ~ x1 ** x1"],
    ["ridge", "g ~ x1"],
    ["ridge", "0 ~ x1"],
    ["ridge", "y ~ 'text'"],
    ["ridge", "y ~ x1 %in% k %in% g %in%"],
    ["ridge", "y ~ [x1 ~ k]"],
    ["ridge", "y ~ print"],
    ["ridge", "y ~ C(g, contr.treatment('z'))"],
    ["ridge", "y ~ C(g, levels=['z'])"],
    ["ridge", "y ~ " + "(" * 3000],
    ["ridge", "y ~ I(" + "(" * 300 + "x1" + ")" * 300 + ")"],
    ["ridge", "y ~ x1", "--weights", "x1"],
    ["ridge", "y ~ x1", "--weights", "g"],
    ["ridge", "y ~ x1", "--weights", "none"],
    ["ridge", "y ~ x1", "--unpenalized", "none"],
    ["ridge", "y ~ x1", "--lam", "-1", "--method", "fixed"],
    ["ridge", "y ~ x1", "--method", "fixed"],
    ["ridge", "y ~ x1", "--lam", "1"],
    ["ridge", "y ~ x1", "--grid", "glmnet"],
    ["ridge", "y ~ x1", "--sigma2", "0"],
    ["ridge", "y ~ x1", "--sigma2", "nan"],
    ["ridge", "y ~ x1", "--tol", "-1"],
    ["ridge", "y ~ x1", "--tol", "nan"],
    ["ridge", "y ~ x1", "--maxiter", "1.5"],
    ["ridge", "y ~ x1", "--alpha", "nan"],
    ["ridge", "y ~ x1", "--alpha", "1"],
    ["ridge", "y ~ x1", "--sep", ";;"],
    ["ridge", "y ~ x1", "--sep", ""],
    ["ridge", "y ~ x1", "--decimal", "x"],
    ["ridge", "y ~ x1", "--decimal", ","],
    ["ridge", "y ~ x1", "--encoding", "klingon"],
    ["ridge", "y ~ x1", "--encoding", "utf-16"],
    ["ridge", "y ~ x1", "--encoding", "rot13"],
    ["ridge", "y ~ x1", "--save", "no/such/folder"],
    ["ridge", "y ~ x1", "--report", "no/such/folder/r.html"],
    ["ridge", "y ~ x1", "--quiet", "--save", "."],
    ["ridge", "y ~ x1", "--bogus"],
    ["ridge", "y ~ x1", "extra.csv"],
    ["spikeslab", "y ~ x1", "--prior-inclusion", "2"],
    ["spikeslab", "y ~ x1", "--slab-var", "-1"],
    ["spikeslab", "y ~ x1", "--noise-var", "0"],
    ["spikeslab", "y ~ x1", "--hyper", "average", "--method", "damped"],
    ["spikeslab", "y + k ~ x1"],
    ["spikeslab", "y ~ x1", "--hyper", "best"],
    ["bogus", "y ~ x1"],
    ["predict", "none.pickle"],
]


@pytest.mark.parametrize("call", CALLS, ids=[" ".join(call)[:50] for call in CALLS])
def test_malformed_calls(call, data, capsys):
    command, first, *rest = call
    refused(capsys, command, first, data, *rest)


def test_malformed_calls_without_data(capsys):
    for call in (
        [],
        ["ridge"],
        ["ridge", "y ~ x"],
        ["predict"],
        ["demo", "extra"],
        ["demo", "--report", "no/such/r.html"],
    ):
        refused(capsys, *call)


def test_files_that_are_no_fits(data, tmp_path, capsys):
    for i, content in enumerate(
        [b"", b"abc", pickle.dumps({"a": 1}), pickle.dumps(None), pickle.dumps(3)[:-1], bytes(99)]
    ):
        path = tmp_path / f"{i}.pickle"
        path.write_bytes(content)
        refused(capsys, "predict", path, data)
    refused(capsys, "predict", tmp_path, data)


@pytest.mark.skipif(os.name != "posix", reason="closes streams as shells do")
def test_closed_streams(data):
    calls = [("x1", ">&-", 0), ("x1", "2>&-", 0), ("nope", "2>&-", 2)]
    for column, closed, status in calls:
        call = f"{sys.executable} -m pybayesridge ridge 'y ~ {column}' {data} {closed}"
        done = subprocess.run(["sh", "-c", call], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(data, saved, capsys):
    command = [sys.executable, "-m", "pybayesridge"]
    calls = [["ridge", "y ~ x1", data], ["ridge", "y ~ x1", data, "--json"], ["predict", str(saved), data]]
    for call in (*share(calls, 3), *share([["--help"], ["ridge", "--help"], ["--version"]], 3)):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([*command, *call], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1, done.stderr
        assert "No space left" in done.stderr
    assert "No space left" in refused(capsys, "ridge", "y ~ x1", data, "--quiet", "--save", "/dev/full")


@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz"])
@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("a,b,c", ["a", "b", "c"]),
        ("\ufeffa,b,c", ["a", "b", "c"]),
        ('"a","b ""x""","c,d"', ["a", 'b "x"', "c,d"]),
        (" a,b ,größe", [" a", "b ", "größe"]),
        ("\na,b,c", ["a", "b", "c"]),
        (",b,c", ["b", "c"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_names_in_the_first_line(name, head, names, end, tmp_path):
    text = head.replace("\n", end) + end + "1,2,3" + end + "4,5,6" + end
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert list(tables.read_table(str(tmp_path / name)).columns) == names

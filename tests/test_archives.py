"""Archives of fits and of moments that claim too much, were changed, or hold code: refused before it matters."""

import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, Moments, load, r_bridge
from pybayesridge.archives import CHECKSUMS, FOLD, SMALL
from pybayesridge.cli import main
from pybayesridge.exceptions import DataWarning
from pybayesridge.results import portable
from tests.fuzz.files import changed, members_of, rezipped
from tests.gallery import make

TAKEN = 16 << 20
"""Bytes that refusing a file of some kilobytes takes at most."""


@pytest.fixture(scope="module")
def content():
    """A fit by formula, as bytes."""
    out = io.BytesIO()
    BayesRidge.from_formula("y ~ scale(a) + bs(b, df=4) + C(site)", make.data()).fit("em").save(out)
    return out.getvalue()


@pytest.fixture(scope="module")
def moments():
    """Moments, as bytes."""
    out = io.BytesIO()
    Moments.from_arrays(make.data()["y"], make.data()[["a", "b"]]).save(out)
    return out.getvalue()


def refused(given, match, reader=load):
    """Check that reading raises a ValueError and takes little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match):
            reader(io.BytesIO(given))
        assert tracemalloc.get_traced_memory()[1] < TAKEN + 4 * len(given)
    finally:
        tracemalloc.stop()


def with_header(part, **values):
    """An array in NumPy's format with another header."""
    size = int.from_bytes(part[8:10], "little")
    header = np.lib.format.read_array_header_1_0(io.BytesIO(part[8:]))
    known = dict(zip(("shape", "fortran_order", "descr"), header, strict=True)) | values
    known["descr"] = known["descr"] if isinstance(known["descr"], str) else known["descr"].str
    text = repr(known).ljust(size).encode()
    return part[:8] + len(text).to_bytes(2, "little") + text + part[10 + size :]


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        {"shape": (10**12,)},
        {"shape": (10**12, 0)},
        {"shape": (-1,)},
        {"shape": (2**62, 2**62)},
        {"descr": "<U0", "shape": (10**12,)},
        {"descr": "|O"},
        {"descr": "<c16"},
        {"descr": "|V8"},
    ],
    ids=str,
)
def test_headers_that_claim_too_much(values, sealed, content, moments):
    for whole, name, reader in ((content, "f8.npy", load), (moments, "xx.npy", Moments.load)):
        members = members_of(whole)
        odd = rezipped(members | {name: with_header(members[name], **values)}, sealed=sealed)
        refused(odd, r"is damaged", reader)


@pytest.mark.parametrize("order", "<>")
def test_text_that_is_none(order, moments):
    """Numbers beyond Unicode's, which NumPy takes for text until somebody reads it."""
    members = members_of(moments)
    part = with_header(members["columns.npy"], descr=f"{order}U1")
    refused(rezipped(members | {"columns.npy": part[:-8] + b"\xff" * 8}, sealed=True), "is damaged", Moments.load)


def test_members_that_inflate(content, moments):
    """Zeros shrink a thousandfold, and are not unpacked to find that out."""
    text = members_of(content)["fit.json"]
    huge = zipfile.ZIP_DEFLATED
    for whole, name, part, reader in (
        (content, "fit.json", text + bytes(100 << 20), load),
        (content, "f8.npy", bytes(100 << 20), load),
        (moments, "xx.npy", bytes(100 << 20), Moments.load),
    ):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", huge) as archive:
            for other, known in members_of(whole).items():
                archive.writestr(other, part if other == name else known)
        assert len(out.getvalue()) < 1 << 20
        refused(out.getvalue(), "is not as long as it says", reader)


def test_a_length_in_the_directory_that_is_a_lie(content):
    """The member inflates further than the directory says: no further than that is unpacked."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("fit.json", bytes(100 << 20))
    raw = bytearray(out.getvalue())
    at = raw.find(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 1000)
    refused(bytes(raw), "is damaged")


def test_one_array_is_not_many(content):
    def many(text):
        at = next(i for i, entry in enumerate(text["entries"]) if "array" in entry)
        text["entries"] += [text["entries"][at]] * 10_000
        text["root"] = {"list": [{"ref": len(text["entries"]) - i - 1} for i in range(10_000)]}

    refused(changed(content, many), "an array is not complete")


@pytest.mark.parametrize(
    ("offset", "value"), [(8, 1), (8, 0x20), (8, 0x40), (10, 12), (10, 14), (10, 99), (6, 0xFF), (42, 0xFFFFFFFE)]
)
@pytest.mark.parametrize("last", [False, True])
def test_the_directory_says_something_odd(offset, value, last, content, moments):
    """Encryption, patches, other compressions, later versions, places outside the file."""
    for whole, reader in ((content, load), (moments, Moments.load)):
        raw = bytearray(whole)
        at = raw.rfind(b"PK\x01\x02") if last else raw.find(b"PK\x01\x02")
        width = 4 if offset == 42 else 2
        raw[at + offset : at + offset + width] = value.to_bytes(width, "little")
        refused(bytes(raw), "is damaged", reader)


def test_the_end_of_the_directory_points_elsewhere(content, tmp_path):
    for offset in range(4, 22):
        raw = bytearray(content)
        at = raw.rfind(b"PK\x05\x06")
        raw[at + offset] ^= 0x80
        path = tmp_path / "fit"
        path.write_bytes(raw)
        for source in (path, io.BytesIO(raw)):
            found = params_or_refusal(source)
            if isinstance(found, str):
                assert "is damaged" in found
            else:
                np.testing.assert_array_equal(found, load(io.BytesIO(content)).params)


def params_or_refusal(source):
    """The coefficients in a file, or what is said of it."""
    try:
        return load(source).params
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "2", 2.0, True, 0, -1, [2], {"float": "nan"}])
def test_formats_that_are_none(value, content):
    refused(changed(content, lambda text: text.update(format=value)), "is damaged")


def test_an_edited_text_is_noticed(content):
    def edit(text):
        text["entries"].append({"list": []})

    refused(changed(content, edit, sealed=False), "its checksums do not hold")
    members = members_of(content)
    del members[CHECKSUMS]
    refused(rezipped(members, sealed=False), "it has no checksums")
    # The same parts in an archive that another program has made.
    np.testing.assert_array_equal(
        load(io.BytesIO(rezipped(members_of(content), sealed=False))).params, load(io.BytesIO(content)).params
    )


def test_checksums_are_those_of_sha256sum(content):
    lines = members_of(content)[CHECKSUMS].decode().splitlines()
    assert [line[64:66] for line in lines] == ["  "] * len(lines)
    assert {line[66:] for line in lines} == set(members_of(content)) - {CHECKSUMS}


def test_a_text_that_shrinks_a_lot_is_written_so_that_it_is_read():
    rows = 2000
    labels = ["the same label for all rows " * 40] * rows
    frame = pd.DataFrame(
        {"a": np.arange(rows) % 7.0, "y": np.arange(rows) % 7.0 + np.arange(rows) % 3.0}, index=labels
    )
    out = io.BytesIO()
    BayesRidge(frame["y"], frame[["a"]]).fit("em").save(out)
    with zipfile.ZipFile(out) as archive:
        text = archive.getinfo("fit.json")
    assert text.file_size > SMALL
    assert text.file_size <= FOLD * text.compress_size
    assert load(io.BytesIO(out.getvalue())).predict().index.tolist() == labels


def expressions(text):
    """Every factor of the formula in a text of a fit, as the list that holds it."""
    found = []

    def walk(node):
        if isinstance(node, dict | list):
            parts = node.get("list") if isinstance(node, dict) else None
            if parts and len(parts) == 3 and parts[1] in ("python", "lookup", "literal"):
                found.append(parts)
            for one in node.values() if isinstance(node, dict) else node:
                walk(one)

    walk(text["entries"])
    return found


CODE = (
    "__import__('pathlib').Path({!r}).touch()",
    "scale(a.__class__)",
    "a.clip(0, 1)",
    "(lambda: a)()",
    "[a for a in b]",
    "np.load('x')",
    "a if a is b else b",
)


@pytest.mark.parametrize("code", CODE)
def test_an_edited_formula_runs_nothing(code, content, tmp_path, capsys):
    mark = tmp_path / "mark"
    new = make.data().head(3)
    places = sum(parts[1] == "python" for parts in expressions(json.loads(members_of(content)["fit.json"])))
    assert places >= 6
    for place in range(places):

        def edit(text, place=place):
            parts = [parts for parts in expressions(text) if parts[1] == "python"][place]
            parts[0] = code.format(str(mark))

        forged = changed(content, edit)
        with pytest.raises(ValueError, match=r"run other code.*allow_code=True.*--allow-code"):
            load(io.BytesIO(forged))
        path = tmp_path / "forged.fit"
        path.write_bytes(forged)
        assert "allow_code=True" in r_bridge.read_fit(str(path))["error"]
    new.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(path), str(tmp_path / "new.csv")]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert not mark.exists()


def test_a_formula_that_belongs_to_no_model_is_refused(content):
    """An object that only looks like a formula's description would not be checked."""

    def edit(text):
        (entry,) = [entry for entry in text["entries"] if entry.get("class") == "formula.spec.FormulaSpec"]
        entry["class"] = "models.ridge.BayesRidge"

    with pytest.raises(ValueError, match="a formula that belongs to no model"):
        load(io.BytesIO(changed(content, edit)), allow_code=True)


def test_code_that_is_asked_for(tmp_path, capsys):
    """Methods in a formula are evaluated where the user says that the file is trusted."""
    frame = make.data()
    path, table = tmp_path / "a.fit", tmp_path / "new.csv"
    res = BayesRidge.from_formula("y ~ a.clip(-1, 1) + b", frame).fit("em")
    with pytest.warns(DataWarning, match="allow_code=True"):
        res.save(path)
    frame.head(3).to_csv(table, index=False)
    with pytest.raises(ValueError, match=r"'a.clip\(-1, 1\)'.*allow_code=True"):
        load(path)
    wanted = res.predict(frame.head(3))
    for back in (load(path, allow_code=True), type(res).load(path, allow_code=True)):
        np.testing.assert_allclose(back.predict(frame.head(3)), wanted, rtol=1e-12)
    assert main(["predict", str(path), str(table)]) == 2
    assert "--allow-code" in capsys.readouterr().err
    assert main(["predict", str(path), str(table), "--allow-code"]) == 0
    shown = pd.read_csv(io.StringIO(capsys.readouterr().out))
    np.testing.assert_allclose(shown["mean"], wanted, rtol=1e-6)
    answer = r_bridge.read_fit(str(path), allow_code=True)
    rows = {name: frame[name].head(3).tolist() for name in ("a", "b")}
    assert "allow_code=True" in r_bridge.code_rows(answer["value"]["coding"], rows)["error"]
    coded = r_bridge.code_rows(answer["value"]["coding"], rows, True)["value"]["x"]
    np.testing.assert_allclose(coded, np.c_[frame["a"].clip(-1, 1), frame["b"]][:3])
    page = {"path": str(tmp_path / "r.html"), "alpha": 0.05}
    assert "allow_code=True" in r_bridge.report_saved(str(path), page)["error"]


KNOWN = [
    "y ~ a + b",
    "y ~ bs(a, df=4) + C(site, contr.sum):b + scale(c)",
    "y ~ np.exp(a) + I(b**2) + poly(c, 2) + {a * b}",
    "y ~ log1p(b ** 2) + np.exp(c - shift) + a * site",
    "y ~ 0 + C(g) + hashed(site, levels=3) + lag(a) + np.where(a > 0, a, knot)",
    "y ~ C(site, levels=levels) + b:flag + center(a)",
    "y ~ np.exp(`a b`) + scale(`a b`) + I(`~t` * a)",
]


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.DataWarning")
@pytest.mark.parametrize("formula", KNOWN)
def test_formulas_that_only_compute_need_no_leave(formula):
    log1p, shift, knot, levels = np.log1p, 0.5, 1.5, ["x", "y", "z"]  # noqa: F841
    frame = make.data().assign(**{"a b": lambda data: data["a"] + data["b"], "~t": 0.5})
    out = io.BytesIO()
    res = BayesRidge.from_formula(formula, frame).fit("em")
    res.save(out, remove_data=True)
    np.testing.assert_allclose(
        load(io.BytesIO(out.getvalue())).predict(frame.head(9)), res.predict(frame.head(9)), rtol=1e-9
    )


def test_a_file_of_the_first_format_needs_no_checksums():
    folder = make.FOLDER.parent / "format1"
    assert portable.FORMAT > 1
    assert CHECKSUMS not in members_of((folder / "ridge_em.fit").read_bytes())
    assert load(folder / "ridge_em.fit").nobs == len(make.data())

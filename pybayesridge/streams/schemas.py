"""Files of one dataset: which columns each of them has, and a type that holds the values of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pybayesridge.text import listed


def common_schema(dataset: Any) -> Any:
    """The schema of a dataset with every column of every file, of a type that holds what all files have.

    Integers and floats go together, and so do text and dictionaries of text. Where types do not go together the first
    one stays, and :func:`check_files` refuses the column if it is used.
    """
    import pyarrow as pa

    schema = dataset.schema
    kinds: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    for _, physical in _files(dataset):
        for field in physical:
            marks.setdefault(field.name, {}).update(field.metadata or {})
            known = kinds.get(field.name)
            common = field.type if known is None else common_type(known, field.type)
            kinds[field.name] = known if common is None else common
    keys = [field for field in schema if field.name not in kinds]
    fields = [pa.field(name, kind, metadata=marks[name]) for name, kind in kinds.items()] + keys
    return pa.schema(fields, metadata=schema.metadata)


def check_files(dataset: Any, columns: Iterable[str], *, own: bool) -> None:
    """Refuse a dataset of which a file lacks one of the columns, or has it as another kind of values.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
    columns : iterable of str
        Those that are read.
    own : bool
        Whether the schema is that of :func:`common_schema` and not one that the user chose.

    Raises
    ------
    ValueError
        Naming the file and the column.
    """
    seen: dict[str, tuple[str, Any]] = {}
    for fragment, physical in _files(dataset):
        name = _name(fragment)
        keys = _keys(fragment)
        for column in columns:
            at = physical.get_field_index(column)
            if at < 0 and column not in keys:
                raise ValueError(
                    f"{name} lacks the column {column!r}, which other files have; it has "
                    f"{listed([*physical.names, *keys])}. Add the column, or leave the file out"
                )
            if at < 0 or not own:
                continue
            kind = physical.field(at).type
            first = seen.setdefault(column, (name, kind))
            if common_type(first[1], kind) is None:
                raise ValueError(
                    f"the column {column!r} has the type {first[1]} in {first[0]} and {kind} in {name}: write both "
                    "files with one type"
                )
            if _is_null(first[1]):
                seen[column] = (name, kind)


def common_type(one: Any, other: Any) -> Any:
    """A type that holds the values of both, or None where they are of different kinds."""
    import pyarrow as pa

    if one == other or _is_null(other):
        return one
    if _is_null(one):
        return other
    if _is_number(one) and _is_number(other):
        whole = pa.types.is_integer(one) and pa.types.is_integer(other)
        return pa.float64() if not whole or pa.uint64() in (one, other) else pa.int64()
    if _holds_text(one) and _holds_text(other):
        both = pa.types.is_dictionary(one) and pa.types.is_dictionary(other)
        return pa.dictionary(pa.int32(), pa.string(), one.ordered and other.ordered) if both else pa.large_string()
    return None


def is_text(kind: Any) -> bool:
    """Whether a type is plain text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_dictionary(kind: Any) -> bool:
    """Whether a type holds codes and a dictionary."""
    import pyarrow as pa

    return bool(pa.types.is_dictionary(kind))


def is_numeric(kind: Any) -> bool:
    """Whether a type holds numbers or truth values."""
    import pyarrow as pa

    return _is_number(kind) or bool(pa.types.is_boolean(kind))


def _holds_text(kind: Any) -> bool:
    import pyarrow as pa

    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_null(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_null(kind))


def _files(dataset: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a dataset that have rows, each with its own schema; without the columns that its folders give."""
    for fragment in _unfiltered(dataset).get_fragments():
        if fragment.count_rows():
            yield fragment, fragment.physical_schema


def _unfiltered(dataset: Any) -> Any:
    """The dataset itself, or for one with a filter, which does not show its parts, the one of the same files."""
    import pyarrow.dataset as ds

    try:
        dataset.get_fragments()
    except ValueError:
        if not isinstance(dataset, ds.FileSystemDataset):
            return ds.dataset([])
        return ds.dataset(
            dataset.files,
            schema=dataset.schema,
            format=dataset.format,
            filesystem=dataset.filesystem,
            partitioning=dataset.partitioning,
        )
    return dataset


def _keys(fragment: Any) -> dict[str, Any]:
    import pyarrow.dataset as ds

    return dict(ds.get_partition_keys(fragment.partition_expression))


def _name(fragment: Any) -> str:
    return str(getattr(fragment, "path", "a part of the dataset"))

"""Parquet files (`minrisk[parquet]`), whose columns are the fields of JSON lines.

Other modules only see lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import Any

from minrisk._core.errors import InputError, MinriskError, needs_extra
from minrisk.io.files import Input, as_input_error
from minrisk.io.records import error_location

TEXTS = frozenset({"samples", "hypotheses", "references", "source", "prompt"})
_ROWS = 64  # rows per read; a row may hold thousands of samples
_ROW_GROUP = 1 << 24  # characters of JSON per row group


class ParquetInput(Input):
    """The rows of a Parquet file as JSON lines."""

    has_fields = True

    def __iter__(self) -> Iterator[bytes]:
        for row in self._rows():
            with error_location(self.where):
                fields = {name: _plain(value, name) for name, value in row.items()}
            text = json.dumps(fields, ensure_ascii=False, default=str)
            yield text.encode("utf-8", "surrogateescape")

    def _rows(self) -> Iterator[dict[str, Any]]:
        pyarrow, parquet = pyarrow_modules()
        try:
            with as_input_error("read", self.path), self._open() as stream:
                file = parquet.ParquetFile(stream)
                for batch in file.iter_batches(_ROWS):
                    for row in batch.to_pylist():
                        self.number += 1
                        if self.size is not None:
                            self.consumed = self.size * self.number // file.metadata.num_rows
                        yield row
        except MinriskError:
            raise
        except (pyarrow.ArrowException, ValueError, OverflowError) as error:
            # also for values that Python cannot represent: invalid UTF-8, dates out of range
            raise InputError(f"{self.name}: unreadable Parquet: {error}; "
                             "copy or make the file again") from None


def _plain(value: Any, column: str) -> Any:
    """The value, with bytes (as written by Spark and Impala) decoded to text."""
    if isinstance(value, list | tuple):  # a map is a list of pairs
        return [_plain(item, column) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, column) for name, item in value.items()}
    if isinstance(value, bytes):
        return _decoded(value, column)
    if column in TEXTS and not isinstance(value, str | None):
        raise InputError(f"column {column!r} has values of type {type(value).__name__}, expected "
                         "texts")
    return value


def _decoded(value: bytes, column: str) -> str:
    try:
        # invalid bytes are kept, so that the row fails as in JSON lines
        return value.decode("utf-8", "surrogateescape" if column in TEXTS else "strict")
    except UnicodeDecodeError:
        raise InputError(f"column {column!r} has bytes that are no UTF-8 text; convert it, or "
                         "leave it out") from None


def write_parquet(path: str, lines: Callable[[], Iterable[str]]) -> None:
    """Write JSON lines as rows; `lines` is called twice, first to infer the types of the columns.

    A column without a common type becomes text, with non-text values as JSON.
    """
    pyarrow, parquet = pyarrow_modules()
    types: dict[str, Any] = {}
    for rows in _batches(lines()):
        for name, found in _types(rows).items():
            types[name] = _common_type(name, types.get(name, found), found)
    schema = pyarrow.schema(list(types.items()))
    with as_input_error("write", path), parquet.ParquetWriter(path, schema) as writer:
        for rows in _batches(lines()):
            columns = [pyarrow.array(_values(rows, name, kind), kind)
                       for name, kind in types.items()]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def _batches(lines: Iterable[str]) -> Iterator[list[dict[str, Any]]]:
    rows, size = list[dict[str, Any]](), 0
    for line in chain.from_iterable(text.split("\n") for text in lines):
        if line:  # lone surrogates, which UTF-8 cannot encode, are replaced
            rows.append(json.loads(line.encode("utf-8", "replace")))
            size += len(line)
        if size > _ROW_GROUP:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _types(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    pyarrow, _ = pyarrow_modules()
    types = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        try:
            types[name] = pyarrow.array([row.get(name) for row in rows]).type
        except (pyarrow.ArrowException, OverflowError):
            types[name] = pyarrow.string()
    return types


def _common_type(name: str, one: Any, other: Any) -> Any:
    pyarrow, _ = pyarrow_modules()
    try:
        schemas = [pyarrow.schema([(name, kind)]) for kind in (one, other)]
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowException:
        return pyarrow.string()


def _values(rows: Sequence[Mapping[str, Any]], name: str, kind: Any) -> list[Any]:
    pyarrow, _ = pyarrow_modules()
    values = [row.get(name) for row in rows]
    if kind != pyarrow.string():
        return values
    return [value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)
            for value in values]


def pyarrow_modules() -> tuple[ModuleType, ModuleType]:
    """The package for Parquet; raises MissingExtra if it is missing."""
    with needs_extra("a Parquet file", "parquet"):
        return import_module("pyarrow"), import_module("pyarrow.parquet")

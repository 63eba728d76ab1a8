"""Parquet files (`minrisk[parquet]`), whose columns are the fields of JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from minrisk._core.errors import InputError, MinriskError, needs_extra
from minrisk.io.files import Input, as_input_error, open_file
from minrisk.io.record import error_location

TEXTS = frozenset({"samples", "hypotheses", "references", "source", "prompt"})
_ROWS = 64  # read at a time; a row may hold thousands of samples


def is_parquet(path: str) -> bool:
    return path.endswith(".parquet")


class ParquetInput(Input):
    """The rows of a Parquet file as JSON lines."""

    has_fields = True

    def __iter__(self) -> Iterator[bytes]:
        for row in self._rows():
            yield self._line(row)

    def _rows(self) -> Iterator[dict[str, Any]]:
        pyarrow, parquet = _pyarrow()
        try:
            with as_input_error("read", self.path), open_file(self.path) as stream:
                file = parquet.ParquetFile(stream)
                for batch in file.iter_batches(_ROWS):
                    for row in batch.to_pylist():
                        self.number += 1
                        self._consume(file.metadata.num_rows)
                        yield row
        except MinriskError:
            raise
        except (pyarrow.ArrowException, ValueError, OverflowError) as error:
            # also for values that Python cannot represent: invalid UTF-8, dates out of range
            raise InputError(f"{self.name}: unreadable Parquet: {error}; "
                             "copy or make the file again") from None

    def _line(self, row: dict[str, Any]) -> bytes:
        with error_location(self.where):
            fields = {name: _plain(value, name) for name, value in row.items()}
        text = json.dumps(fields, ensure_ascii=False, default=str)
        return text.encode("utf-8", "surrogateescape")

    def _consume(self, rows: int) -> None:
        if self.size is not None:
            self.consumed = self.size * self.number // rows


def _plain(value: Any, column: str) -> Any:
    """The value with bytes, which Spark and Impala write, decoded to text."""
    if isinstance(value, list | tuple):  # a map has pairs
        return [_plain(item, column) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, column) for name, item in value.items()}
    if isinstance(value, bytes):
        return _decoded(value, column)
    if column in TEXTS and not isinstance(value, str | None):
        raise InputError(f"column {column!r} has values of type {type(value).__name__}, wanted "
                         "texts")
    return value


def _decoded(value: bytes, column: str) -> str:
    try:
        # invalid bytes are kept, so that the row fails as in JSON lines
        return value.decode("utf-8", "surrogateescape" if column in TEXTS else "strict")
    except UnicodeDecodeError:
        raise InputError(f"column {column!r} has bytes that are no UTF-8 text; convert it, or "
                         "leave it out") from None


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    with needs_extra("a Parquet file", "parquet"):
        return import_module("pyarrow"), import_module("pyarrow.parquet")

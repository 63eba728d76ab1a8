"""Parquet files (`minrisk[parquet]`): the columns are what the fields of JSON lines are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from minrisk.errors import InputError, MissingExtra
from minrisk.io.files import Input, as_input_error, open_file

TEXTS = frozenset({"samples", "hypotheses", "references", "source", "prompt"})
_ROWS = 64  # read at a time; a row may hold thousands of samples


def is_parquet(path: str) -> bool:
    return path.endswith(".parquet")


class ParquetInput(Input):
    """The rows of a Parquet file as JSON lines, which all that reads those can read."""

    has_fields = True

    def __iter__(self) -> Iterator[bytes]:
        pyarrow, parquet = _pyarrow()
        try:
            with as_input_error("read", self.path), open_file(self.path) as stream:
                file = parquet.ParquetFile(stream)
                for batch in file.iter_batches(_ROWS):
                    for row in batch.to_pylist():
                        self.number += 1
                        self._consume(file.metadata.num_rows)
                        yield json.dumps(_plain(row), ensure_ascii=False, default=str).encode()
        except pyarrow.ArrowException as error:
            raise InputError(f"{self.name}: unreadable Parquet: {error}; "
                             "copy or make the file again") from None

    def _consume(self, rows: int) -> None:
        if self.size is not None:
            self.consumed = self.size * self.number // rows


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row with texts where its columns have bytes, as those that Spark and Impala write."""
    return {name: _text(value, name) for name, value in row.items()}


def _text(value: Any, column: str) -> Any:
    if isinstance(value, list):
        return [_text(item, column) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"column {column!r} has bytes that are no UTF-8 text; convert it, or "
                             "leave it out") from None
    if column in TEXTS and not isinstance(value, str | None):
        raise InputError(f"column {column!r} has values of type {type(value).__name__}, wanted "
                         "texts")
    return value


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Parquet files need pyarrow: pip install 'minrisk[parquet]'") from None
    return pyarrow, pyarrow.parquet

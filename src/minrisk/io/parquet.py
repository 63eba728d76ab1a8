"""Parquet files (`minrisk[parquet]`): the columns are what the fields of JSON lines are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import ModuleType

from minrisk.errors import InputError, MissingExtra
from minrisk.io.files import Input, open_file, told

_ROWS = 64  # read at a time; a row may hold thousands of samples


def is_parquet(path: str) -> bool:
    return path.endswith(".parquet")


class ParquetInput(Input):
    """The rows of a Parquet file as JSON lines, which all that reads those can read."""

    has_fields = True

    def __iter__(self) -> Iterator[bytes]:
        pyarrow, parquet = _pyarrow()
        try:
            with told("read", self.path), open_file(self.path) as stream:
                file = parquet.ParquetFile(stream)
                for batch in file.iter_batches(_ROWS):
                    for row in batch.to_pylist():
                        self.number += 1
                        self._consume(file.metadata.num_rows)
                        yield json.dumps(row, ensure_ascii=False, default=str).encode()
        except pyarrow.ArrowException as error:
            raise InputError(f"{self.name}: unreadable Parquet: {error}; "
                             "copy or make the file again") from None

    def _consume(self, rows: int) -> None:
        if self.size is not None:
            self.consumed = self.size * self.number // rows


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra("Parquet files need pyarrow: pip install 'minrisk[parquet]'") from None
    return pyarrow, pyarrow.parquet

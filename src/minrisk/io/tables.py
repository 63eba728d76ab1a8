"""Tables of other packages as records: data frames of pandas and polars, and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def rows_of(items: Any) -> Any:
    """The rows of a table as dictionaries; anything else as it is. No package is imported.

    Missing values, which pandas has as NaN, are None.
    """
    if hasattr(items, "to_batches"):  # Arrow
        return (row for batch in items.to_batches() for row in batch.to_pylist())
    if hasattr(items, "to_pylist"):  # a batch or a column of Arrow
        return items.to_pylist()
    if hasattr(items, "iter_rows"):  # polars
        return iter(items.iter_rows(named=True))
    if hasattr(items, "itertuples"):  # pandas
        return _pandas_rows(items)
    if hasattr(items, "to_list") and hasattr(items, "dtype"):  # a column
        return [value.tolist() if hasattr(value, "tolist") else value for value in items.to_list()]
    return items


def _pandas_rows(table: Any) -> Iterator[dict[str, Any]]:
    names = [str(name) for name in table.columns]
    for row in table.itertuples(index=False, name=None):
        yield {name: None if _is_missing(value) else value
               for name, value in zip(names, row, strict=True)}


def _is_missing(value: Any) -> bool:
    """Whether it is NaN, or pandas' own mark, which is equal to nothing."""
    is_number = isinstance(value, float) or type(value).__name__ in ("NAType", "NaTType")
    return is_number and value is not None and (value != value) is not False

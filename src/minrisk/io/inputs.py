"""What a path names."""

from __future__ import annotations

from minrisk.io.files import Input
from minrisk.io.parquet import ParquetInput, is_parquet


def open_input(path: str) -> Input:
    return ParquetInput(path) if is_parquet(path) else Input(path)

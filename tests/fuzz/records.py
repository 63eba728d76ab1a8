"""Records of an input, as readers give them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

from minrisk._core.errors import InputError
from minrisk.io.inputs import InputFile
from minrisk.io.records import RawRecord, Reader, Record


def files(path: Path) -> tuple[InputFile, ...]:
    return (InputFile.at(str(path)),)


def read(reader: Reader) -> tuple[list[RawRecord], str | None]:
    """The records of the input, and what it breaks off with."""
    found: list[RawRecord] = []
    try:
        for raw in reader.records(reader.open()):
            found.append(raw)
    except InputError as error:
        return found, str(error)
    return found, None


def parse(reader: Reader, raws: Sequence[RawRecord]) -> list[Record]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of what is not used
        return [reader.parse(raw) for raw in raws]


def check_ids(records: Sequence[Record]) -> None:
    for record in records:
        if record.error is None:
            json.dumps(record.id, allow_nan=False)  # which it must keep in the output

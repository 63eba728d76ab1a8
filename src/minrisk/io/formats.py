"""Formats of outputs: how the rows of a record are written, and which options have no place there.

To add one, write its class here, name it in `FORMATS`, and in the types of the options that offer
it. Lines are rendered where the work is done, and wait in a journal until their file is written.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from itertools import chain, islice
from typing import Any, ClassVar, Literal

from minrisk._core.arrays import finite_numbers
from minrisk._core.errors import InputError, Wording
from minrisk.io.files import EXTENSIONS, Output
from minrisk.io.inputs import JSON
from minrisk.io.parquet import check_parquet, write_parquet

ChoiceFormat = Literal["json", "text", "csv"]
TrainingFormat = Literal["json", "tsv", "csv"]
Row = Mapping[str, Any]
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_TEXTS_PER_WRITE = 64


class OutputFormat:
    """A format of outputs."""

    name: ClassVar[str]
    extension: ClassVar[str]
    holds: ClassVar[str]  # what it has place for, for messages
    refused: ClassVar[Sequence[str]] = ()  # options whose results it has no place for
    is_nested: ClassVar[bool] = False  # a record is one row, which may have lists in it
    title: ClassVar[str] = ""  # of a format that the name of a file may choose, not JSON lines
    is_counted: ClassVar[bool] = False  # records are found by counting lines: all have as many

    @property
    def rendered(self) -> str:
        """The name of the format of lines in journals."""
        return self.name

    def header(self, columns: Sequence[str]) -> str:
        """What a file of rows with these columns begins with."""
        return ""

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        """The rows of a record; `lines` is their number for a format where it is always the same.

        A record that failed has one row, with its "id" and its "error".
        """
        raise NotImplementedError

    def write(self, path: str, name: str, texts: Callable[[], Iterable[str]], header: str) -> None:
        """Write a file that will have this name; `texts` gives all rendered lines."""
        content = chain([header], texts())
        with Output(path, name=name) as output:
            while some := list(islice(content, _TEXTS_PER_WRITE)):
                output.write("".join(some))

    def check_installed(self) -> None:
        """Raise MissingExtra if a package that writes it is missing."""

    def check(self, *given: object) -> None:
        """Raise InputError if options are given that it has no place for.

        Each of `given` is a dataclass with options.
        """
        values = {name: value for options in given for name in self.refused
                  if (value := getattr(options, name, None)) is not None}
        if any(values.values()):
            *others, last = (f"{name}=" for name in self.refused if name in values)
            named = f"{', '.join(others)} and {last} need" if others else f"{last} needs"
            raise InputError(Wording(f"format={self.name!r} has {self.holds}; {named} "
                                     "format='json'"))

    def named(self, path: str | None) -> OutputFormat:
        """The format of a file of this name; InputError if that is another one."""
        stem = stem_of(path or "")[0]
        named = next((found for found in FORMATS.values()
                      if found.title and stem.endswith(found.extension)), self)
        if named.name == self.name:
            return self
        if self.name != "json":
            raise InputError(Wording(f"{{path}} is {named.title}: give format={named.rendered!r}, "
                                     "or another name", path=path))
        return named


class JsonLines(OutputFormat):
    """An object a line."""

    name = "json"
    extension = ".jsonl"
    holds = "all fields"
    is_nested = True

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        return "".join(map(json_line, rows))


class Parquet(JsonLines):
    """JSON lines, which become rows when their file is written, with the types of all of them."""

    name = "parquet"
    extension = ".parquet"
    title = "Parquet, whose columns are fields"

    @property
    def rendered(self) -> str:
        return "json"

    def write(self, path: str, name: str, texts: Callable[[], Iterable[str]], header: str) -> None:
        write_parquet(path, texts)

    def check_installed(self) -> None:
        check_parquet()


class Text(OutputFormat):
    """The texts alone, one a line."""

    name = "text"
    extension = ".txt"
    holds = "texts only"
    refused = ("utilities", "confidence", "uncertainty", "reference_samples")
    is_counted = True

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        found = [row["text"] for row in rows if row.get("text") is not None]
        return "".join(re.sub(r"\r\n|\r|\n", " ", text) + "\n" for text in found) + "\n" * (
            lines - len(found))


class Tsv(OutputFormat):
    """Values with a tab between them, and no header."""

    name = "tsv"
    extension = ".tsv"
    holds = "a source and a target"
    refused = ("pairs", "conversational")

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        return "".join("\t".join(re.sub(r"[\t\r\n]+", " ", cell(row, name)) for name in columns)
                       + "\n" for row in rows)


class Csv(OutputFormat):
    """Comma-separated values with a header, as RFC 4180 has them."""

    name = "csv"
    extension = ".csv"
    holds = "one value in each column"
    refused = ("utilities", "conversational", "reference_samples")
    title = "CSV"

    def header(self, columns: Sequence[str]) -> str:
        return self.render([{name: name for name in columns}], columns)

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        made = StringIO()
        csv.writer(made).writerows([cell(row, name) for name in columns] for row in rows)
        return made.getvalue()


FORMATS: Mapping[str, OutputFormat] = {found.name: found for found in (
    JsonLines(), Text(), Tsv(), Csv(), Parquet())}
JSON_LINES = FORMATS["json"]


def json_line(fields: Row) -> str:
    try:
        line = _JSON.encode(fields)
    except ValueError:  # a copied field may hold NaN or an infinity
        line = json.dumps(finite_numbers(fields), ensure_ascii=False)
    return line + "\n"


def cell(row: Row, column: str) -> str:
    """The value of a column as text; a missing one is empty."""
    value = row.get(column)
    if value is None:
        return ""
    return value if isinstance(value, str) else _JSON.encode(value)


def stem_of(name: str) -> tuple[str, str]:
    """The name of a file without the extension of its compression, and this extension."""
    compression = next((e for e in EXTENSIONS if name.endswith(e)), "")
    return name.removesuffix(compression), compression


def renamed(name: str, format: OutputFormat) -> str:
    """The name of the shard of an input: `a.txt.gz` becomes `a.jsonl.gz`; Parquet stays Parquet."""
    stem, compression = stem_of(name)
    if format.name == "json" and name.endswith(Parquet.extension):
        return name
    for known in (*JSON, *(found.extension for found in FORMATS.values())):
        stem = stem.removesuffix(known)
    return stem + format.extension + compression

"""Output formats: how the rows of a record are written, and which options a format cannot express.

To add one, write its class here, and add it to `FORMATS` and to the types of the options that offer
it; their help follows. Workers render lines, which are kept in a journal until their file is
written.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import StringIO
from itertools import chain, islice
from typing import Any, ClassVar, Literal, get_args

from minrisk._core.arrays import finite_numbers
from minrisk._core.errors import InputError, Wording
from minrisk._core.options import explained
from minrisk.io.files import EXTENSIONS, Output
from minrisk.io.inputs import JSON, PARQUET

# for `sample`, `decode`, `translate` and `answer`
ChoiceFormat = Literal["json", "text", "csv"]
TrainingFormat = Literal["json", "tsv", "csv"]  # for `export`
Row = Mapping[str, Any]
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_TEXTS_PER_WRITE = 64  # records written, and compressed, at once


class OutputFormat:
    """A format of outputs."""

    name: ClassVar[str]
    extension: ClassVar[str]
    title: ClassVar[str]  # what a file is, for messages and help
    holds: ClassVar[str]  # what it can express, for messages
    refused: ClassVar[Sequence[str]] = ()  # options whose results it cannot express
    is_nested: ClassVar[bool] = False  # a record is one row, whose values may be lists
    is_named: ClassVar[bool] = False  # the extension of a file selects it
    is_counted: ClassVar[bool] = False  # all records have the same number of lines

    @property
    def rendered(self) -> str:
        """The name of the format in which lines are rendered for the journal."""
        return self.name

    def header(self, columns: Sequence[str]) -> str:
        """The beginning of a file of rows with these columns."""
        return ""

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        """The rows of a record as text; `lines` is their number in formats where it is fixed.

        A failed record has one row, with "id" and "error".
        """
        raise NotImplementedError

    def write(self, path: str, name: str, texts: Callable[[], Iterable[str]], header: str) -> None:
        """Write a file that will get this name; `texts` returns all rendered lines."""
        content = chain([header], texts())
        with Output(path, name=name) as output:
            while some := list(islice(content, _TEXTS_PER_WRITE)):
                output.write("".join(some))

    def check_installed(self) -> None:
        """Raise MissingExtra if a package is missing; asked of formats that a name selects."""

    def check(self, *given: object) -> None:
        """Raise InputError if dataclasses of options set what the format cannot express."""
        values = {name: value for options in given for name in self.refused
                  if (value := getattr(options, name, None)) is not None}
        if any(values.values()):
            *others, last = (f"{name}=" for name in self.refused if name in values)
            named = f"{', '.join(others)} and {last} need" if others else f"{last} needs"
            raise InputError(Wording(f"format={self.name!r} has {self.holds}; {named} "
                                     "format='json'"))

    def named(self, path: str | None) -> OutputFormat:
        """The format for a file of this name; InputError if the name contradicts this format."""
        stem = stem_of(path or "")[0]
        named = next((found for found in FORMATS.values()
                      if found.is_named and stem.endswith(found.extension)), self)
        if named.name == self.name:
            return self
        if self.name != "json":
            raise InputError(Wording(f"{{path}} is {named.title}: give format={named.rendered!r}, "
                                     "or another name", path=path))
        named.check_installed()
        return named


class JsonLines(OutputFormat):
    """One JSON object per line."""

    name = "json"
    extension = ".jsonl"
    title = "JSON lines"
    holds = "all fields"
    is_nested = True

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        return "".join(map(json_line, rows))


class Parquet(JsonLines):
    """Rows of a Parquet file; kept as JSON lines until all types of the columns are known."""

    name = "parquet"
    extension = PARQUET
    title = "Parquet, whose columns are fields"
    is_named = True

    @property
    def rendered(self) -> str:
        return "json"

    def write(self, path: str, name: str, texts: Callable[[], Iterable[str]], header: str) -> None:
        from minrisk.io.parquet import write_parquet  # few runs need it

        write_parquet(path, texts)

    def check_installed(self) -> None:
        from minrisk.io.parquet import pyarrow_modules

        pyarrow_modules()


class Text(OutputFormat):
    """Texts only, one per line."""

    name = "text"
    extension = ".txt"
    title = "lines of text"
    holds = "texts only"
    refused = ("utilities", "confidence", "uncertainty", "reference_samples")
    is_counted = True

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        texts = [row["text"] for row in rows if row.get("text") is not None]
        return "".join(re.sub(r"\r\n|\r|\n", " ", text) + "\n" for text in texts) + "\n" * (
            lines - len(texts))


class Tsv(OutputFormat):
    """Tab-separated values without a header."""

    name = "tsv"
    extension = ".tsv"
    title = "tab-separated values"
    holds = "a source and a target"
    refused = ("pairs", "conversational")

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        return "".join("\t".join(re.sub(r"[\t\r\n]+", " ", cell(row, name)) for name in columns)
                       + "\n" for row in rows)


class Csv(OutputFormat):
    """Comma-separated values with a header (RFC 4180)."""

    name = "csv"
    extension = ".csv"
    holds = "one value in each column"
    refused = ("utilities", "conversational", "reference_samples")
    title = "CSV with a header"
    is_named = True

    def header(self, columns: Sequence[str]) -> str:
        return self.render([{name: name for name in columns}], columns)

    def render(self, rows: Iterable[Row], columns: Sequence[str] = (), lines: int = 0) -> str:
        made = StringIO()
        csv.writer(made).writerows([cell(row, name) for name in columns] for row in rows)
        return made.getvalue()


FORMATS: Mapping[str, OutputFormat] = {
    "json": JsonLines(), "text": Text(), "tsv": Tsv(), "csv": Csv(), "parquet": Parquet()}
JSON_LINES = FORMATS["json"]


def format_help(names: Any) -> str:
    """The help of an option that offers these formats."""
    return f"Output format: {explained({name: FORMATS[name].title for name in get_args(names)})}."


def json_line(fields: Row) -> str:
    try:
        line = _JSON.encode(fields)
    except ValueError:  # a copied field may contain NaN or infinity
        line = json.dumps(finite_numbers(fields), ensure_ascii=False)
    return line + "\n"


def cell(row: Row, column: str) -> str:
    """The value of a column as text; empty if it is missing."""
    value = row.get(column)
    if value is None:
        return ""
    return value if isinstance(value, str) else _JSON.encode(value)


def stem_of(name: str) -> tuple[str, str]:
    """The name of a file without its compression extension, and this extension."""
    compression = next((e for e in EXTENSIONS if name.endswith(e)), "")
    return name.removesuffix(compression), compression


def renamed(name: str, format: OutputFormat) -> str:
    """The output name for an input: `a.jsonl.gz` for `a.txt.gz`; Parquet stays Parquet."""
    stem, compression = stem_of(name)
    if format.name == "json" and name.endswith(Parquet.extension):
        return name
    for known in (*JSON, *(found.extension for found in FORMATS.values())):
        stem = stem.removesuffix(known)
    return stem + format.extension + compression

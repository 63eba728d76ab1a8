"""Plain text: N lines of hypotheses per segment, the format of mbrs and comet-mbr.

Further files have a fixed number of lines per segment: sources, references, log-probabilities.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import Any, ClassVar, NamedTuple

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.options import Options, option
from minrisk._core.segment import Segment
from minrisk.io.files import Input, text_of
from minrisk.io.inputs import InputFile, input_files
from minrisk.io.records import RawRecord, Record, checksum, error_location, location
from minrisk.io.weighting import AUTO, Weighting

FilePath = str | os.PathLike[str]
_COLUMNS = ("source", "references", "reference_lprobs")


@dataclass(frozen=True)
class Column:
    """Files with the same number of lines for every segment."""

    files: tuple[InputFile, ...]
    size: int
    option: str  # named in the message if the number of lines is wrong
    name: str = ""  # the option that names the files

    def of_shard(self, number: int) -> Column:
        """The column with only the file for the input file of this number."""
        if number >= len(self.files):
            raise InputError(Wording(self.name + "= names {count} files; for a folder as output, "
                                                 "expected one per input, in the same order",
                                     count=len(self.files)))
        return replace(self, files=self.files[number:number + 1])

    def open(self) -> list[Input]:
        inputs = [file.open() for file in self.files]
        for source in inputs:
            if source.has_fields:
                raise InputError(Wording("{name} has fields, as JSON lines do; for JSON lines, "
                                         "leave out num_candidates=", name=source.name))
        return inputs


class Lines(NamedTuple):
    """The lines of one segment in one file."""

    file: str
    first: int
    lines: list[bytes]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def where(self) -> str:
        return location(self.file, self.first, self.last)

    def texts(self) -> list[str]:
        texts = []
        for number, line in enumerate(self.lines, self.first):
            with error_location(f"{self.file}:{number}"):
                texts.append(text_of(line, number))
        return texts

    def numbers(self) -> list[float]:
        return [_number(text, f"{self.file}:{number}")
                for number, text in enumerate(self.texts(), self.first)]


@dataclass(frozen=True)
class TextReader:
    """A reader of plain text: hypotheses and further columns."""

    hypotheses: Column
    source: Column | None = None
    references: Column | None = None
    logprobs: Column | None = None  # log-probabilities of the references
    weighting: Weighting = AUTO

    @property
    def columns(self) -> list[Column | None]:
        return [self.hypotheses, self.source, self.references, self.logprobs]

    @property
    def files(self) -> tuple[InputFile, ...]:
        return tuple(file for column in self.columns if column for file in column.files)

    def open(self) -> list[Input]:
        return [source for column in self.columns if column for source in column.open()]

    def records(self, inputs: list[Input]) -> Iterator[RawRecord]:
        opened = iter(inputs)
        read = [_ColumnReader(c, list(islice(opened, len(c.files)))) if c else None
                for c in self.columns]
        for index, row in enumerate(zip_longest(*(c or () for c in read))):
            if any(part is None and c is not None for part, c in zip(row, read, strict=True)):
                raise _mismatch([c for c in read if c])
            hyps: Lines = row[0]
            given = chain.from_iterable(part.lines for part in row if part is not None)
            yield RawRecord(index, hyps.file, hyps.first, row, checksum(*given))

    def shards(self) -> list[TextReader]:
        columns = {name: column for name in ("hypotheses", "source", "references", "logprobs")
                   if (column := getattr(self, name)) is not None}
        return [replace(self, **{name: column.of_shard(number) for name, column in columns.items()})
                for number in range(len(self.hypotheses.files))]

    def parse(self, raw: RawRecord) -> Record:
        hyps, source, refs, logprobs = raw.content
        record = Record.of(raw, hyps.last)
        try:
            return record.replace(segment=Segment(
                hyps.texts(),
                refs.texts() if refs else None,
                source.texts()[0] if source else None,
                self._weights(logprobs, refs or hyps) if logprobs else None,
                raw.index,
            ))
        except InputError as error:
            return record.failed(error)

    def _weights(self, logprobs: Lines, references: Lines) -> Floats:
        numbers = logprobs.numbers()
        with error_location(logprobs.where):
            return self.weighting.of(numbers, references.texts())


class _ColumnReader:
    """Reads the lines of a column, segment by segment, and counts the segments."""

    def __init__(self, column: Column, inputs: Sequence[Input]) -> None:
        self._column = column
        self._inputs = inputs
        self._count = 0
        self._groups = self._read()

    def __iter__(self) -> Iterator[Lines]:
        return self._groups

    def __str__(self) -> str:
        names = " + ".join(source.name for source in self._inputs)
        size = self._column.size
        return f"{names} has {self._count} (of {size} line{'s' * (size > 1)} each)"

    def _read(self) -> Iterator[Lines]:
        size = self._column.size
        for source in self._inputs:
            lines = iter(source)
            while group := list(islice(lines, size)):
                if source.number == len(group):
                    _check_plain(source.name, group[0])
                if len(group) < size:
                    raise InputError(Wording(
                        "{name}: {number} lines cannot be divided into groups of {size}; check "
                        "{option}, or use JSON lines for uneven groups", name=source.name,
                        number=source.number, size=size, option=Wording(self._column.option)))
                self._count += 1
                yield Lines(source.name, source.number - size + 1, group)


def _check_plain(file: str, line: bytes) -> None:
    """Raise InputError if the first line of a file is a segment in JSON."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict) and not fields.keys().isdisjoint(("samples", "hypotheses")):
        raise InputError(Wording("{file} is JSON lines, in which every line has its samples; "
                                 "leave out num_candidates=", file=file))


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: found {text!r:.60}, expected a number") from None


def _mismatch(columns: Iterable[_ColumnReader]) -> InputError:
    for column in columns:
        for _ in column:  # read to the end, to count the segments for the message
            pass
    return InputError("the files have different numbers of "
                      "segments: " + ", ".join(map(str, columns))
                      + "; check that they are from the same corpus, and the numbers of lines per "
                        "segment")


@dataclass(frozen=True)
class TextFiles(Options):
    """Segments in plain text, for `decode_corpus` and `export`: N lines of hypotheses each.

    Args:
        hypotheses: a file, or several, with `num_candidates` lines for every segment.
        num_candidates: number of lines of hypotheses per segment.
        source: file with one line per segment.
        references: file with references, if they are not the hypotheses themselves.
        num_references: number of lines of references per segment; default: `num_candidates`.
        reference_lprobs: file with one log-probability per line, as weights of the references.

    Raises:
        InputError: if an argument is invalid.

    >>> import minrisk, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "hyps.txt")
    ...     _ = path.write_text("the cat\\na cat\\nthe cat\\nyes\\nno\\nyes\\n")
    ...     [r.text for r in minrisk.decode_corpus(TextFiles(path, num_candidates=3))]
    ['the cat', 'yes']
    """

    name: ClassVar[str] = "TextFiles"

    hypotheses: FilePath | Sequence[FilePath]
    num_candidates: int = option(ge=1, help="number of lines of hypotheses per segment")
    source: FilePath | None = None
    references: FilePath | None = None
    num_references: int | None = option(None, ge=1, help="number of lines of references")
    reference_lprobs: FilePath | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.references is None and self.num_references not in (None, self.num_candidates):
            raise InputError(Wording("num_references= needs references=; otherwise the references "
                                     "are the hypotheses"))

    @lazy
    def files(self) -> tuple[InputFile, ...]:
        return _files(self.hypotheses, "hypotheses")

    def further_files(self) -> list[InputFile]:
        return [file for files in self._columns.values() for file in files]

    def settings(self) -> dict[str, Any]:
        """The settings that can change a result, apart from the files' contents."""
        names = (*_COLUMNS, "num_references", "num_candidates")
        given = {name: getattr(self, name) for name in names}
        return {name: os.fspath(value) if isinstance(value, os.PathLike) else value
                for name, value in given.items() if value is not None}

    def reader(self, weighting: Weighting) -> TextReader:
        count = self.num_references or self.num_candidates
        return TextReader(
            Column(self.files, self.num_candidates, "num_candidates="),
            self._column("source", 1, "source="),
            self._column("references", count, "num_references="),
            self._column("reference_lprobs", count, "num_references=")
            if weighting.by != "uniform" else None,
            weighting,
        )

    @lazy
    def _columns(self) -> dict[str, tuple[InputFile, ...]]:
        return {name: _files(getattr(self, name), name) for name in _COLUMNS
                if getattr(self, name) is not None}

    def _column(self, name: str, size: int, option: str) -> Column | None:
        files = self._columns.get(name)
        return Column(files, size, option, name) if files else None


def _files(paths: Any, name: str) -> tuple[InputFile, ...]:
    """The files of one or several paths."""
    is_one = isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable)
    return input_files([paths] if is_one else paths, f"{name} must be the name of a file")

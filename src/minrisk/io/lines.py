"""Plain text: N lines of hypotheses for every line of the source, as mbrs and comet-mbr have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest

from minrisk.arrays import Floats
from minrisk.errors import InputError
from minrisk.io.files import Input
from minrisk.io.record import AUTO, Record, Weighting, placed
from minrisk.segment import Segment


@dataclass(frozen=True)
class _Lines:
    """The lines of one segment in one file, not yet decoded."""

    file: Input
    first: int
    lines: list[bytes]

    @property
    def where(self) -> str:
        last = self.first + len(self.lines) - 1
        return f"{self.file.name}:{self.first}" + (f"-{last}" if last > self.first else "")

    def texts(self) -> list[str]:
        return [self.file.text(line, n) for n, line in enumerate(self.lines, self.first)]

    def numbers(self) -> list[float]:
        return [_number(text, f"{self.file.name}:{n}")
                for n, text in enumerate(self.texts(), self.first)]


class Column:
    """Files that have the same number of lines for every segment."""

    def __init__(self, inputs: Sequence[Input], size: int, option: str) -> None:
        self.size = size
        self.count = 0  # of segments so far
        self._inputs = inputs
        self._option = option  # what to check if the lines do not divide
        for source in inputs:
            if source.has_fields:
                raise InputError(f"{source.name} has fields, wanted plain text; "
                                 "leave --num-candidates out")
        self._groups = self._read()

    def __iter__(self) -> Iterator[_Lines]:
        return self._groups

    def __str__(self) -> str:
        names = " + ".join(source.name for source in self._inputs)
        return f"{names} has {self.count} (of {self.size} line{'s' * (self.size > 1)} each)"

    def _read(self) -> Iterator[_Lines]:
        for source in self._inputs:
            lines = iter(source)
            while group := list(islice(lines, self.size)):
                if len(group) < self.size:
                    raise InputError(
                        f"{source.name}: {source.number} lines do not divide into groups of "
                        f"{self.size}; check {self._option}, or use JSON lines for uneven groups")
                self.count += 1
                yield _Lines(source, source.number - self.size + 1, group)


def read_lines(
    hypotheses: Column,
    source: Column | None = None,
    references: Column | None = None,
    logprobs: Column | None = None,
    weighting: Weighting = AUTO,
) -> Iterator[Record]:
    """A record per segment; log-probabilities, one a line for each reference, become weights."""
    columns = [hypotheses, source, references, logprobs]
    given = [c for c in columns if c is not None]
    rows = zip_longest(*(() if c is None else c for c in columns))
    for index, row in enumerate(rows):
        if any(part is None and c is not None for part, c in zip(row, columns, strict=True)):
            raise _mismatch(given)
        yield _record(weighting, index, *row)


def _record(weighting: Weighting, index: int, hyps: _Lines, source: _Lines | None,
            refs: _Lines | None, logprobs: _Lines | None) -> Record:
    try:
        segment: Segment | InputError = Segment(
            hyps.texts(),
            refs.texts() if refs else None,
            source.texts()[0] if source else None,
            _weights(logprobs, refs or hyps, weighting) if logprobs else None,
            index,
        )
    except InputError as error:
        segment = error
    return Record(index, hyps.where, segment)


def _weights(logprobs: _Lines, references: _Lines, weighting: Weighting) -> Floats:
    numbers = logprobs.numbers()
    with placed(logprobs.where):
        return weighting.of(numbers, references.texts())


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: found {text!r:.60}, wanted a number") from None


def _mismatch(columns: Iterable[Column]) -> InputError:
    for column in columns:
        for _ in column:  # to the end, so that the message can tell how many there are
            pass
    return InputError("the numbers of segments differ: " + ", ".join(map(str, columns))
                      + "; check that the files belong together, and the numbers of lines")

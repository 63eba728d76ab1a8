"""Segments in plain text: files with the same number of lines for every segment."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minrisk._core.errors import InputError, Wording
from minrisk._core.lazy import lazy
from minrisk._core.options import Options, option
from minrisk.io.inputs import InputFile, input_files
from minrisk.io.lines import Column, TextReader
from minrisk.io.record import Weighting

FilePath = str | os.PathLike[str]
_COLUMNS = ("source", "references", "reference_lprobs")


@dataclass(frozen=True)
class TextFiles(Options):
    """Segments in plain text, for `decode_corpus` and `export`: N lines of hypotheses each.

    Args:
        hypotheses: file, or several, with `num_candidates` lines for every segment.
        num_candidates: number of those lines.
        source: file with a line for every segment.
        references: file with references, if they are not the hypotheses themselves.
        num_references: number of its lines for every segment; `num_candidates` unless given.
        reference_lprobs: file with a log-probability per line and reference, which weighs them.

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
        """The settings that can change a result, besides the files themselves."""
        names = (*_COLUMNS, "num_references", "num_candidates")
        given = {name: getattr(self, name) for name in names}
        return {name: os.fspath(value) if isinstance(value, os.PathLike) else value
                for name, value in given.items() if value is not None}

    def reader(self, files: tuple[InputFile, ...], number: int | None,
               weighting: Weighting) -> TextReader:
        """The reader of these files; `number` selects one file of each column, None all."""
        count = self.num_references or self.num_candidates
        return TextReader(
            Column(files, self.num_candidates, "num_candidates="),
            self._column("source", 1, "source=", number),
            self._column("references", count, "num_references=", number),
            self._column("reference_lprobs", count, "num_references=", number)
            if weighting.by != "uniform" else None,
            weighting,
        )

    @lazy
    def _columns(self) -> dict[str, tuple[InputFile, ...]]:
        return {name: _files(getattr(self, name), name) for name in _COLUMNS
                if getattr(self, name) is not None}

    def _column(self, name: str, size: int, option: str, number: int | None) -> Column | None:
        """A further column: all of its files, or the one for the input file of this number."""
        files = self._columns.get(name)
        if files is None or number is None:
            return Column(files, size, option) if files else None
        if number >= len(files):
            raise InputError(Wording(name + "= names {count} files; for a folder as output, "
                                     "one for each input is wanted, in the same order",
                                     count=len(files)))
        return Column(files[number:number + 1], size, option)


def _files(paths: Any, name: str) -> tuple[InputFile, ...]:
    """The files of one path, or of several."""
    is_one = isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable)
    return input_files([paths] if is_one else paths, f"{name} must be the name of a file")

"""The input of `decode`, `export` and `validate`: segments in JSON lines or plain text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minrisk._core.errors import InputError, Wording
from minrisk._core.options import flag
from minrisk.cli.options import argument
from minrisk.io.inputs import input_files
from minrisk.io.text import TextFiles
from minrisk.tasks.corpus import Corpus
from minrisk.tasks.decode import LIMIT_HELP, SegmentOptions, WeightOptions

_TEXT_ONLY = ("source", "references", "reference_lprobs", "num_references")


@dataclass(frozen=True)
class InputOptions:
    inputs: tuple[str, ...] = argument("[INPUT]...")
    input: tuple[str, ...] = flag((), section="Input", hidden=True)  # for configuration files

    def given(self) -> Sequence[str]:
        """The given paths and patterns."""
        return self.inputs or self.input

    def paths(self) -> Sequence[str]:
        """The given paths and patterns; standard input where there are none."""
        paths = self.given()
        if not paths and sys.stdin is not None and sys.stdin.isatty():
            raise InputError("no INPUT was given, and standard input is a terminal; "
                             "name a file, or pipe JSON lines")
        return paths or ["-"]

    def corpus(self) -> Corpus:
        return Corpus(input_files(self.paths()))


@dataclass(frozen=True)
class JsonInput(WeightOptions, InputOptions):
    """Segments in JSON lines, and how their references count."""


@dataclass(frozen=True)
class SegmentInput(SegmentOptions, JsonInput):
    """Segments in JSON lines or, with `num_candidates`, in plain text."""

    num_candidates: int | None = flag(
        None, "-n", "--num-samples", section="Input", metavar="N", ge=1,
        help="Number of lines per segment; INPUT is then plain text instead of JSON lines.")
    source: str | None = flag(None, "-s", "--sources", section="Input", metavar="FILE",
                              help="Sources of plain text, one line per segment.")
    references: str | None = flag(
        None, "-r", section="Input", metavar="FILE",
        help="References of plain text, if not the hypotheses themselves.")
    num_references: int | None = flag(
        None, section="Input", metavar="N", ge=1,
        help="Number of reference lines per segment; as --num-candidates unless given.")
    reference_lprobs: str | None = flag(
        None, section="Input", metavar="FILE", advanced=True,
        help="Log-probabilities of the references of plain text, one per line; they are weights, "
        "unless --weights uniform.")
    limit: int | None = flag(None, section="Input", metavar="N", ge=1, help=LIMIT_HELP)
    # comet-mbr's name for INPUT
    translations: tuple[str, ...] = flag((), "-t", section="Input", hidden=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _TEXT_ONLY:
            if self.num_candidates is None and getattr(self, name) is not None:
                raise InputError(Wording(f"{name}= needs num_candidates=: it is only for plain "
                                         "text"))

    def given(self) -> Sequence[str]:
        return [*self.inputs, *self.translations] or self.input

    def corpus(self) -> Corpus:
        if self.num_candidates is None:
            return replace(super().corpus(), limit=self.limit)
        text = TextFiles(self.paths(), self.num_candidates, self.source, self.references,
                         self.num_references, self.reference_lprobs)
        return Corpus(text.files, text=text, limit=self.limit)

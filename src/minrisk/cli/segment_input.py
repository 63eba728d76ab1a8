"""The input of `decode`, `export` and `validate`: segments in JSON lines or plain text."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from minrisk._core.errors import InputError
from minrisk._core.options import flag
from minrisk.cli.options import argument
from minrisk.io.inputs import InputFile, expand
from minrisk.io.jsonl import SampleReader
from minrisk.io.record import Reader, Weighting
from minrisk.io.text_files import TextFiles

_TEXT_ONLY = ("source", "references", "reference_lprobs", "num_references")


def input_files(paths: Iterable[str]) -> list[InputFile]:
    """The files that paths and patterns name; standard input where there are none."""
    found = expand(paths)
    if not found and sys.stdin is not None and sys.stdin.isatty():
        raise InputError("no INPUT was given, and standard input is a terminal; "
                         "name a file, or pipe JSON lines")
    return [InputFile.at(path) for path in found or ["-"]]


@dataclass(frozen=True)
class InputOptions:
    inputs: tuple[str, ...] = argument("[INPUT]...")
    input: tuple[str, ...] = flag((), section="Input", hidden=True)  # for configuration files

    def files(self) -> list[InputFile]:
        return input_files(self.inputs or self.input)


@dataclass(frozen=True)
class JsonInput(InputOptions):
    """Segments in JSON lines, and how their references count."""

    weights: Literal["auto", "uniform", "logprobs", "length-normalised"] = flag(
        "auto", section="Method",
        help="Weights of the references: the fields `weights` and `counts`; equal; the "
        "probabilities of the texts by `logprobs` (model-based MBR); or these by length.")
    weights_temperature: float | None = flag(
        None, section="Method", metavar="T", gt=0, advanced=True,
        help="Divisor of log-probabilities: above 1, weights are more alike.")

    def __post_init__(self) -> None:
        if self.weights_temperature is not None and not self._has_logprobs:
            raise InputError(f"--weights-temperature {self.weights_temperature} does nothing with "
                             f"--weights {self.weights}; choose logprobs or length-normalised")

    @property
    def _has_logprobs(self) -> bool:
        return self.weighting.by_logprobs

    @property
    def weighting(self) -> Weighting:
        temperature = self.weights_temperature
        return Weighting(self.weights) if temperature is None else Weighting(self.weights,
                                                                             temperature)


@dataclass(frozen=True)
class SegmentInput(JsonInput):
    """Segments in JSON lines or, with `num_candidates`, in plain text."""

    oracle: str | None = flag(
        None, section="Method", metavar="FIELD",
        help="Field with human references to score against instead of samples: an upper bound.")
    num_candidates: int | None = flag(
        None, "-n", "--num-samples", section="Input", metavar="N", ge=1,
        help="Number of lines per segment; INPUT is then plain text instead of JSON lines.")
    source: str | None = flag(None, "-s", section="Input", metavar="FILE",
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
    # comet-mbr's name for INPUT
    translations: tuple[str, ...] = flag((), "-t", section="Input", hidden=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_candidates is None:
            self._check_json()
        else:
            self._check_text()

    def files(self) -> list[InputFile]:
        return input_files([*self.inputs, *self.translations] or self.input)

    def further_files(self) -> list[InputFile]:
        return self._text.further_files() if self._text else []

    def settings(self) -> dict[str, Any]:
        """The options that can change a result."""
        text = self._text.settings() if self._text else {}
        return {"weights": self.weighting, "oracle": self.oracle} | text

    def reader(self, files: tuple[InputFile, ...], number: int | None) -> Reader:
        """The reader of these files: all of the input, or the file of this number."""
        if self._text is None:
            return SampleReader(files, self.weighting, self.oracle)
        return self._text.reader(files, number, self.weighting)

    @property
    def _has_logprobs(self) -> bool:
        return super()._has_logprobs or (self.weights == "auto" and bool(self.reference_lprobs))

    @cached_property
    def _text(self) -> TextFiles | None:
        if self.num_candidates is None:
            return None
        return TextFiles(self.inputs, self.num_candidates, self.source, self.references,
                         self.num_references, self.reference_lprobs)

    def _check_json(self) -> None:
        for name in _TEXT_ONLY:
            if getattr(self, name) is not None:
                raise InputError(f"{_flag(name)} needs --num-candidates: it is only for plain text")
        if self.oracle and self.weighting.by_logprobs:
            raise InputError(f"--weights {self.weights} weighs samples; with --oracle there are "
                             "none to weigh: leave one of them out")

    def _check_text(self) -> None:
        if self.oracle:
            raise InputError("--oracle names a field of JSON lines; for plain text, give the human "
                             "references as --references FILE with --num-references 1")
        if self.weighting.by_logprobs and not self.reference_lprobs:
            raise InputError(f"--weights {self.weights} needs --reference-lprobs "
                             "where INPUT is plain text")
        _ = self._text  # checks the rest


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"

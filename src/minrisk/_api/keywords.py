"""Names and types of options that calls take as keywords, so that editors complete them.

The options themselves are the fields of `RunOptions` and of the dataclasses of strategies and
samplers, which check them (`option_types.py` is written from these); plug-ins have others, which
are given to their constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from minrisk._api.option_types import JobKeywords, SamplerKeywords, StrategyKeywords
from minrisk.io.formats import ChoiceFormat
from minrisk.io.inputs import InputFormat
from minrisk.io.text import FilePath

ShowProgress = bool | Callable[[int, int], object]  # called with segments done and failed so far


class RunKeywords(JobKeywords, total=False):
    """Options of a run, which `minrisk decode --help-all` explains.

    A script that has `workers` begins under `if __name__ == "__main__":`, because they import it.
    `progress` is True for a line on standard error, or a function that is called with the numbers
    of segments that are done and that failed.
    """

    progress: ShowProgress


class DecodeKeywords(RunKeywords, StrategyKeywords, total=False):
    """Options of a run and of its strategy."""

    seed: int


class SampleKeywords(RunKeywords, SamplerKeywords, total=False):
    """Options of a run and of its sampler."""


class ChoiceKeywords(TypedDict, total=False):
    """Options of `translate` and `answer` themselves."""

    weights: Literal["uniform", "logprobs", "length-normalised"]
    format: ChoiceFormat
    nbest: int | None
    utilities: bool
    confidence: bool
    uncertainty: bool
    abstain: float | None
    matrix: FilePath | None
    sampling_workers: int | None
    on_blank: Literal["copy", "fail"]
    input_format: InputFormat
    reference_samples: int | None
    reference_options: Mapping[str, Any] | None


class TranslateKeywords(RunKeywords, SamplerKeywords, StrategyKeywords, ChoiceKeywords,
                        total=False):
    """Options of `translate` and `answer`, of their runs, samplers and strategies."""

"""Names and types of options that calls take as keywords, so that editors complete them.

The options themselves are the fields of `RunConfig` and of the dataclasses of strategies and
samplers, which check them; plug-ins have others, which are given to their constructors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict

from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk.io.prompts import InputFormat
from minrisk.io.text_files import FilePath
from minrisk.io.writer import Format
from minrisk.pipeline.batches import OnError

ShowProgress = bool | Callable[[int, int], object]  # called with segments done and failed so far


class RunKeywords(TypedDict, total=False):
    """Options of a run, which `minrisk decode --help-all` explains.

    A script that has `workers` begins under `if __name__ == "__main__":`, because they import it.
    `progress` is True for a line on standard error, or a function that is called with the numbers
    of segments that are done and that failed.
    """

    workers: int | None
    engine: Literal["local", "ray"] | None
    address: str | None
    gpus_per_worker: float | None
    batch_size: int | None
    threads: int | None
    segment_timeout: float | None
    on_error: OnError
    max_errors: int | None
    resume: bool
    overwrite: bool
    buffer: float
    work: str | None
    progress: ShowProgress


class StrategyKeywords(TypedDict, total=False):
    """Options of the strategies of minrisk, but for the metric and the seed."""

    leave_self_out: bool
    subset: int
    first: bool
    groups: int
    contiguous: bool
    keep: int | None
    coarse: MetricLike | StrategyLike
    fine: StrategyLike
    alpha: float
    start: int
    most: int | None
    resamples: int
    budget: float
    centroids: int
    iterations: int
    factors: int
    ridge: float
    quality: MetricLike
    beta: float
    size: int
    diversity: float
    exchanges: int
    similarity: MetricLike
    threshold: float


class SamplerKeywords(TypedDict, total=False):
    """Options of the samplers of minrisk."""

    model: str
    epsilon: float
    eta: float
    top_k: int | None
    top_p: float | None
    min_p: float
    temperature: float
    beams: int
    vote: str | None
    vote_error: float
    max_tokens: int | None
    min_tokens: int
    source_language: str | None
    target_language: str | None
    prompt: str | None
    system: str | None
    stop: str | None
    overlong: Literal["cut", "error"]
    device: str
    dtype: str
    rows: int | None
    memory: float | None
    endpoint: str | None
    api: Literal["chat", "completions"]
    extra: str | None
    logprobs: bool
    send_seed: bool
    drop_truncated: bool
    per_request: int
    concurrency: int
    timeout: float
    retries: int
    key_variable: str


class DecodeKeywords(RunKeywords, StrategyKeywords, total=False):
    """Options of a run and of its strategy."""

    seed: int


class SampleKeywords(RunKeywords, SamplerKeywords, total=False):
    """Options of a run and of its sampler."""


class ChoiceKeywords(TypedDict, total=False):
    """Options of `translate` and `answer` themselves."""

    weights: Literal["uniform", "logprobs", "length-normalised"]
    format: Format
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

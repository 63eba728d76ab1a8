"""Options that calls take as keywords, for editors and type checkers. Written by `make names`."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from minrisk._core.decoding import MetricLike, StrategyLike
from minrisk.io.text import FilePath
from minrisk.tasks.calls import ShowProgress


class RunKeywords(TypedDict, total=False):
    """Options of a run."""

    workers: int | None
    engine: Literal["local", "ray"] | None
    address: str | None
    gpus_per_worker: float | None
    threads: int | None
    resume: bool
    overwrite: bool
    on_error: Literal["stop", "skip"]
    max_errors: int | None
    batch_size: int | None
    segment_timeout: float | None
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
    writer: MetricLike
    schema: str | None
    numbers: Literal["vote", "median"]
    lists: Literal["elements", "whole"]
    keys: str | None
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
    max_tokens: int | None
    min_tokens: int
    source_language: str | None
    target_language: str | None
    prompt: str | None
    system: str | None
    stop: str | None
    window: int
    overlong: Literal["cut", "error"]
    device: str
    dtype: Literal["auto", "fp32", "bf16", "fp16", "int8"] | str
    rows: int | None
    memory: float | None
    endpoint: str | None
    concurrency: int
    timeout: float
    retries: int
    key_variable: str
    api: Literal["chat", "completions"]
    extra: str | None
    logprobs: bool
    top_logprobs: int | None
    send_seed: bool
    drop_truncated: bool
    vote: str | None
    vote_error: float
    per_request: int


class DecodeKeywords(RunKeywords, StrategyKeywords, total=False):
    """Options of `decode_corpus`."""

    weights: str
    weights_temperature: float | None
    keep_confident: float | None
    oracle: str | None
    uncertainty: bool
    abstain: float | None
    calibration: FilePath | None
    max_error: float | None
    confidence: bool
    seed: int


class DecodeOutputKeywords(DecodeKeywords, total=False):
    """Options of `decode_corpus` with an output."""

    matrix: FilePath | None
    format: Literal["json", "text", "csv"]
    nbest: int | None
    utilities: bool


class ExportKeywords(RunKeywords, StrategyKeywords, total=False):
    """Options of `export`."""

    weights: str
    weights_temperature: float | None
    keep_confident: float | None
    oracle: str | None
    pairs: Literal["best-worst", "best-middle-worst", "consecutive"] | None
    stride: int | None
    prompt: str | None
    conversational: bool
    seed: int


class ExportOutputKeywords(ExportKeywords, total=False):
    """Options of `export` with an output."""

    matrix: FilePath | None
    format: Literal["json", "tsv", "csv"]


class InspectKeywords(RunKeywords, StrategyKeywords, total=False):
    """Options of `inspect`."""

    weights: str
    weights_temperature: float | None
    keep_confident: float | None
    show: int
    title: str | None
    reference_field: str
    validation: FilePath | None
    seed: int


class ValidateKeywords(RunKeywords, total=False):
    """Options of `validate`."""

    weights: str
    weights_temperature: float | None
    keep_confident: float | None
    top: int
    tolerance: float | None
    seed: int
    limit: int | None
    gold: str


class SampleKeywords(RunKeywords, SamplerKeywords, total=False):
    """Options of `sample`."""

    input_format: Literal["auto", "text", "json"]
    on_blank: Literal["copy", "fail"]
    reference_samples: int | None
    reference_options: Mapping[str, Any] | None


class SampleOutputKeywords(SampleKeywords, total=False):
    """Options of `sample` with an output."""

    repeat: bool
    format: Literal["json", "text", "csv"]


class TranslateKeywords(SampleKeywords, StrategyKeywords, total=False):
    """Options of `translate` and `answer`."""

    weights: str
    weights_temperature: float | None
    keep_confident: float | None
    matrix: FilePath | None
    uncertainty: bool
    abstain: float | None
    calibration: FilePath | None
    max_error: float | None
    format: Literal["json", "text", "csv"]
    nbest: int | None
    utilities: bool
    confidence: bool
    sampling_workers: int | None

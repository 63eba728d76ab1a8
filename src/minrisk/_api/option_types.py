"""Keywords of calls that are options of runs, strategies and samplers. Written by `make names`."""

from typing import Literal, TypedDict

from minrisk._core.decoding import MetricLike, StrategyLike


class JobKeywords(TypedDict, total=False):
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
    max_tokens: int | None
    min_tokens: int
    source_language: str | None
    target_language: str | None
    prompt: str | None
    system: str | None
    stop: str | None
    overlong: Literal["cut", "error"]
    device: str
    dtype: Literal["auto", "fp32", "bf16", "fp16"] | str
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
    send_seed: bool
    drop_truncated: bool
    vote: str | None
    vote_error: float
    per_request: int

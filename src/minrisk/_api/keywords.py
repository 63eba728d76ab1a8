"""Names and types of options that calls take as keywords, so that editors complete them.

The options themselves are the fields of `RunConfig` and of the dataclasses of strategies and
samplers, which check them; plug-ins have others, which are given to their constructors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

from minrisk._core.decoding import MetricLike
from minrisk.pipeline.batches import OnError

ShowProgress = bool | Callable[[int, int], object]  # called with segments done and failed so far


class RunKeywords(TypedDict, total=False):
    """Options of a run.

    Args:
        workers: number of worker processes; none unless given. A script that has some begins under
            `if __name__ == "__main__":`, because they import it.
        engine: "local" for worker processes of this machine, one per core, GPU or model; "ray" for
            a Ray cluster.
        address: address of the Ray cluster, or "auto".
        gpus_per_worker: number of GPUs of each worker; may be a fraction.
        batch_size: number of segments per batch; chosen by the metric or the sampler unless given.
        threads: number of threads of each process; one per core unless given.
        segment_timeout: seconds after which a segment fails; it then runs in a worker process.
        on_error: what to do when a segment fails: "skip" gives its error in its place, "stop"
            raises it.
        max_errors: number of failed segments after which the run stops.
        resume: whether to resume an interrupted run; failed segments are tried again.
        overwrite: whether to replace an output that exists.
        buffer: gigabytes of segments that may be in memory at a time.
        work: local folder for unfinished results when the output is a URL.
        progress: True for a line on standard error, or a function that is called with the numbers
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
    coarse: MetricLike
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
    drop_cut: bool
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


class TranslateKeywords(RunKeywords, SamplerKeywords, StrategyKeywords, total=False):
    """Options of a run, of its sampler and of its strategy."""

"""Options of a run: output, workers, and the handling of failures."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

from minrisk._core.options import flag
from minrisk._core.threads import MAX_THREADS, set_threads
from minrisk.pipeline.batches import OnError
from minrisk.pipeline.job import RunConfig, Work
from minrisk.pipeline.stages import Stage
from minrisk.pipeline.workers import WorkerPool

WORKER_OPTIONS = ("workers", "engine", "address", "gpus_per_worker", "buffer", "work")
THREADS_HELP = "Number of threads of each process; one per core unless given."
QUIET_HELP = "Print nothing but errors on standard error."


@dataclass(frozen=True)
class RunOptions(RunConfig):
    output: str = flag(
        "-", "-o", section="Output", metavar="FILE",
        help="Output file, compressed if it ends in .gz, .xz or .zst; or folder (out/, "
        "s3://bucket/out/) with a file for each INPUT; standard output unless given.")
    resume: bool = flag(False, help="Resume an interrupted run; failed segments are tried again.")
    overwrite: bool = flag(False, help="Replace an output that exists.")
    on_error: OnError = flag(
        "skip", help="Action after a failed segment: write its error in its place, or stop.")
    max_errors: int | None = flag(None, metavar="N", ge=0, advanced=True,
                                  help="Number of failed segments after which a run stops.")
    batch_size: int | None = flag(
        None, metavar="B", ge=1, advanced=True,
        help="Number of segments per batch; chosen by the metric or the sampler unless given.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, advanced=True,
                               help=THREADS_HELP)
    segment_timeout: float | None = flag(
        None, metavar="S", gt=0, advanced=True,
        help="Seconds after which a segment fails; it then runs in a worker process.")
    report: str | None = flag(
        None, metavar="FILE", advanced=True,
        help="JSON report of the run: counts, workers, seconds of each stage.")
    config: str | None = flag(None, metavar="FILE",
                              help="YAML file with values of options; the command line wins.")
    quiet: bool = flag(False, "-q", help=QUIET_HELP)
    workers: int | None = flag(
        None, metavar="W", ge=1,
        help="Number of worker processes; unless given, none for a file, and for a folder one per "
        "core, GPU or model.")
    engine: Literal["local", "ray"] | None = flag(
        None, help="Runner: processes of this machine, or a Ray cluster (minrisk[ray]).")
    address: str | None = flag(
        None, metavar="HOST:PORT", advanced=True,
        help="Address of a Ray cluster, or `auto` for the one that this machine is part of; unless "
        "given, Ray runs here for this run only.")
    gpus_per_worker: float | None = flag(None, metavar="G", ge=0, advanced=True,
                                         help="Number of GPUs of each worker; may be a fraction.")
    buffer: float = flag(1.0, metavar="GB", gt=0, advanced=True,
                         help="Gigabytes of segments that may be in memory at a time.")
    work: str | None = flag(
        None, metavar="FOLDER", advanced=True,
        help="Local scratch folder for unfinished results when the output is a URL; in the user's "
        "cache unless given.")

    def apply(self) -> None:
        """Set the threads and the warning filter of this process."""
        if self.quiet:
            warnings.simplefilter("ignore")
        set_threads(self.threads)

    def wants_workers(self, work: Work) -> bool:
        """Whether to start workers: also for a folder, unless a server does the work."""
        return super().wants_workers(work) or (self.is_folder and not work.is_streaming)

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return replace(super().pool(*stages, gpus=gpus), quiet=self.quiet)

"""Options of a run from the command line."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from minrisk._core.options import flag
from minrisk._core.process import set_threads
from minrisk.cli.flags import portable_as_flags
from minrisk.io.writers import Writer
from minrisk.pipeline.job import Job, RunConfig
from minrisk.pipeline.stages import Stage, Write
from minrisk.pipeline.workers import WorkerPool

QUIET_HELP = "Print nothing but errors on standard error."


def apply_quiet(quiet: bool) -> None:
    """Show no warnings, if quiet."""
    if quiet:
        warnings.simplefilter("ignore")


@dataclass(frozen=True)
class RunOptions(RunConfig):
    output: str | None = flag(
        "-", "-o", section="Output", metavar="FILE",
        help="Output file, compressed if it ends in .gz, .xz or .zst; or folder (out/, "
        "s3://bucket/out/) with a file for each INPUT; standard output unless given.")
    report: str | None = flag(
        None, metavar="FILE", advanced=True,
        help="JSON report of the run: counts, workers, seconds of each stage.")
    config: str | None = flag(None, metavar="FILE",
                              help="YAML file with values of options; the command line wins.")
    quiet: bool = flag(False, "-q", help=QUIET_HELP)

    def apply(self) -> None:
        """Set the threads and the warning filter of this process."""
        apply_quiet(self.quiet)
        set_threads(self.threads)

    def wants_workers(self, job: Job) -> bool:
        """Also for a folder, unless a server does the work."""
        return super().wants_workers(job) or (self.is_folder and not job.is_streaming)

    def pool(self, *stages: Stage, gpus: bool = True) -> WorkerPool:
        return replace(super().pool(*stages, gpus=gpus), quiet=self.quiet)

    def write(self, writer: Writer) -> Write:
        """The stage that writes, with flags in its errors."""
        return Write(writer, portable_as_flags())

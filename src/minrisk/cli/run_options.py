"""Options of a run from the command line."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from minrisk._core.options import flag
from minrisk._core.process import set_threads
from minrisk.cli.flags import portable_as_flags
from minrisk.io.writers import Writer
from minrisk.run.options import RunOptions
from minrisk.run.stages import Map, write

QUIET_HELP = "Print nothing but errors on standard error."


def apply_quiet(quiet: bool) -> None:
    """Show no warnings, if quiet."""
    if quiet:
        warnings.simplefilter("ignore")


@dataclass(frozen=True)
class CommandRun(RunOptions):
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

    @property
    def shows_warnings(self) -> bool:
        return not self.quiet

    def wants_workers(self, is_streaming: bool) -> bool:
        """For a folder, unless a server does the work."""
        return self.is_folder and not is_streaming

    def write(self, writer: Writer) -> Map:
        """The stage that writes, with flags in its errors."""
        return write(writer, portable_as_flags())

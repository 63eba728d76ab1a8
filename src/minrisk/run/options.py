"""The options of a run, and the engine and worker pools that they select."""

from __future__ import annotations

import os
import signal
import stat
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import ClassVar, Literal

from minrisk._core.errors import InputError, Wording
from minrisk._core.options import Options, explained, flag
from minrisk._core.process import MAX_THREADS
from minrisk.io import remote
from minrisk.io.writers import Writer
from minrisk.run.stages import Map, OnError, Stage, written
from minrisk.run.workers import Engine, Inline, WorkerPool

# engines are declared here only
EngineName = Literal["local", "ray"]
ENGINES = {  # the class, whose module is imported when it is used, and its title for help
    "local": ("minrisk.run.processes:Processes", "processes on this machine"),
    "ray": ("minrisk.run.ray:Ray", "a Ray cluster; needs minrisk[ray]"),
}
ENGINE_HELP = (
    f"Where workers run: {explained({name: title for name, (_, title) in ENGINES.items()})}."
    " [default: local]")
THREADS_HELP = "Number of threads of each process. [default: one per core]"


@dataclass(frozen=True)
class WorkerOptions(Options):
    """The workers of a run."""

    workers: int | None = flag(
        None, metavar="W", ge=1,
        help="Number of worker processes. [default: 0 for one file; one per core, GPU or model for "
        "a folder]")
    engine: EngineName | None = flag(None, metavar="ENGINE", help=ENGINE_HELP)
    address: str | None = flag(
        None, metavar="HOST:PORT", advanced=True,
        help="Address of a Ray cluster, or `auto` for the one that this machine is part of. "
        "[default: start Ray on this machine for this run]")
    gpus_per_worker: float | None = flag(None, metavar="G", ge=0, advanced=True,
                                         help="Number of GPUs per worker; may be a fraction.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, advanced=True,
                               help=THREADS_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.address and not (self.engine and engine_class(self.engine).takes_address):
            raise InputError(Wording("address= is the address of a Ray cluster; give engine='ray' "
                                     "too"))


@dataclass(frozen=True)
class RunOptions(WorkerOptions):
    """The options of a run: output, workers, and handling of failures."""

    is_command: ClassVar[bool] = False  # rather than a call

    output: str | None = None  # a file, a folder, or "-" (standard output); None: a queue
    quiet: bool = False  # workers show no warnings
    resume: bool = flag(False, help="Resume an interrupted run; retry failed segments.")
    overwrite: bool = flag(False, help="Replace an output that exists.")
    on_error: OnError = flag(
        "skip", help="What to do when a segment fails: stop, or skip it and write its error.")
    max_errors: int | None = flag(None, metavar="N", ge=0, advanced=True,
                                  help="Number of failed segments at which the run stops.")
    batch_size: int | None = flag(
        None, metavar="B", ge=1, advanced=True,
        help="Number of segments per batch. [default: chosen by the metric or the sampler]")
    segment_timeout: float | None = flag(
        None, metavar="S", gt=0, advanced=True,
        help="Time limit per segment in seconds; segments then run in a worker process.")
    buffer: float = flag(1.0, metavar="GB", gt=0, advanced=True,
                         help="Maximum size of the segments in memory, in gigabytes.")
    work: str | None = flag(
        None, metavar="FOLDER", advanced=True,
        help="Local folder for unfinished results when the output is a URL. [default: in the "
        "user's cache]")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segment_timeout is not None and not hasattr(signal, "setitimer"):
            raise InputError(Wording("segment_timeout= is not available on Windows, which has no "
                                     "interval timers; leave it out"))
        if self.resume and self.overwrite:
            raise InputError(Wording("resume= and overwrite= are mutually exclusive; give one of "
                                     "them"))
        if self.is_stream and (self.resume or self.overwrite):
            name = "resume" if self.resume else "overwrite"
            raise InputError(Wording(f"{name}= needs output= to be a file or folder"))

    @property
    def is_folder(self) -> bool:
        return self.output is not None and names_folder(self.output)

    @property
    def is_stream(self) -> bool:
        """Whether the output is a queue, standard output, a pipe or a device: no resuming."""
        return self.output is None or is_stream(self.output)

    @property
    def memory(self) -> int:
        """Bytes of segments that may be in memory."""
        return int(self.buffer * (1 << 30))

    def make_engine(self, is_streaming: bool = False) -> Engine:
        """The engine; without workers, it is this process.

        A command uses workers for a folder, unless the work is done by a server.
        """
        wants_workers = (self.workers or self.gpus_per_worker or self.segment_timeout
                         or (self.is_command and self.is_folder and not is_streaming))
        name = self.engine or ("local" if wants_workers else None)
        made: type[Engine] = Inline if name is None else engine_class(name)
        for option in ("segment_timeout", "gpus_per_worker"):
            if getattr(self, option) and not made.has_processes:
                raise InputError(Wording(f"{option}= needs worker processes, which "
                                         f"engine={name!r} does not have; give engine='local'"))
        return made(self.address, self.memory)

    def pool(self, *stages: Stage) -> WorkerPool:
        return WorkerPool(stages, self.workers, self.threads, self.gpus_per_worker or 0.0,
                          self.quiet, self.segment_timeout)

    def write(self, writer: Writer) -> Map:
        """The stage that writes the output."""
        return Map("render", partial(written, writer, str))


def engine_class(name: str) -> type[Engine]:
    """The engine of this name; raises MissingExtra if a package is missing."""
    module, _, attribute = ENGINES[name][0].partition(":")
    found: type[Engine] = getattr(import_module(module), attribute)
    return found


def reads_remotely(engine: str | None) -> bool:
    """Whether workers, perhaps on other machines, read the input: it cannot be an iterator."""
    return engine is not None and engine in ENGINES and engine_class(engine).reads_remotely


def is_stream(path: str) -> bool:
    """Whether a path is standard output, a pipe or a device."""
    return path == "-" or (not remote.is_url(path) and os.path.exists(path)
                           and not names_folder(path)
                           and not stat.S_ISREG(os.stat(path).st_mode))


def names_folder(path: str) -> bool:
    """Whether a path is a folder; a URL is one if it ends in a slash."""
    return path.endswith("/") or os.path.isdir(path)

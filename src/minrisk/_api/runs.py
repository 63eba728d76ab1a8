"""Common parts of the calls for whole corpora: their options, and the run itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from typing import Any

from minrisk._api.keywords import ShowProgress
from minrisk._api.results import RunSummary
from minrisk._core.decoding import option_names
from minrisk._core.errors import InputError, brief, unknown
from minrisk._core.registry import Registry
from minrisk.io.outputs import QueueSink
from minrisk.io.text import FilePath
from minrisk.run.driver import Job, open_run
from minrisk.run.options import RunOptions
from minrisk.run.progress import RunProgress

RUN_OPTIONS = frozenset(f.name for f in dataclasses.fields(RunOptions)) - {"output"} | {"progress"}


def output_path(output: FilePath | None) -> str | None:
    if output is None:
        return None
    if not isinstance(output, str | os.PathLike):
        raise InputError(f"output must be the name of a file or folder; got {brief(output)}")
    return os.fspath(output)


def run_config(output: FilePath | None, options: Mapping[str, Any]) -> RunOptions:
    """The options of the run, out of all options that were given."""
    own = {name: value for name, value in options.items() if name in RUN_OPTIONS - {"progress"}}
    return RunOptions(output=output_path(output), **own)


def other_options(options: Mapping[str, Any], *owners: Iterable[str]) -> dict[str, Any]:
    """The options that are not those of a run; raises InputError for an unknown name."""
    known = {name for owner in owners for name in owner}
    for name in options:
        if name not in RUN_OPTIONS and name not in known:
            raise unknown("option", name, RUN_OPTIONS | known)
    return {name: value for name, value in options.items() if name not in RUN_OPTIONS}


def field_names(registry: Registry, value: Any, default: str) -> list[str]:
    """The options of something that is given by name, as a class or as an object."""
    if value is None or isinstance(value, str):
        value = registry.recipe(value or default).cls
    return option_names(value)


def iterate(config: RunOptions, job: Job, progress: ShowProgress = False) -> Generator[Any]:
    """The value of each result in input order; records are read on demand."""
    show = CallProgress(progress)
    with open_run(config, job) as run, closing(run.results()) as results:
        assert isinstance(run.sink, QueueSink)
        show.total = run.expected() if progress is True else None
        for result in results:
            show.advance(failed=result.failure is not None)
            while run.sink.queue:
                yield run.sink.queue.popleft().value
    show.finish()


def complete(config: RunOptions, job: Job, progress: ShowProgress = False) -> RunSummary:
    """Write the output; returns a summary of it."""
    show = CallProgress(progress)
    with open_run(config, job) as run, closing(run.results()) as results:
        show.total = run.expected() if progress is True else None
        for result in results:
            show.advance(failed=result.failure is not None)
        counts = dict(run.sink.counts)
        unfinished = list(run.broken.values())
    show.finish()
    return RunSummary(config.output or "", counts.pop("segments", 0), counts.pop("failed", 0),
                      show.seconds, counts, list(job.signatures), unfinished)


class CallProgress(RunProgress):
    """Writes lines on standard error, or calls the function that was given."""

    def __init__(self, show: ShowProgress) -> None:
        if not isinstance(show, bool) and not callable(show):
            raise InputError("progress must be True, False or a function of two numbers; got "
                             f"{brief(show)}")
        super().__init__(quiet=show is not True, live=False)
        self._call: Callable[[int, int], object] | None = None if isinstance(show, bool) else show

    def advance(self, segments: int = 1, failed: int = 0) -> None:
        super().advance(segments, failed)
        if self._call is not None:
            self._call(self.done, self.failed)

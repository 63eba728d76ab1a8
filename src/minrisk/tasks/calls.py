"""Calls for whole corpora: they distribute the keyword options to their owners, and run the job."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeVar

from minrisk._core.adapters import as_sampler
from minrisk._core.decoding import (
    STRATEGY,
    MetricLike,
    SamplerLike,
    StrategyLike,
    check_owners,
    default_sampler,
    make_sampler,
    option_names,
    resolve_strategy,
)
from minrisk._core.errors import InputError, brief, unknown
from minrisk._core.options import Bounds, checked
from minrisk._core.registry import SAMPLERS, STRATEGIES, Registry
from minrisk._core.sampler import Sampler
from minrisk._core.strategy import Strategy
from minrisk.io.outputs import QueueSink
from minrisk.io.records import Record, Result
from minrisk.io.text import FilePath
from minrisk.run.driver import Job, Run, open_run
from minrisk.run.options import RunOptions
from minrisk.run.progress import RunProgress
from minrisk.tasks.results import RunSummary

ShowProgress = bool | Callable[[int, int], object]  # called with segments done and failed so far
_T = TypeVar("_T")


class Call:
    """A call for a corpus: its keyword options, which their owners take one by one, and its run."""

    def __init__(self, output: FilePath | None, options: Mapping[str, Any]) -> None:
        if not isinstance(output, str | os.PathLike | None):
            raise InputError(f"output must be the name of a file or folder; got {brief(output)}")
        self._unclaimed = {**options}
        self._known: set[str] = set()
        self.config = self.take(RunOptions, quiet=False,
                                output=None if output is None else os.fspath(output))
        self._progress: ShowProgress = self.option("progress", False)

    def take(self, owner: type[_T], **given: Any) -> _T:
        """A dataclass filled from the options; `given` sets further fields."""
        names = [name for name in option_names(owner) if name not in given]
        paths_as_text = {name: os.fspath(value) if isinstance(value, os.PathLike) else value
                         for name, value in self._claimed(names).items()}
        return owner(**given, **paths_as_text)

    def option(self, name: str, default: Any = None) -> Any:
        return self._claimed([name]).get(name, default)

    def seed(self) -> int | None:
        found: int | None = checked("seed", self.option("seed"), int | None, Bounds(ge=0))
        return found

    def sampler(self, sampler: SamplerLike | None) -> Sampler:
        """The sampler: made by name with its options, or an object that has them already."""
        default = default_sampler(self._unclaimed.get("endpoint"))
        own = self._claimed(_field_names(SAMPLERS, sampler, default))
        if sampler is None or isinstance(sampler, str):
            return make_sampler(sampler or default, **own)
        found = as_sampler(sampler)
        if own:
            raise InputError(f"{', '.join(own)}: the sampler {found.name!r} already has its "
                             "options; give the sampler by name, or pass these to its constructor")
        return found

    def strategy(self, strategy: StrategyLike | None, metric: MetricLike | None,
                 seed: int | None = None, is_seed_used: bool = False) -> Strategy:
        """The strategy: made by name or class with its options, or an object that has them already.

        It is the last owner of options, so all that remain are unknown. A strategy without a seed
        is accepted if it is given by name, as on the command line, or if the call uses the seed.
        """
        fields = _field_names(STRATEGIES, strategy, STRATEGY)
        own = self._claimed(fields)
        check_owners((), metric, self._unclaimed)
        self.check()
        is_ignored = is_seed_used or strategy is None or isinstance(strategy, str)
        if seed is not None and ("seed" in fields or not is_ignored):
            own["seed"] = seed
        return resolve_strategy(strategy, metric, own)

    def check(self) -> None:
        """Raise InputError for options that nobody has taken."""
        for name in self._unclaimed:
            raise unknown("option", name, self._known)

    def run(self, job: Job, make: Callable[[Record], Any]) -> Generator[Any] | RunSummary:
        """What is made of each record, on demand; with an output, a summary of it."""
        return self.results(job, make) if self.config.output is None else self.complete(job)

    def results(self, job: Job, make: Callable[[Record], Any]) -> Generator[Any]:
        """Yield what is made of each record, in input order; records are read on demand."""
        show = _CallProgress(self._progress)
        job = replace(job, make=make)
        with open_run(self.config, job) as run, closing(show.shown(run)) as results:
            assert isinstance(run.sink, QueueSink)
            for _ in results:
                while run.sink.queue:
                    yield run.sink.queue.popleft().value

    def complete(self, job: Job) -> RunSummary:
        """Write the output, and return a summary of it."""
        show = _CallProgress(self._progress)
        with open_run(self.config, job) as run:
            for _ in show.shown(run):
                pass
            counts = dict(run.sink.counts)
        return RunSummary(self.config.output or "", counts.pop("segments", 0),
                          counts.pop("failed", 0), show.seconds, counts, list(job.signatures),
                          list(run.broken.values()))

    def _claimed(self, names: Iterable[str]) -> dict[str, Any]:
        known = list(names)
        self._known.update(known)
        return {name: self._unclaimed.pop(name) for name in known if name in self._unclaimed}


def _field_names(registry: Registry, value: Any, default: str) -> list[str]:
    """The names of the options of a component, given by name, as a class or as an object."""
    if value is None or isinstance(value, str):
        value = registry.recipe(value or default).cls
    return option_names(value)


class _CallProgress(RunProgress):
    """Writes progress to standard error, or calls the caller's function."""

    def __init__(self, show: ShowProgress) -> None:
        if not isinstance(show, bool) and not callable(show):
            raise InputError("progress must be True, False or a function of two numbers; got "
                             f"{brief(show)}")
        super().__init__(quiet=show is not True, live=False)
        self._call: Callable[[int, int], object] | None = None if isinstance(show, bool) else show

    def shown(self, run: Run) -> Generator[Result]:
        """The results of a run, counted as they are written."""
        self.total = None if self._quiet else run.expected()
        with closing(run.results()) as results:
            for result in results:
                self.advance(failed=result.failure is not None)
                yield result
        self.finish()

    def advance(self, failed: int = 0, **counts: int) -> None:
        super().advance(failed, **counts)
        if self._call is not None:
            self._call(self.done, self.failed)

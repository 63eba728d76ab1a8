"""Common parts of the calls for whole corpora: inputs, options, and the run itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

from minrisk._api.keywords import ShowProgress
from minrisk._api.results import RunSummary
from minrisk._core.errors import InputError, brief, unknown
from minrisk._core.registry import Registry
from minrisk.io.inputs import InputFile, expand
from minrisk.io.jsonl import SampleReader
from minrisk.io.objects import ObjectReader
from minrisk.io.prompts import PromptReader
from minrisk.io.record import Reader
from minrisk.io.sink import QueueSink
from minrisk.io.text_files import FilePath, TextFiles
from minrisk.pipeline.job import RunConfig, Work, open_run
from minrisk.pipeline.progress import RunProgress

RUN_OPTIONS = frozenset(f.name for f in dataclasses.fields(RunConfig)) - {"output"} | {"progress"}


# makes the reader of JSON lines
ReaderFactory = Callable[[tuple[InputFile, ...]], SampleReader | PromptReader]


@dataclass(frozen=True)
class CorpusInput:
    """The input of a call: files, or Python objects."""

    files: Sequence[InputFile]
    objects: Iterable[Any] = ()
    text: TextFiles | None = None  # division of plain text into segments

    def reader(self, lines: ReaderFactory, files: tuple[InputFile, ...],
               number: int | None) -> Reader:
        """The reader of these files; `number` selects one file of each column, None all."""
        found = lines(files)
        if self.text is not None and isinstance(found, SampleReader):
            return self.text.reader(files, number, found.weighting)
        return found if files else ObjectReader(self.objects, found)

    def parser(self, lines: ReaderFactory) -> Reader | None:
        """The reader that worker processes use to parse objects; it holds no objects itself."""
        return None if self.files else ObjectReader((), lines(()))

    @property
    def further_files(self) -> list[InputFile]:
        return self.text.further_files() if self.text else []

    @property
    def settings(self) -> dict[str, Any]:
        return self.text.settings() if self.text else {}


def segment_input(segments: Any, options: Mapping[str, Any]) -> CorpusInput:
    """File names as strings or paths, plain text, or an iterable of segments."""
    if isinstance(segments, TextFiles):
        return CorpusInput(segments.files, text=segments)
    if isinstance(segments, str | os.PathLike):
        return _files([segments])
    first, rest = _peek(segments, "segments must be file names, or an iterable of segments: "
                        "Segment objects, dicts or lists of samples")
    if not isinstance(first, str | os.PathLike):
        return _objects(rest, options)
    try:
        return _files(rest)
    except InputError as error:
        raise InputError(f"{error}; strings are names of files here: for the samples of one "
                         "segment, use minrisk.decode") from None


def prompt_input(prompts: Any, options: Mapping[str, Any]) -> CorpusInput:
    """File names as paths, or an iterable of prompts; a string is a prompt, not a file name."""
    if isinstance(prompts, os.PathLike):
        return _files([prompts])
    first, rest = _peek(prompts, "prompts must be a pathlib.Path of a file, or an iterable of "
                        "prompts: strings, dicts or lists of messages")
    return _files(rest) if isinstance(first, os.PathLike) else _objects(rest, options)


def _objects(objects: Iterable[Any], options: Mapping[str, Any]) -> CorpusInput:
    """Ray reads objects on other nodes, so the iterable is read completely first."""
    return CorpusInput((), tuple(objects) if options.get("engine") == "ray" else objects)


def _peek(items: Any, wanted: str) -> tuple[Any, Iterable[Any]]:
    """The first item, and all of them."""
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise InputError(f"{wanted}; got {brief(items)}")
    if isinstance(items, Collection):  # a collection can be read again
        return next(iter(items), None), items
    iterator = iter(items)
    first = next(iterator, None)
    return first, () if first is None else chain([first], iterator)


def _files(paths: Iterable[Any]) -> CorpusInput:
    names = list(paths)
    for path in names:
        if not isinstance(path, str | os.PathLike):
            raise InputError(f"found {brief(path)} among names of files; give either files or "
                             "objects")
    files = [InputFile.at(path) for path in expand(map(os.fspath, names))]
    for file in files:
        file.open()  # raises InputError if it does not exist; nothing is read
    return CorpusInput(files)


def output_path(output: FilePath | None) -> str | None:
    if output is None:
        return None
    if not isinstance(output, str | os.PathLike):
        raise InputError(f"output must be the name of a file or folder; got {brief(output)}")
    return os.fspath(output)


def run_config(output: FilePath | None, options: Mapping[str, Any]) -> RunConfig:
    """The options of the run, out of all options that were given."""
    own = {name: value for name, value in options.items() if name in RUN_OPTIONS - {"progress"}}
    return RunConfig(output=output_path(output), **own)


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
    return [f.name for f in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []


def iterate(config: RunConfig, work: Work, progress: ShowProgress = False) -> Generator[Any]:
    """The value of each result in input order; records are read on demand."""
    show = CallProgress(progress)
    with open_run(config, work) as run, closing(run.results()) as results:
        assert isinstance(run.sink, QueueSink)
        for result in results:
            show.advance(failed=result.failure is not None)
            while run.sink.queue:
                yield run.sink.queue.popleft().value
    show.finish()


def complete(config: RunConfig, work: Work, progress: ShowProgress = False) -> RunSummary:
    """Write the output; returns a summary of it."""
    show = CallProgress(progress)
    with open_run(config, work) as run, closing(run.results()) as results:
        for result in results:
            show.advance(failed=result.failure is not None)
        counts = dict(run.sink.counts)
        unfinished = list(run.broken.values())
    show.finish()
    return RunSummary(config.output or "", counts.pop("segments", 0), counts.pop("failed", 0),
                      show.seconds, counts, list(work.signatures), unfinished)


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

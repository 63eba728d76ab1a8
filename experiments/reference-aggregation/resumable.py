"""Resumable work: the result of each item is written to a journal as soon as it is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from minrisk import InputError
from minrisk._core.process import progress_listener
from minrisk.io.journal import Journal
from minrisk.run.progress import RunProgress

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from machine import with_gpu

Fields = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class StoredResults:
    """The results of all items, and the machine on which the work began."""

    results: list[Fields]
    machine: str


def resume(path: Path, made: str, items: Sequence[T],
         make: Callable[[Sequence[T]], Iterable[Fields]]) -> StoredResults:
    """The results of `make` for each item; those of an earlier run with the same settings are read.

    `make` gets the remaining items and yields their results in order; `made` are the settings.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(Journal(str(path))) as journal:
        entries = [entry for _, entry in journal]
        if not entries:
            entries.append({"made": made, "machine": with_gpu()})
            journal.append(entries[0])
        head, found = entries[0], entries[1:][: len(items)]
        if head.get("made") != made:
            raise InputError(f"{path} was made with other settings ({head.get('made')}); "
                             f"remove it, or give another work folder, for {made}")
        with _shown(path, len(items) - len(found)) as progress:
            for result in make(items[len(found):]):
                journal.append(result)
                found.append(result)
                progress.advance()
    return StoredResults(found, head["machine"])


@contextmanager
def _shown(path: Path, left: int) -> Iterator[RunProgress]:
    progress = RunProgress(not left, lambda: progress.done / left if left else None)
    progress.note(f"{path.parent.name}/{path.stem}: {left} segments to go")
    with progress_listener(progress.stage):
        yield progress
    progress.finish()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

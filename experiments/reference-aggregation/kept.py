"""Work that is done once: what was made of each item is on disk when it is made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from minrisk import InputError
from minrisk._core.progress import progress_listener
from minrisk.cli.progress import Progress
from minrisk.io.journal import Journal

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from machine import with_gpu

Fields = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Kept:
    """What was made of each item, and on which machine that was begun."""

    results: list[Fields]
    machine: str


def kept(path: Path, made: str, items: Sequence[T],
         make: Callable[[Sequence[T]], Iterable[Fields]]) -> Kept:
    """What `make` makes of each item, as an earlier run left it where it was made in the same way.

    `make` gets the items that are left, and gives their results one by one, in order.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(str(path))
    entries = [entry for _, entry in journal]
    if not entries:
        entries.append({"made": made, "machine": with_gpu()})
        journal.append(entries[0])
    head, found = entries[0], entries[1:][: len(items)]
    if head.get("made") != made:
        raise InputError(f"{path} was made otherwise ({head.get('made')}); "
                         f"remove it, or give another work folder, for {made}")
    with _shown(path, len(items) - len(found)) as progress:
        for result in make(items[len(found):]):
            journal.append(result)
            found.append(result)
            progress.advance()
    return Kept(found, head["machine"])


@contextmanager
def _shown(path: Path, left: int) -> Iterator[Progress]:
    progress = Progress(not left, lambda: None)
    progress.expect(left)
    progress.note(f"{path.parent.name}/{path.stem}: {left} segments to go")
    with progress_listener(progress.stage):
        yield progress
    progress.finish()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

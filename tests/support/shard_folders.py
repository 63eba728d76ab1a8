"""Shards to decode, what a folder of results holds, and drivers that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from commands import read, wait_for, write

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "mat", "hill"]
KILLS = 3  # real ones; the injected faults of io/test_crashes.py reach every write
RANDOM_KILLS = 20


def segments(count: int, seed: int = 0) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [{"id": f"{seed}-{i}", "source": "s", "samples":
             [" ".join(rng.choices(WORDS, k=5)) for _ in range(8)]} for i in range(count)]


def write_shards(folder: Path, *counts: int) -> Path:
    """Shards of unequal size, one of them empty: 68 segments unless told otherwise."""
    folder.mkdir()
    for number, count in enumerate(counts or (23, 0, 5, 40)):
        write(folder / f"{number}.jsonl", *segments(count, number))
    return folder


def held_shards(folder: Path, waits: int, *counts: int) -> Path:
    """Shards with segments at which the metric python:faults:waiting stays until the flag goes."""
    write_shards(folder, *counts)
    write(folder / "9.jsonl", *({"samples": ["wait", "x"]},) * waits)
    return folder


def lines(folder: Path) -> dict[str, bytes]:
    """The finished shards of a folder, without what lies beside them."""
    found = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in found.items()
            if name.name not in (".manifest.json", ".errors.jsonl")
            and not any(part.startswith(".") for part in name.parts)}


def errors(folder: Path) -> list[dict[str, object]]:
    return read((folder / ".errors.jsonl").read_text())


def partials(folder: Path, name: str = "") -> list[Path]:
    """The journals with results of unfinished shards."""
    return [path for path in folder.rglob(f"{name}*.partial") if _size(path)]


def kept(folder: Path) -> int:
    """Bytes of results, finished or not."""
    return sum(map(_size, [*partials(folder), *(p for p in folder.rglob("*.jsonl"))]))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it was just finished
        return 0


def wait_for_results(process: subprocess.Popen[bytes], folder: Path, name: str = "",
                     seconds: float = 120) -> None:
    """Until some are kept."""
    wait_for(lambda: process.poll() is not None or partials(folder, name), seconds)
    assert process.poll() is None, process.communicate()


def kill_at_random(start: Callable[[], subprocess.Popen[bytes]], within: float) -> None:
    """With -9, each time at any moment of the first seconds; some of them may be after the end."""
    rng = random.Random(0)
    for _ in range(RANDOM_KILLS):
        with start() as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0, within))
            process.kill()
            process.communicate()
        assert process.returncode in (0, -signal.SIGKILL)


def kill_again_and_again(start: Callable[[], subprocess.Popen[bytes]], folder: Path,
                         after: Callable[[int], None]) -> None:
    """With -9, each time when there are more results than before."""
    for number in range(KILLS):
        before = kept(folder)
        with start() as process:
            wait_for(lambda before=before: kept(folder) > before  # type: ignore[misc]
                     or process.poll() is not None)
            process.kill()
            process.communicate()
        assert process.returncode == -signal.SIGKILL
        after(number)

"""Shards to decode, and what a folder of results holds."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from commands import PATIENCE, read, wait_until, write

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "mat", "hill"]


def segments(count: int, seed: int = 0) -> list[dict[str, object]]:
    rng = random.Random(seed)
    return [{"id": f"{seed}-{i}", "source": "s", "samples":
             [" ".join(rng.choices(WORDS, k=5)) for _ in range(8)]} for i in range(count)]


def write_shards(folder: Path) -> Path:
    """68 segments in shards of unequal size, one of them empty."""
    folder.mkdir()
    for number, count in enumerate((23, 0, 5, 40)):
        write(folder / f"{number}.jsonl", *segments(count, number))
    return folder


def lines(folder: Path) -> dict[str, bytes]:
    """The shards of a folder, without what lies beside them."""
    beside = {"manifest.json", "errors.jsonl", ".lock"}
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name not in beside}


def errors(folder: Path) -> list[dict[str, object]]:
    return read((folder / "errors.jsonl").read_text())


def wait_for(path: Path, seconds: float = PATIENCE) -> None:
    wait_until(lambda: path.exists() and path.stat().st_size, seconds)


def kill_again_and_again(start: Callable[[], subprocess.Popen[bytes]], out: Path, times: int,
                         longest: float, expected: dict[str, bytes]) -> None:
    """With -9, from the first instruction to the last shard; what is finished first is right."""
    rng, kills = random.Random(0), 0
    while kills < times:
        with start() as process:
            time.sleep(rng.uniform(0.1, longest))
            process.kill()
            process.communicate()
        kills += process.returncode == -signal.SIGKILL
        if process.returncode == 0:  # it was faster
            assert lines(out) == expected
            for path in out.iterdir():
                path.unlink()

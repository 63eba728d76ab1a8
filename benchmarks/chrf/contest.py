"""Competitors side by side: the same strings, answers compared first, then timed in turns."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
SLOW = 2.0  # seconds from which a call is repeated least, and not warmed up
BATCH = 0.1  # seconds of calls in a row; in between it is the others' turn
DOUBLE = 1e-9  # what rounding in another order may do to a score of up to 100
SINGLE = {"mbrs": 1e-3}  # libraries that round to single precision


class DisagreementError(Exception):
    """Competitors that do not compute the same thing cannot be compared."""


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def timing(seconds: Sequence[float]) -> dict[str, Any]:
    return {"median": statistics.median(seconds), "min": min(seconds), "repeats": len(seconds)}


@dataclass(frozen=True)
class Competitor:
    """A worker by name, and the environment that makes it what it is."""

    label: str
    name: str
    environment: dict[str, str] = field(default_factory=dict)
    script: Path = WORKER


def variants(cores: Sequence[str], script: Path = WORKER) -> list[Competitor]:
    """minrisk with each instruction set, on all cores and on one."""
    found = []
    for core in cores:
        label = "minrisk" if core == cores[0] else f"minrisk {core}"
        found.append(Competitor(label, "minrisk", {"MINRISK_CORE": core}, script))
        found.append(Competitor(f"{label} 1 thread", "minrisk",
                                {"MINRISK_CORE": core, "MINRISK_THREADS": "1"}, script))
    return found


class Worker:
    """The other end of worker.py."""

    def __init__(self, competitor: Competitor) -> None:
        self.label = competitor.label
        command = [sys.executable, "-W", "error::RuntimeWarning", str(competitor.script),
                   competitor.name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
            env=os.environ | competitor.environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        self._requests.write(json.dumps({"do": do} | request) + "\n")
        self._requests.flush()
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"{self.label} ended without an answer to {do!r}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def close(self) -> None:
        self._requests.close()
        self._answers.close()
        self._process.wait()


@contextmanager
def workers(competitors: Sequence[Competitor]) -> Iterator[dict[str, Worker]]:
    """A running process per competitor, by label."""
    with ExitStack() as stack:
        team = {}
        for competitor in competitors:
            team[competitor.label] = worker = Worker(competitor)
            stack.callback(worker.close)
        yield team


@dataclass
class Entry:
    """One competitor's one work, and what came of it."""

    worker: Worker
    work: str
    answer: dict[str, Any] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.worker.label}, {self.work}"

    def ask(self) -> None:
        self.answer = self.worker.ask("answer", work=self.work)

    def take_turn(self, turn: int, slow_turns: int) -> None:
        """A few calls in a row after one that does not count; fewer where a call takes long."""
        rough = self.answer["seconds"]
        if rough > SLOW and turn >= slow_turns:
            return
        calls = max(1, min(10, int(BATCH / rough)))
        warmup = 0 if rough > SLOW else 1
        self.seconds += self.worker.ask("time", work=self.work, warmup=warmup,
                                        calls=calls)["seconds"]

    def result(self) -> dict[str, Any]:
        return {"competitor": self.worker.label, "work": self.work, **timing(self.seconds)}


def contest(entries: Sequence[Entry], texts: list[str], turns: int,
            slow_turns: int = 3) -> dict[str, Any]:
    """Each entry's times over the texts, after every answer has been found to agree."""
    for worker in {id(e.worker): e.worker for e in entries}.values():
        worker.ask("set", texts=texts)
    for entry in entries:
        entry.ask()
        say(f"    {entry.title}: {entry.answer['seconds']:.4f} s before timing")
    agreement = [row for work in ("exact", "aggregate")
                 for row in compare([e for e in entries if e.work == work])]
    for turn in range(turns):
        for entry in entries:
            entry.take_turn(turn, slow_turns)
    return {"agreement": agreement, "times": [e.result() for e in entries]}


def compare(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Every answer against the first: to the last bit within a library, else to its precision."""
    if not entries:
        return []
    first = entries[0]
    return [
        {"work": first.work, "one": first.worker.label, "other": other.worker.label,
         **agreement(first.answer, other.answer, other.title, tolerance(first, other))}
        for other in entries[1:]
    ]


def compare_spot(ours: Entry, theirs: Entry) -> dict[str, Any]:
    """The utilities of the first hypotheses, of one who scored no others."""
    few = ours.answer["utility"][:len(theirs.answer["utility"])]
    return {"hypotheses": len(few),
            **agreement({"utility": few, "best": few.index(max(few))}, theirs.answer,
                        theirs.title, DOUBLE)}


def tolerance(one: Entry, other: Entry) -> float:
    library, theirs = (e.worker.label.split()[0] for e in (one, other))
    return 0.0 if library == theirs else SINGLE.get(theirs, DOUBLE)


def agreement(one: dict[str, Any], other: dict[str, Any], title: str,
              tolerance: float) -> dict[str, Any]:
    """How far apart two answers are; an exception if that is too far, or the choice worse."""
    pairs = zip(one["utility"], other["utility"], strict=True)
    apart = max(abs(a - b) for a, b in pairs)
    lost = one["utility"][one["best"]] - one["utility"][other["best"]]
    if not apart <= tolerance or not lost <= tolerance:
        raise DisagreementError(f"{title}: utilities differ by up to {apart:.3g}, and its choice "
                                f"loses {lost:.3g}; {tolerance:g} is allowed")
    return {"largest_difference": apart, "same_choice": one["best"] == other["best"]}


def rounded(value: Any) -> Any:
    """Five significant digits: more would only be noise in the repository."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    if not isinstance(value, float) or value == 0 or not math.isfinite(value):
        return value
    return round(value, 4 - math.floor(math.log10(abs(value))))

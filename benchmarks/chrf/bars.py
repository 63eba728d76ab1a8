"""What the measurements were to reach, and whether they did."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Results = dict[str, Any]
LINEAR = 1.1  # largest exponent of growth that still counts as linear


@dataclass(frozen=True)
class Bar:
    work: str
    bar: str
    measured: str
    reached: bool | None  # None where it was not measured

    @property
    def verdict(self) -> str:
        return {True: "reached", False: "**not reached**", None: "not measured"}[self.reached]


def seconds(part: Results, competitor: str, work: str) -> float | None:
    """The median of one row of a contest."""
    rows = [t["median"] for t in part["times"]
            if t["competitor"] == competitor and t["work"] == work]
    return rows[0] if rows else None


def all_bars(results: Results) -> list[Bar]:
    return [*choice_bars(results["choice"]), *sweep_bars(results["sweep"]),
            *large_bars(results["large"]), *process_bars(results["processes"]),
            *import_bars(results["imports"])]


def choice_bars(choice: Results) -> Iterator[Bar]:
    n = choice["samples"]
    goals = [("exact", "exact", 600, 1000), ("exact", "aggregate", 8, 15),
             ("aggregate", "aggregate", 25, None)]
    for label, share in (("minrisk", 1), ("minrisk avx2", 2)):
        for ours, theirs, goal, aim in goals:
            title = f"{label} {ours}, {n} samples, against fastchrf {_fastchrf(theirs)}"
            yield _ratio_bar(title, seconds(choice, label, ours),
                             seconds(choice, "fastchrf", theirs), goal / share,
                             aim if share == 1 else None)


def _fastchrf(work: str) -> str:
    return "pairwise" if work == "exact" else work


def _ratio_bar(title: str, ours: float | None, theirs: float | None, goal: float,
               aim: float | None) -> Bar:
    text = f"{goal:g} times faster" + (f" (stretch {aim:,})" if aim else "")
    if ours is None or theirs is None:
        return Bar(title, text, "", None)
    ratio = theirs / ours
    return Bar(title, text, f"{ratio:,.3g} times" if ratio < 100 else f"{ratio:,.0f} times",
               ratio >= goal)


def sweep_bars(sweep: list[Results]) -> Iterator[Bar]:
    pooled = sweep[-1]["points"]
    top = pooled[-1]["samples"]
    exponent = growth(pooled)
    yield Bar(f"aggregate grows linearly from {late(pooled)[0]['samples']:,} to {top:,} samples",
              f"time ~ characters^e, e at most {LINEAR}", f"e = {exponent:.2f}",
              exponent <= LINEAR)
    worst = min(advantage(p) for series in sweep for p in series["points"])
    yield Bar(f"exact is never slower than fastchrf aggregate up to {top:,} samples",
              "at least 1 time faster everywhere", f"{worst:.3g} times at worst", worst >= 1)


def late(points: list[Results]) -> list[Results]:
    """From 1,024 samples on, where the fixed cost of a call no longer hides the growth."""
    found = [p for p in points if p["samples"] >= 1024]
    return found if len(found) > 1 else points


def growth(points: list[Results]) -> float:
    """The exponent of aggregation's time in the number of characters."""
    first, last = late(points)[0], late(points)[-1]
    ratio = seconds(last, "minrisk", "aggregate") / seconds(first, "minrisk", "aggregate")
    return math.log(ratio) / math.log(last["characters"] / first["characters"])


def advantage(point: Results) -> float:
    """How many times faster exact MBR is than the peer's approximation."""
    return seconds(point, "fastchrf", "aggregate") / seconds(point, "minrisk", "exact")


def large_bars(large: Results) -> Iterator[Bar]:
    n = f"{large['samples']:,}"
    extra = large["extra_bytes"]
    yield Bar(f"exact utilities of {n} x {n}", "finishes, under 1 GB of extra memory",
              f"{large['median']:.3g} s, {extra / 1e6:,.0f} MB", extra < 1e9)


def process_bars(processes: list[Results]) -> Iterator[Bar]:
    exact = next(p for p in processes if p["strategy"] == "standard")
    title = f"`minrisk decode` of {exact['segments']} segments, exact, whole process"
    yield Bar(title, "at most 12 s", f"{exact['median']:.3g} s", exact["median"] <= 12)
    yield Bar(title, "under 300 MB", f"{exact['peak_bytes'] / 1e6:,.0f} MB",
              exact["peak_bytes"] < 300e6)


def import_bars(imports: Results) -> Iterator[Bar]:
    median = imports["minrisk"]["median"]
    yield Bar("`import minrisk`", "under 0.15 s", f"{median:.3f} s", median < 0.15)

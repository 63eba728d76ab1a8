"""Makes the tables of README.md from the results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import numpy as np
import pages

Fields = dict[str, Any]


def write(result: Fields, readme: Path) -> None:
    """Replace the tables between the markers; the rest of the page is written by hand."""
    pages.fill(readme, {"results": tables(result)})


def tables(result: Fields) -> str:
    found = result["tasks"]
    parts = [f"Chosen on {pages.machine_line(result['machine'])}", _overview(found)]
    for model in dict.fromkeys(task["model"] for task in found):
        own = [task for task in found if task["model"] == model]
        parts += [f"## {model}: quality of the choice, in % (gain over one sample)",
                  _quality(own), f"## {model}: by the number of samples", _by_size(own),
                  f"## {model}: how far the confidence of votes and of MBR can be trusted",
                  _signals(own)]
        if any(task["served"] for task in own):
            parts += [f"## {model}: the model as its own judge",
                      _served_overall(own), _served(own)]
    return "\n\n".join(parts)


_OVERVIEW = ("one sample", "most probable", "majority", "vote by mean logprob (CISC)",
             "vote by self-certainty", "symbolic", "MBR by chrF", "MBR by embedding",
             "any right (pass@n)")


def _overview(tasks: Sequence[Fields]) -> str:
    """One row for each task and model, with all samples."""
    rows = []
    for task in tasks:
        found = _largest(task)
        rows.append([task["task"], task["model"].removesuffix("-Instruct"),
                     *(_cell(found.get(name)) for name in _OVERVIEW)])
    return pages.table(["task", "model", *_OVERVIEW], rows)


def _largest(task: Fields) -> dict[str, Fields]:
    size = max(row["n"] for row in task["rows"])
    return {row["method"]: row for row in task["rows"] if row["n"] == size}


def _quality(tasks: Sequence[Fields]) -> str:
    columns = [_largest(task) for task in tasks]
    names = dict.fromkeys(name for column in columns for name in column)
    seconds = {name: [column[name]["seconds"] for column in columns
                      if "seconds" in column.get(name, {})] for name in names}
    head = ["", *(f"{task['task']}, n = {max(row['n'] for row in task['rows'])}"
                  for task in tasks), "ms"]
    ordered = sorted(names, key=lambda name: name.startswith("any right"))
    rows = [[name, *(_cell(column.get(name)) for column in columns),
             f"{1000 * sum(seconds[name]) / len(seconds[name]):.1f}" if seconds[name] else ""]
            for name in ordered]
    tokens = [next(row["tokens"] for row in column.values() if "tokens" in row)
              for column in columns]
    return pages.table(head, [*rows, ["tokens sampled", *(f"{own:,.0f}" for own in tokens), ""]])


def _cell(row: Fields | None) -> str:
    if row is None:
        return ""
    if row["method"] == "one sample":
        return f"{row['mean']:.1%} ({row['low']:.0%} to {row['high']:.0%})"
    gain = row["gain"]
    shown = f"{row['mean']:.1%} ({100 * gain['mean']:+.1f})".replace("-", "−")
    return f"**{shown}**" if gain["low"] > 0 else shown


def _by_size(tasks: Sequence[Fields]) -> str:
    sizes = sorted({row["n"] for task in tasks for row in task["rows"]})
    rows = []
    for task in tasks:
        for name in ("one sample", _main(task), "any right (pass@n)"):
            by_size = {row["n"]: row for row in task["rows"] if row["method"] == name}
            rows.append([task["task"], name, *(
                f"{by_size[n]['mean']:.1%}" if n in by_size else "" for n in sizes)])
    return pages.table(["task", "method", *(f"n = {n}" for n in sizes)], rows)


def _main(task: Fields) -> str:
    """The method that suits a task by its kind."""
    return {"number": "symbolic", "words": "majority", "json": "majority",
            "facts": "MBR by chrF"}[task["kind"]]


def _signals(tasks: Sequence[Fields]) -> str:
    rows = []
    for task in tasks:
        for name, row in _largest(task).items():
            if "auroc" in row and name in (_main(task), "majority", "MBR by embedding"):
                rows.append([task["task"], name, f"`{row['signal']}`", f"{row['auroc']:.3f}",
                             f"{row['ece']:.3f}", f"{row['brier']:.3f}", f"{row['aurc']:.3f}",
                             *(f"{error:.0%}" for error in row["error of the surest"].values())])
    return pages.table(["task", "method", "signal", "AUROC", "ECE", "Brier", "AURC",
                      "error of the surest quarter", "of the surest half"], rows)


def _served(tasks: Sequence[Fields]) -> str:
    head = ["task", "method", "problems", "one of the same samples", "their vote or MBR",
            "quality (gain)", "failed", "new texts", "requests", "tokens read", "tokens written",
            "seconds"]
    return pages.table(head, (
        [task["task"], row["method"], str(row["problems"]), f"{row['one']:.1%}",
         f"{row['without_server']:.1%}", _cell(row), str(row["failed"]), str(row["kept"]),
         f"{row['requests']:.1f}", f"{row['prompt_tokens']:,.0f}",
         f"{row['completion_tokens']:,.0f}", f"{row['seconds']:.1f}"]
        for task in tasks for row in task["served"]))


def _served_overall(tasks: Sequence[Fields]) -> str:
    """All problems that have an answer together, paired with the vote of the same samples."""
    rows = []
    own = [row for task in tasks if task["kind"] != "facts" for row in task["served"]]
    for method in dict.fromkeys(row["method"] for row in own):
        served, vote, one = (np.concatenate([row["values"][name] for row in own
                                             if row["method"] == method])
                             for name in ("served", "without_server", "one"))
        rows.append([method, len(served), f"{one.mean():.1%}", f"{vote.mean():.1%}",
                     f"{served.mean():.1%}", _difference(served - one), _difference(served - vote)])
    return pages.table(["all tasks with an answer", "problems", "one sample", "majority", "quality",
                        "over one sample", "over the majority"], rows)


def _difference(values: Any) -> str:
    """The mean in points, and its 95% interval by resampling problems."""
    rows = np.random.default_rng(0).integers(0, values.size, (2000, values.size))
    low, high = np.quantile(values[rows].mean(axis=1), [0.025, 0.975])
    return (f"{100 * values.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            .replace("-", "−"))

"""Makes the tables of README.md from the results."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

START, END = "<!-- results -->\n", "<!-- end -->\n"
TITLES = {"rouge-l": "ROUGE-L", "chrf": "chrF", "exact-match": "% right"}


def write(result: dict[str, Any], readme: Path) -> None:
    """Replace the tables between the markers; the rest of the page is written by hand."""
    before, _, rest = readme.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    readme.write_text(before + START + tables(result) + END + after, encoding="utf-8")


def tables(result: dict[str, Any]) -> str:
    where = result["machine"]
    return "\n\n".join([
        f"{result['items per task']} items per task with {result['samples']} samples each "
        f"(temperature {result['temperature']}); the judge compares them with "
        f"{result['subset']} of the samples. {where['cpu']}, {where['cores']} cores (load "
        f"{where['load']}); xllamacpp {where['xllamacpp']}, minrisk {where['minrisk']}.",
        _quality(result["quality"]), _costs(result["costs"])]) + "\n"


def _quality(rows: list[dict[str, Any]]) -> str:
    columns = dict.fromkeys((row["task"], row["metric"]) for row in rows)
    cells = {(row["method"], row["task"], row["metric"]): _cell(row) for row in rows}
    # tasks with answers have all methods, the vote too
    names = dict.fromkeys(row["method"] for row in rows if row["metric"] == "exact-match")
    return _markdown(
        ["", *(f"{task}, {TITLES[metric]}" for task, metric in columns)],
        ([name, *(cells.get((name, *column), "") for column in columns)] for name in names))


def _cell(row: dict[str, Any]) -> str:
    """The mean, and the gain over one sample; for one sample itself, the interval of the mean."""
    own, mark = row["gain"], "\\*" if row["is_biased"] else ""
    if row["method"] == "one sample":
        return f"{row['mean']:.1f} ({row['low']:.1f} to {row['high']:.1f})"
    return (f"{row['mean']:.1f}{mark} ({own['mean']:+.1f}; {own['low']:+.1f} to "
            f"{own['high']:+.1f})").replace("-", "−")


def _costs(rows: list[dict[str, Any]]) -> str:
    return _markdown(
        ["per item", "requests", "tokens read", "tokens written", "seconds"],
        ([row["method"], f"{row['requests']:.1f}", f"{row['read']:,.0f}",
          f"{row['written']:,.0f}", f"{row['seconds']:.3f}"] for row in rows))


def _markdown(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

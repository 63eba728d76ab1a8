"""What changed between two versions? Compares two files of `make bench-quick`.

usage: python benchmarks/quick/compare.py OLD.json NEW.json [--tolerance 0.1]

Minima are compared, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PLACE = ("name", "cpu", "cores", "system")  # times of other machines are not comparable
Measured = Mapping[str, Any]


def load(path: Path) -> Measured:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        _ = found["machine"].items(), [(t["min"], t["median"]) for t in found["times"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SystemExit(f"{path} is no file of `make bench-quick`: {error!r}") from None
    result: Measured = found
    return result


def machine_changes(old: Measured, new: Measured) -> list[str]:
    """What differs between the machines, and between the versions on them."""
    before, now = old["machine"], new["machine"]
    differ = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    lines = [f"{name}: {before.get(name)} -> {now.get(name)}" for name in differ]
    if set(PLACE) & set(differ):
        lines.append("These are different machines: compare ratios, not times.")
    return lines


def change(old: float, new: float, tolerance: float) -> str:
    """A ratio in words; nothing if it is within the tolerance."""
    if new > old * (1 + tolerance):
        return f"{new / old:.2f}x slower"
    return f"{old / new:.2f}x faster" if old > new * (1 + tolerance) else ""


def rows(old: Measured, new: Measured, tolerance: float) -> list[tuple[str, ...]]:
    found = [("", "old min", "new min", "old median", "new median", "")]
    for name in {**old["times"], **new["times"]}:
        before, now = old["times"].get(name), new["times"].get(name)
        each = [f"{1000 * timed[kind]:.4g} ms" if timed else "-"
                for kind in ("min", "median") for timed in (before, now)]
        found.append((name, *each, change(before["min"], now["min"], tolerance)
                      if before and now else "new" if now else "gone"))
    return found


def table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) if i in (0, 5) else cell.rjust(width) for i,
                               (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
                     for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.1,
                        help="change of a minimum that is taken for noise")
    given = parser.parse_args()
    old, new = load(given.old), load(given.new)
    for line in machine_changes(old, new):
        print(line)
    print(table(rows(old, new, given.tolerance)))


if __name__ == "__main__":
    sys.exit(main())

"""Fills the tables of a page from results, so that no number is typed by hand.

A table stands between two comments, which name it:

    <!-- table: NAME -->
    <!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PLACE = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
TITLES = {"python": "Python", "numpy": "NumPy", "ray": "Ray", "ctranslate2": "CTranslate2",
          "sacrebleu": "sacreBLEU"}


def fill(page: Path, tables: Mapping[str, str]) -> None:
    """Put tables into their places on a page; other places stay as they are."""
    text = page.read_text(encoding="utf-8")
    if missing := tables.keys() - {name for _, name, _ in PLACE.findall(text)}:
        raise ValueError(f"{page} has no place for {', '.join(sorted(missing))}")
    page.write_text(filled(text, tables), encoding="utf-8")


def filled(text: str, tables: Mapping[str, str]) -> str:
    """A text with those of the tables that it has places for."""
    return PLACE.sub(lambda place: f"{place[1]}{tables[place[2]].strip()}\n{place[3]}"
                     if place[2] in tables else place[0], text)


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows of cells as Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def machine_line(machine: Mapping[str, Any], *packages: str, also: Iterable[str] = ()) -> str:
    """Where and when results were measured, and with which versions, as far as they say it."""
    devices = [machine[key] for key in ("device", "gpu", "cpu") if machine.get(key)]
    cores = int(machine["cores"])
    where = [*dict.fromkeys(devices), f"{cores} core{'s' * (cores > 1)}"]
    if "load" in machine:
        where.append(f"load {machine['load']:.1f}")
    versions = [f"{TITLES.get(name, name)} {machine[name]}"
                for name in ("python", "minrisk", *packages) if machine.get(name)]
    when = [f"measured on {machine['date']}"] if "date" in machine else []
    return "; ".join(filter(None, [", ".join(where), *also, ", ".join(versions), *when])) + "."

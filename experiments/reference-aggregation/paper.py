"""The numbers of the paper, to compare with."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from methods import AGGREGATION, N_BY_S, STANDARD

_HERE = Path(__file__).parent
TABLES: dict[str, Any] = json.loads((_HERE / "paper.json").read_text(encoding="utf-8"))
LEXICAL, TRAINED = "chrF", "COMET-22"  # its utilities
_UTILITIES = {LEXICAL: "chrf", "Cometinho": "cometinho", TRAINED: "comet22"}
_CURVES = {AGGREGATION: "aggregate", N_BY_S: "n-by-s", "chrf": "chrf-as-coarse"}


def accuracy(utility: str, curve: str, effective: int, top: int) -> list[float]:
    """Of the four directions, as the figures draw it; none where the paper has no such curve."""
    wanted = (_UTILITIES[like(utility)], _CURVES.get(curve), str(effective), str(top))
    with (_HERE / "paper-accuracy.csv").open(encoding="utf-8", newline="") as stream:
        return [float(row["accuracy"]) for row in csv.DictReader(stream) if wanted == (
            row["utility"], row["method"], row["effective_references"], row["top_k"])]


def span(values: list[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}" if values else ""


def like(utility: str) -> str:
    """The utility of the paper that stands beside one of ours."""
    return utility if utility in _UTILITIES else TRAINED


def cost(utility: str) -> str:
    """Of standard MBR, in times what aggregation costs; the utility alone."""
    found = TABLES["seconds"].get(like(utility))
    return f"{found[STANDARD][0] / found[AGGREGATION][0]:.0f} times" if found else ""


def gain(utility: str) -> str:
    """What four times the samples bring to standard MBR."""
    few, many = (TABLES["quality"][count].get(like(utility)) for count in ("256", "1024"))
    return f"{many[STANDARD][-1] - few[STANDARD][-1]:+.2f} {TABLES['judge']}" if many else ""

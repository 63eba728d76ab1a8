"""Draw docs/images/number-of-samples.svg from experiments/number-of-samples/results.json.

    python docs/figures/number_of_samples.py
"""

from __future__ import annotations

import json
from typing import Any

from card import ROOT, Axis, Card, Plot

RESULTS = ROOT / "experiments" / "number-of-samples" / "results.json"
BLEU = Axis(17, 24, {value: str(value) for value in range(17, 25)})
SAMPLES = Axis(1, 1024, {n: f"{n:,}" for n in (2, 16, 128, 1024)}, log=True)
NAMES = {"en-fr": "English to French", "fr-en": "French to English"}


def draw() -> Card:
    corpora = json.loads(RESULTS.read_text(encoding="utf-8"))["corpora"]
    title = "BLEU of the choice by chrF, by the number of samples"
    card = Card(290, title)
    card.text(14, 26, title, "bold")
    for panel, (name, found) in enumerate(corpora.items()):
        plot = Plot(card, 34 + panel * 210, 66, 178, 175, SAMPLES, BLEU)
        card.text(plot.left, plot.top - 12, NAMES[name])
        _draw(plot, found["judges"]["BLEU"])
    return card


def _draw(plot: Plot, found: dict[str, Any]) -> None:
    plot.axes("samples")
    beam = found["beam"]
    plot.line([(1, beam), (1024, beam)], "rule")
    plot.card.text(plot.left + 4, round(plot.at(1, beam)[1], 1) - 6, "beam search", "rule-text")
    rows = {int(n): row for n, row in found["mbr"].items()}
    plot.band([(n, min(row["sets"])) for n, row in rows.items()],
              [(n, max(row["sets"])) for n, row in rows.items()])
    plot.line([(n, row["score"]) for n, row in rows.items()], "line")
    for n, row in rows.items():
        plot.dot(n, row["score"], 3)


if __name__ == "__main__":
    draw().save("number-of-samples.svg")

"""Draw docs/images/confidence.svg from experiments/confidence/results.json.

    python docs/figures/confidence.py
"""

from __future__ import annotations

import json
from typing import Any

from card import ROOT, Card, Plot, shares

RESULTS = ROOT / "experiments" / "confidence" / "results.json"
LEFT, TOP, SIZE, ACROSS, DOWN = 38, 70, 160, 214, 246
NAMES = {"chrf": "chrF", "bleu": "BLEU", "embedding": "embedding", "votes": "votes"}


def draw() -> Card:
    metrics = json.loads(RESULTS.read_text(encoding="utf-8"))["metrics"]
    title = "Choices that more samples confirm, by probability"
    card = Card(TOP + 2 * DOWN - 20, title)
    card.text(14, 26, title, "bold")
    for panel, (name, found) in enumerate(metrics.items()):
        _panel(Plot(card, LEFT + panel % 2 * ACROSS, TOP + panel // 2 * DOWN, SIZE, SIZE,
                    shares(), shares()), NAMES[name], found["all"])
    return card


def _panel(plot: Plot, name: str, found: dict[str, Any]) -> None:
    plot.card.text(plot.left, plot.top - 12, f"{name}: error {found['error']:.3f}")
    plot.axes("probability")
    plot.line([(0, 0), (1, 1)], "rule")
    for row in found["bins"]:
        plot.interval(row["said"], *row["interval"])
        plot.dot(row["said"], row["right"], round(2 + 8 * row["share"] ** 0.5, 1), "band")
        plot.dot(row["said"], row["right"], 2.5)


if __name__ == "__main__":
    draw().save("confidence.svg")

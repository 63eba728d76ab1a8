"""Draw docs/images/calibration.svg from experiments/calibration/results.json.

    python docs/figures/calibration.py
"""

from __future__ import annotations

import json
from typing import Any

from card import ROOT, Axis, Card, Plot, shares

RESULTS = ROOT / "experiments" / "calibration" / "results.json"
TOP, SIZE = 84, 160
SIGNALS = {"confidence.logprob": ("log-probability", "line third", "small"),
           "confidence.share": ("share of the vote", "line other", "rule-text"),
           "confidence.probability": ("probability", "line", "line-text")}


def draw() -> Card:
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["metrics"]["exact-match"]
    title = f"Votes on {found['problems']} problems of GSM8K"
    card = Card(TOP + SIZE + 50 + 18 * len(SIGNALS), title)
    card.text(14, 26, title, "bold")
    _reliability(Plot(card, 38, TOP, SIZE, SIZE, shares(), shares()), found["bins"])
    wrong = Axis(0, 0.7, {tenth / 10: f"{tenth / 10:g}" for tenth in range(0, 8)})
    _risk(Plot(card, 262, TOP, SIZE, SIZE, shares(), wrong), found["curves"])
    return card


def _reliability(plot: Plot, bins: list[dict[str, Any]]) -> None:
    plot.card.text(plot.left, plot.top - 26, "share of right choices,")
    plot.card.text(plot.left, plot.top - 10, "by calibrated probability")
    plot.axes("probability")
    plot.line([(0, 0), (1, 1)], "rule")
    for group in bins:
        plot.interval(group["probability"], group["right"]["low"], group["right"]["high"])
        plot.dot(group["probability"], group["right"]["value"], 4)


def _risk(plot: Plot, curves: dict[str, dict[str, list[float]]]) -> None:
    plot.card.text(plot.left, plot.top - 26, "share of wrong choices")
    plot.card.text(plot.left, plot.top - 10, "among the surest")
    plot.axes("share answered, surest first by")
    for number, (signal, (name, line, text)) in enumerate(SIGNALS.items()):
        curve = curves[signal]
        plot.line(zip(curve["answered"], curve["error"], strict=True), line)
        x, y = plot.left + 4, plot.top + plot.height + 56 + 18 * (len(SIGNALS) - 1 - number)
        plot.card.add(f'<path d="M{x} {y - 4}h24" class="{line}"/>')
        plot.card.text(x + 32, y, name, text)


if __name__ == "__main__":
    draw().save("calibration.svg")

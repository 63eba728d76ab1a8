"""Draw docs/images/confidence.svg from experiments/confidence/results.json.

    python docs/figures/confidence.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from card import Card

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "confidence" / "results.json"
LEFT, SIZE, TOP, STEP = 52, 240, 64, 320
NAMES = {"chrf": "chrF", "bleu": "BLEU", "embedding": "embedding", "votes": "votes"}


def draw() -> Card:
    metrics = json.loads(RESULTS.read_text(encoding="utf-8"))["metrics"]
    title = "How often choices are right, by the probability that is given to them"
    card = Card(LEFT + 2 * STEP, TOP + 2 * STEP, title)
    card.text(16, 26, title, "bold")
    for panel, (name, found) in enumerate(metrics.items()):
        _panel(card, LEFT + panel % 2 * STEP, TOP + panel // 2 * STEP, NAMES[name], found["all"])
    return card


def _panel(card: Card, left: float, top: float, name: str, found: dict[str, Any]) -> None:
    def at(said: float, right: float) -> str:
        return f"{left + SIZE * said:.1f} {top + SIZE * (1 - right):.1f}"

    card.text(left, top - 12, f"{name}: error {found['error']:.3f}, {found['choices']:,} choices")
    for tenth in range(0, 11, 2):
        card.add(f'<path d="M{at(0, tenth / 10)}h{SIZE}" class="grid"/>')
        card.text(left - 8, top + SIZE * (1 - tenth / 10) + 4, f"{tenth / 10:.1f}", "small end")
        card.text(left + SIZE * tenth / 10, top + SIZE + 18, f"{tenth / 10:.1f}", "small middle")
    card.text(left + SIZE / 2, top + SIZE + 36, "probability", "small middle")
    card.add(f'<path d="M{at(0, 0)} L{at(1, 1)}" class="rule"/>')
    for row in found["bins"]:
        low, high = row["interval"]
        card.add(f'<path d="M{at(row["said"], low)} L{at(row["said"], high)}" class="frame"/>')
        x, y = at(row["said"], row["right"]).split()
        card.add(f'<circle cx="{x}" cy="{y}" r="{2 + 8 * row["share"] ** 0.5:.1f}" class="band"/>')
        card.add(f'<circle cx="{x}" cy="{y}" r="2.5" class="dot"/>')


if __name__ == "__main__":
    draw().save("confidence.svg")

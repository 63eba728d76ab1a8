"""Draw docs/images/number-of-samples.svg from experiments/number-of-samples/results.json.

    python docs/figures/number_of_samples.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from card import Card

RESULTS = Path(__file__).resolve().parents[2] / "experiments" / "number-of-samples" / "results.json"
LOW, HIGH = 17, 24  # BLEU
LEFT, WIDTH, TOP, HEIGHT = 44, 290, 64, 200
NAMES = {"en-fr": "English to French", "fr-en": "French to English"}


def draw() -> Card:
    corpora = json.loads(RESULTS.read_text(encoding="utf-8"))["corpora"]
    title = "BLEU of the choice of MBR by chrF, by the number of samples"
    card = Card(720, TOP + HEIGHT + 52, title)
    card.text(16, 26, title, "bold")
    for panel, (name, found) in enumerate(corpora.items()):
        _panel(card, LEFT + panel * 350, f"{NAMES[name]}, {found['segments']} segments",
               found["judges"]["BLEU"])
    return card


def _panel(card: Card, left: float, title: str, found: dict[str, Any]) -> None:
    card.text(left, TOP - 14, title)
    for value in range(LOW, HIGH + 1):
        card.add(f'<path d="M{left} {_y(value):.1f}h{WIDTH}" class="grid"/>')
        card.text(left - 8, _y(value) + 4, str(value), "small end")
    rows = {int(n): row for n, row in found["mbr"].items()}
    for n in rows:
        if n in (1, 4, 16, 64, 256, 1024):
            card.text(_x(left, n), TOP + HEIGHT + 18, f"{n:,}", "small middle")
    card.text(left + WIDTH / 2, TOP + HEIGHT + 38, "samples", "small middle")
    card.add(f'<path d="M{left} {_y(found["beam"]):.1f}h{WIDTH}" class="rule"/>')
    card.text(left + 4, _y(found["beam"]) - 6, "beam search", "rule-text")
    _curve(card, left, rows)


def _curve(card: Card, left: float, rows: dict[int, dict[str, Any]]) -> None:
    upper = [f"{_x(left, n):.1f} {_y(max(row['sets'])):.1f}" for n, row in rows.items()]
    lower = [f"{_x(left, n):.1f} {_y(min(row['sets'])):.1f}" for n, row in rows.items()]
    means = [f"{_x(left, n):.1f} {_y(row['score']):.1f}" for n, row in rows.items()]
    card.add(f'<path d="M{" L".join(upper + lower[::-1])}Z" class="band"/>')
    card.add(f'<path d="M{" L".join(means)}" class="line"/>')
    for place in means:
        x, y = place.split()
        card.add(f'<circle cx="{x}" cy="{y}" r="3.5" class="dot"/>')


def _x(left: float, n: int) -> float:
    return left + 6 + (WIDTH - 12) * math.log2(n) / 10


def _y(value: float) -> float:
    return TOP + HEIGHT * (HIGH - value) / (HIGH - LOW)


if __name__ == "__main__":
    draw().save("number-of-samples.svg")

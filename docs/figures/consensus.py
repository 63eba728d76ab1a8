"""Draw docs/images/consensus.svg: samples, their similarities, and the choice of MBR.

    python docs/figures/consensus.py

The samples are the first ones of a sentence that comes with minrisk, and the figures are minrisk's.
"""

from __future__ import annotations

import json
import lzma
from importlib import resources

from card import WIDTH, Card

import minrisk

SENTENCE, SAMPLES = "demo-11", 7
TOP, ROW, TEXT, MATRIX, CELL, BARS, BAR = 68, 28, 158, 166, 26, 352, 0.55


def draw() -> Card:
    source, samples = _samples()
    chrf = minrisk.ChrF()
    features = chrf.features(samples)
    scores = chrf.scores(features, features)  # (H, R)
    ranking = minrisk.decode(samples, metric=chrf)
    card = Card(TOP + ROW * SAMPLES + 12,
                f"MBR chooses {ranking.text!r} among {SAMPLES} samples")
    card.text(14, 26, f"“{source}”, {SAMPLES} samples of a translation model", "bold")
    card.text(MATRIX, 54, "chrF with each sample", "small")
    card.text(BARS, 54, "mean", "small")
    for row, (text, utility) in enumerate(zip(samples, ranking.utility, strict=True)):
        _row(card, row, text, scores[row], utility, text == ranking.text)
    return card


def _row(card: Card, row: int, text: str, scores, utility: float, is_best: bool) -> None:
    y = TOP + ROW * row
    if is_best:
        for kind in ("choice", "frame"):
            card.rect(6, y - 2, WIDTH - 12, ROW - 1, kind)
    card.text(TEXT, y + 16, text, "end bold" if is_best else "end")
    for column, score in enumerate(scores):
        x = MATRIX + CELL * column
        card.rect(x, y, CELL - 2, ROW - 5, "cell", opacity=0.08 + 0.62 * (score / 100) ** 2)
        card.text(x + CELL / 2 - 1, y + 16, f"{score:.0f}", "middle")
    card.rect(BARS, y + 2, BAR * utility, ROW - 9, "bar" if is_best else "quiet")
    card.text(BARS + BAR * utility + 5, y + 16, f"{utility:.1f}", "bold" if is_best else "")


def _samples() -> tuple[str, list[str]]:
    data = resources.files("minrisk").joinpath("data", "demo.jsonl.xz").read_bytes()
    records = map(json.loads, lzma.decompress(data).decode().splitlines())
    record = next(record for record in records if record["id"] == SENTENCE)
    return record["source"], record["samples"][:SAMPLES]


if __name__ == "__main__":
    draw().save("consensus.svg")

"""Draw docs/images/speed.svg from benchmarks/chrf/results.json.

    python docs/figures/speed.py
"""

from __future__ import annotations

import json

from card import ROOT, Axis, Card, Plot

RESULTS = ROOT / "benchmarks" / "chrf" / "results.json"
SERIES = "ntrex-en-fr, pooled"
LINES = {("fastchrf", "exact"): ("fastChrF, every pair", "line other", "rule-text"),
         ("fastchrf", "aggregate"): ("fastChrF, averaged references", "line other dashed",
                                     "rule-text"),
         ("minrisk", "exact"): ("minrisk, every pair", "line", "line-text"),
         ("minrisk", "aggregate"): ("minrisk, averaged references", "line dashed", "line-text")}


def draw() -> Card:
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    points = next(one["points"] for one in results["sweep"] if one["series"] == SERIES)
    samples = [point["samples"] for point in points]
    title = "Time of MBR by chrF, by the number of samples"
    card = Card(382, title)
    card.text(14, 26, title, "bold")
    times = Axis(1e-4, 1, {1e-4: "0.1 ms", 1e-3: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s"},
                 log=True)
    plot = Plot(card, 60, 46, 360, 210,
                Axis(samples[0], samples[-1], {n: f"{n:,}" for n in samples[::2]}, log=True), times)
    plot.axes("samples")
    for number, ((competitor, work), (name, line, text)) in enumerate(LINES.items()):
        found = {point["samples"]: one["median"] for point in points for one in point["times"]
                 if (one["competitor"], one["work"]) == (competitor, work)}
        plot.line(found.items(), line)
        y = 318 + 18 * number
        card.add(f'<path d="M60 {y - 4}h24" class="{line}"/>')
        card.text(92, y, name, text)
    return card


if __name__ == "__main__":
    draw().save("speed.svg")

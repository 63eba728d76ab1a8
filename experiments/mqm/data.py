"""Expert judgements, split by source, and the frozen embeddings of their texts."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from minrisk.metrics.embedding import Embedding

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # what all experiments share

import machine

CACHE = ROOT / "build" / "mqm"
NEWS, NEWS_TEST, TED_TEST, TED_RU = ("en-de-news2020", "en-de-news2021", "en-de-ted2021",
                                     "en-ru-ted2021")


@dataclass(frozen=True)
class Judgement:
    """0 is a perfect translation, less is worse."""

    source: str
    hypothesis: str
    reference: str
    score: float
    system: str


def judgements(name: str) -> list[Judgement]:
    with lzma.open(machine.DATA / "mqm" / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
        return [Judgement(**json.loads(line)) for line in lines]


def training_sets() -> list[list[Judgement]]:
    """One for each pair of languages; no source of a test set is among them."""
    tested = sources(row for rows in test_sets().values() for row in rows)
    return [[row for row in judgements(name) if row.source not in tested]
            for name in (NEWS, TED_RU)]


def test_sets() -> dict[str, list[Judgement]]:
    """The two English-German ones, and what English-Russian shares sources with."""
    german = {name: judgements(name) for name in (NEWS_TEST, TED_TEST)}
    tested = sources(german[TED_TEST])
    # a human translation that is its own reference is no test
    russian = [row for row in judgements(TED_RU) if row.source in tested and row.system != "ref.A"]
    return german | {TED_RU: russian}


def sources(rows: Iterable[Judgement]) -> set[str]:
    return {row.source for row in rows}


def sides(rows: Sequence[Judgement]) -> Iterator[np.ndarray]:
    """(N, 512) the hypotheses, the references and the sources."""
    return (embedded([getattr(row, side) for row in rows])
            for side in ("hypothesis", "reference", "source"))


def embedded(texts: Sequence[str]) -> np.ndarray:
    """(N, 512) of length 1; each text is encoded once and kept on disk."""
    known = _known()
    new = sorted({*texts} - known.keys())
    if new:
        known |= dict(zip(new, Embedding().features(new).astype(np.float32), strict=True))
        CACHE.mkdir(parents=True, exist_ok=True)
        np.save(CACHE / "vectors.npy", np.stack([*known.values()]))
        (CACHE / "texts.json").write_text(json.dumps([*known]), encoding="utf-8")
    return np.stack([known[text] for text in texts])


@cache
def _known() -> dict[str, np.ndarray]:
    if not (CACHE / "texts.json").exists():
        return {}
    texts = json.loads((CACHE / "texts.json").read_text(encoding="utf-8"))
    return dict(zip(texts, np.load(CACHE / "vectors.npy"), strict=True))

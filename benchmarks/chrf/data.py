"""The texts of the benchmark. They stay where the research data are; nothing is copied."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))  # what all benchmarks share

import machine

FASTCHRF_SAMPLES = machine.DATA / "fastchrf-samples.txt"
SEGMENTS = machine.DATA / "samples" / "ntrex-en-fr.jsonl.xz"


def missing() -> list[Path]:
    return [path for path in (FASTCHRF_SAMPLES, SEGMENTS) if not path.is_file()]


def fastchrf_samples(count: int) -> list[str]:
    """Distinct samples of one source, as fastChrF's own benchmark has them."""
    return FASTCHRF_SAMPLES.read_text(encoding="utf-8").split("\n")[:count]


def segments(count: int) -> Iterator[dict[str, list[str]]]:
    with lzma.open(SEGMENTS, "rt", encoding="utf-8") as lines:
        for line in islice(lines, count):
            yield json.loads(line)


def pooled_samples(count: int) -> list[str]:
    """Distinct samples of as many segments as it takes: no segment alone has so many."""
    texts = chain.from_iterable(s["samples"] for s in segments(200))
    found: dict[str, None] = {}
    for text in texts:
        if len(found) == count:
            break
        found[text] = None
    return list(found)


def characters(texts: list[str]) -> int:
    return sum(map(len, texts))

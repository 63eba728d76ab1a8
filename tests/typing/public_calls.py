"""The types of the public calls, as users and their editors see them; `make lint` checks them.

Nothing here runs: mypy fails if a call is refused, or if its result has another type.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt

import minrisk
from minrisk import _native


def decoding(output: Path) -> None:
    assert_type(minrisk.decode(["a", "b"]), minrisk.Ranking)
    assert_type(minrisk.decode(["a", "b"], ["c"], "source", metric=minrisk.ChrF(word_order=2),
                               strategy="aggregate", groups=2).text, str)
    assert_type(minrisk.decode_corpus("samples.jsonl"), Generator[minrisk.DecodedSegment])
    assert_type(minrisk.decode_corpus("samples.jsonl", output=output), minrisk.RunSummary)
    assert_type(minrisk.decode_corpus("samples.jsonl", output="best.txt", format="text"),
                minrisk.RunSummary)


def sampling() -> None:
    assert_type(minrisk.sample(["prompt"], 8, sampler="hf"), Generator[minrisk.SampledPrompt])
    assert_type(minrisk.sample(["prompt"], 8, output="samples.jsonl"), minrisk.RunSummary)
    assert_type(minrisk.translate(["source"], 8), Generator[minrisk.DecodedSegment])
    assert_type(minrisk.translate(["source"], 8, output="best.txt"), minrisk.RunSummary)
    assert_type(minrisk.answer(["prompt"], 8), Generator[minrisk.DecodedSegment])
    assert_type(minrisk.answer(["prompt"], 8, output="best.jsonl"), minrisk.RunSummary)


def evaluating() -> None:
    assert_type(minrisk.score(["line"], ["reference"]), minrisk.Score)
    assert_type(minrisk.score({"beam": ["line"]}, ["reference"]), dict[str, minrisk.Score])
    assert_type(minrisk.validate("samples.jsonl", strategies=["aggregate"]), minrisk.Validation)
    assert_type(minrisk.inspect("samples.jsonl"), minrisk.Report)
    assert_type(minrisk.export("samples.jsonl"), Generator[dict[str, Any]])
    assert_type(minrisk.export("samples.jsonl", output="train.jsonl"), minrisk.RunSummary)


def native_core() -> None:
    assert_type(_native.available_simd(), list[str])
    rows, weights = np.zeros(1, np.int64), np.zeros(1)
    texts = _native.chrf.Texts(["a"], 6, 0, False)
    assert_type(_native.chrf.scores(texts, rows, rows, rows, weights, 2.0, False, 1),
                npt.NDArray[np.float64])


def mistakes_are_found() -> None:
    """Each ignored line is an error; where it is none any more, mypy says so."""
    minrisk.decode_corpus("samples.jsonl", format="text")  # type: ignore[call-overload]
    minrisk.score(["line"], origins={"a": "b"})  # type: ignore[call-overload]
    minrisk.sample(["prompt"])  # type: ignore[call-overload]

"""Results: JSON lines or plain text, and score matrices."""

from __future__ import annotations

import json
import math
import re
import zipfile
from typing import Any, Literal, Protocol, Self

import numpy as np

from minrisk.arrays import Floats
from minrisk.io.files import told
from minrisk.io.record import Record
from minrisk.segment import Ranking, Segment

Format = Literal["json", "text"]


class Sink(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object: ...


class SegmentWriter(Protocol):
    """Gets the ranking of each segment, or the reason why there is none."""

    def write(self, record: Record, ranking: Ranking) -> None: ...

    def fail(self, record: Record, error: Exception) -> None: ...


class Writer:
    """One line per segment, out as soon as it is written."""

    def __init__(self, output: Sink, form: Format = "json", nbest: int | None = None,
                 utilities: bool = False) -> None:
        self._output = output
        self._form = form
        self._nbest = nbest
        self._utilities = utilities

    def write(self, record: Record, ranking: Ranking) -> None:
        assert isinstance(record.segment, Segment)
        best = _choice(record.segment, ranking, ranking.best)
        if self._form == "text":
            self._output.write(_one_line(best["text"]) + "\n")
        else:
            computed = {"id": record.id} | best | self._details(record.segment, ranking)
            passed = {k: v for k, v in record.extra.items() if k not in computed}
            self._output.write(json_line(computed | passed))

    def fail(self, record: Record, error: Exception) -> None:
        """Keeps the place of the segment, with the reason where there is room for it."""
        if self._form == "text":
            self._output.write("\n")
        else:
            self._output.write(json_line({"id": record.id, "error": str(error)}))

    def _details(self, segment: Segment, ranking: Ranking) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self._nbest:
            order = ranking.order[: self._nbest].tolist()
            details["nbest"] = [_choice(segment, ranking, i) for i in order]
        if self._utilities:
            details["utilities"] = [_finite(u) for u in ranking.utility.tolist()]
            details["pairs"] = ranking.pairs
        if ranking.confidence:
            details["confidence"] = {"margin": _finite(ranking.confidence.margin),
                                     "probability": _finite(ranking.confidence.probability)}
        return details


class MatrixWriter:
    """An .npz that grows segment by segment, so that memory does not."""

    def __init__(self, path: str) -> None:
        self._path = path
        with told("write", path):
            self._zip = zipfile.ZipFile(path, "w")

    def write(self, index: int, matrix: Floats) -> None:
        with told("write", self._path), \
                self._zip.open(f"{index}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, matrix, allow_pickle=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with told("write", self._path):
            self._zip.close()


def json_line(fields: dict[str, Any]) -> str:
    try:
        line = json.dumps(fields, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a field that passes through may hold what JSON has no number for
        line = json.dumps(_numbers_only(fields), ensure_ascii=False)
    return line + "\n"


def _choice(segment: Segment, ranking: Ranking, index: int) -> dict[str, Any]:
    utility = _finite(float(ranking.utility[index]))
    return {"text": segment.hypotheses[index], "index": index, "utility": utility}


def _finite(utility: float) -> float | None:
    """JSON knows no NaN, which says that the last stage did not look at a hypothesis."""
    return utility if math.isfinite(utility) else None


def _numbers_only(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers_only(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers_only(item) for item in value]
    return _finite(value) if isinstance(value, float) else value


def _one_line(text: str) -> str:
    return re.sub(r"\r\n|\r|\n", " ", text)

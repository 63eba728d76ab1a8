"""`POST /v1/rank`: candidates in, their ranking out."""

from __future__ import annotations

from typing import Any

from minrisk._core.errors import InputError
from minrisk._core.segment import Segment
from minrisk._core.strategy import Strategy
from minrisk.server.errors import ApiError
from minrisk.server.settings import Settings

_KNOWN = {"candidates", "references", "source", "weights", "counts", "model", "metric", "strategy",
          "seed"}


def read_ranking_request(given: dict[str, Any], settings: Settings) -> tuple[Segment, Strategy]:
    """The segment to rank, and the strategy."""
    for name in given.keys() - _KNOWN:
        raise ApiError(400, f"unknown field {name:.60}; known: {', '.join(sorted(_KNOWN))}")
    _check_names(given)
    for name in ("candidates", "references"):
        _check_texts(given, name, settings.max_candidates)
    preset = settings.preset_of(given.get("model"))
    strategy = settings.methods.choose(preset.strategy, given.get("metric"),
                                       given.get("strategy"), given.get("seed"))
    try:
        segment = Segment(given["candidates"], given.get("references"), given.get("source"),
                          given.get("weights"), 0, given.get("counts"))
    except InputError as error:
        raise ApiError(400, str(error)) from None
    if len(segment.references) > settings.max_candidates:
        raise ApiError(400, f"{len(segment.references)} references, with their counts; this server "
                       f"takes {settings.max_candidates} at most", param="counts")
    return segment, strategy


def _check_names(given: dict[str, Any]) -> None:
    for name, kind in (("metric", str), ("strategy", str), ("seed", int)):
        value = given.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
            raise ApiError(400, f"{name} must be of type {kind.__name__}", param=name)


def _check_texts(given: dict[str, Any], name: str, most: int) -> None:
    found = given.get(name)
    if found is None and name != "candidates":
        return
    if not isinstance(found, list) or not found or not all(isinstance(t, str) for t in found):
        raise ApiError(400, f"{name} must be a list of texts, with one at least", param=name)
    if len(found) > most:
        raise ApiError(400, f"{len(found)} {name}; this server takes {most} at most", param=name)

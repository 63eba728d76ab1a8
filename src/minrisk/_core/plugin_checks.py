"""Checks of what metrics and strategies return: a mistake of a plug-in gets a sentence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, not_features
from minrisk._core.segment import Ranking, Segment

_Scores = Callable[..., Floats]


def checked_scores(scores: _Scores) -> _Scores:
    """The method `scores`, which gets features and returns a row for each hypothesis."""
    @wraps(scores)
    def checked(metric: Any, hyps: Any, refs: Any, source: Any = None) -> Floats:
        for given in (hyps, refs, source):
            if type(given) in (str, list, tuple):  # whose rows cannot be selected
                raise not_features(given)
        found = scores(metric, hyps, refs, source)
        wanted = (len(hyps), len(refs))
        if np.shape(found) != wanted:
            raise InputError(f"metric {metric.name!r}: `scores` returned an array of shape "
                             f"{np.shape(found)} for {wanted[0]} hypotheses and {wanted[1]} "
                             f"references; wanted {wanted}, a row for each hypothesis")
        return found

    return checked


def check_features(name: str, features: Any, count: int) -> None:
    """Raise InputError unless there is a row for each text, and rows can be selected."""
    is_list = isinstance(features, str | list | tuple | dict | None)
    if is_list or not hasattr(features, "__getitem__") or not hasattr(features, "__len__"):
        raise InputError(f"metric {name!r}: `features` returned {type(features).__name__}, wanted "
                         "something whose rows an array of numbers selects, such as an array of "
                         "NumPy with a row for each text")
    if len(features) != count:
        raise InputError(f"metric {name!r}: `features` returned {len(features)} rows for {count} "
                         "texts; wanted a row for each")


def check_rankings(name: str, rankings: Sequence[Ranking], segments: Sequence[Segment]) -> None:
    """Raise InputError unless there is a ranking of all hypotheses for each segment."""
    if len(rankings) != len(segments):
        raise InputError(f"strategy {name!r}: `rank` returned {len(rankings)} rankings for "
                         f"{len(segments)} segments; wanted one for each")
    for ranking, segment in zip(rankings, segments, strict=True):
        count = len(segment.hypotheses)
        if np.shape(ranking.order) != (count,) or np.shape(ranking.utility) != (count,):
            raise InputError(f"strategy {name!r}: found a ranking with an order of "
                             f"{np.size(ranking.order)} and utilities of "
                             f"{np.size(ranking.utility)} hypotheses; wanted {count}, one for each")

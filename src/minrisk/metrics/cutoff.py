"""Scores below a threshold count for nothing (structure-conditional MBR, Eikema et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from minrisk._core.adapters import inner
from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording
from minrisk._core.metric import AnyMetric
from minrisk._core.options import option
from minrisk._core.recipe import inside
from minrisk.metrics._base import WrapperMetric


@dataclass(frozen=True)
class Cutoff(WrapperMetric):
    """scores of a metric where they reach a threshold, else nothing: --metric cutoff:NAME

    Only references that are near a hypothesis add to its utility, so that the choice is typical of
    one kind of text, and no compromise between several (Eikema et al. 2025). References cannot be
    averaged. The paper also leaves self out (`leave_self_out`).

    Args:
        metric: the inner metric, by object, class or name.
        threshold: smallest score that counts.
        below: score of pairs below the threshold; 0 unless given. An error, such as `ter`, needs
            one: its scores are negative, and 0 is the best of them.

    Raises:
        InputError: if the metric is an error and `below` is not given, or not below the threshold.

    >>> import minrisk
    >>> cutoff = minrisk.Cutoff(minrisk.ChrF(), threshold=50)
    >>> texts = cutoff.features(["the cat sat", "a cat", "the cat sat down"])
    >>> cutoff.scores(texts, texts).round(1)
    array([[100. ,   0. ,  66. ],
           [  0. , 100. ,   0. ],
           [ 88.6,   0. , 100. ]])
    """

    papers: ClassVar[tuple[str, ...]] = ("Eikema et al. 2025",)
    cost: ClassVar[str] = "n · m scores of its metric"
    metric: AnyMetric = inner(help="an inner metric, as in cutoff:chrf")
    threshold: float = option(help="smallest score that counts")
    below: float | None = option(None, help="score of pairs below the threshold; 0 unless given")

    def __post_init__(self) -> None:
        super().__post_init__()
        below = self.below
        if below is None and self.metric.is_error:
            raise InputError(Wording("cutoff: {name!r} is an error, whose best score is 0; give "
                                     "below=, a score under the threshold of {threshold:g}",
                                     name=self.metric.name, threshold=self.threshold))
        if (below or 0.0) > self.threshold:
            raise InputError(f"cutoff: below must be at most the threshold of {self.threshold:g}; "
                             f"got {below or 0:g}")

    @property
    def name(self) -> str:
        return f"cutoff:{inside(self.metric.name)}"

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Floats:
        """(H, R)"""
        found = self.metric.scores(hyps, refs, source)
        result: Floats = np.where(found >= self.threshold, found, self.below or 0.0)
        return result

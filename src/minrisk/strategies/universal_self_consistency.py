"""Universal self-consistency: a language model sees all hypotheses and names the best.

Chen et al. 2023, Universal Self-Consistency for Large Language Model Generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from minrisk._core.adapters import metric_option
from minrisk._core.batch import bind
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import Options
from minrisk._core.segment import Ranking, Segment


@dataclass(frozen=True)
class UniversalSelfConsistency(Options):
    """asks once for the best of all hypotheses, which a judge sees together

    The chosen hypothesis has the utility 1 and the others 0, in the order of the samples. Distinct
    texts are shown once, with the number of equal samples.

    Args:
        metric: the metric that chooses, such as `judge`, its name or class.

    Raises:
        InputError: if the metric cannot choose among all; when it is used, if the answer names no
            hypothesis, or if the prompt is too long.

    >>> import minrisk
    >>> judge = minrisk.Judge("llama-3", endpoint="http://localhost:8000/v1")
    >>> minrisk.UniversalSelfConsistency(judge).name
    'universal-self-consistency'
    """

    name: ClassVar[str] = "universal-self-consistency"
    papers: ClassVar[tuple[str, ...]] = ("Chen et al. 2023",)
    cost: ClassVar[str] = "one request"
    metric: AnyMetric = metric_option(needs=Ability.CHOICE)

    def rank(self, segments: Sequence[Segment]) -> list[Ranking]:
        return [pool.ranking(pool.choice()) for pool in bind(self.metric, segments)]

"""The interface for authors of metrics, strategies and samplers; docs/extend.md has examples.

    from minrisk.plugins import Metric, option

Packages register names through the entry points `minrisk.metrics`, `minrisk.strategies` and
`minrisk.samplers`. `minrisk.testing` has checks of the contract.
"""

from minrisk._core.adapters import inner, metric_option
from minrisk._core.batch import Batch, bind
from minrisk._core.errors import InputError, MissingExtra, UnusableError
from minrisk._core.groups import Groups, WeightedRows
from minrisk._core.metric import (
    Ability,
    AnyMetric,
    DerivedMetric,
    Features,
    Metric,
    Surrogate,
    Traits,
)
from minrisk._core.options import Options, option
from minrisk._core.pool import Pool
from minrisk._core.sampler import PartialError, Sample, Sampler, Samples
from minrisk._core.segment import Ranking, Segment
from minrisk._core.strategy import (
    MeanUtility,
    PoolStrategy,
    Strategy,
    segment_rng,
    stage_option,
)

__all__ = [
    "Ability",
    "AnyMetric",
    "Batch",
    "DerivedMetric",
    "Features",
    "Groups",
    "InputError",
    "MeanUtility",
    "Metric",
    "MissingExtra",
    "Options",
    "PartialError",
    "Pool",
    "PoolStrategy",
    "Ranking",
    "Sample",
    "Sampler",
    "Samples",
    "Segment",
    "Strategy",
    "Surrogate",
    "Traits",
    "UnusableError",
    "WeightedRows",
    "bind",
    "inner",
    "metric_option",
    "option",
    "segment_rng",
    "stage_option",
]

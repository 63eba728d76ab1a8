"""What authors of metrics, strategies and samplers import; CONTRIBUTING has an example of each.

    from minrisk.plugins import Ability, Metric, option

Names of other packages are found by their entry points: `minrisk.metrics`, `minrisk.strategies` and
`minrisk.samplers`. `minrisk.testing` has checks of the contract.
"""

from minrisk.adapters import inner, metric_option
from minrisk.errors import InputError, MissingExtra
from minrisk.groups import Groups
from minrisk.metric import Ability, AnyMetric, Features, Metric, Surrogate
from minrisk.options import Options, option
from minrisk.pool import Batch, Pool, bind
from minrisk.rows import WeightedRows
from minrisk.sampling.sample import PartialError, Sample, Sampler
from minrisk.segment import Ranking, Segment
from minrisk.strategy import Strategy, segment_rng, stage_option

__all__ = [
    "Ability",
    "AnyMetric",
    "Batch",
    "Features",
    "Groups",
    "InputError",
    "Metric",
    "MissingExtra",
    "Options",
    "PartialError",
    "Pool",
    "Ranking",
    "Sample",
    "Sampler",
    "Segment",
    "Strategy",
    "Surrogate",
    "WeightedRows",
    "bind",
    "inner",
    "metric_option",
    "option",
    "segment_rng",
    "stage_option",
]

"""Minimum Bayes Risk decoding: pick, from many samples, the one with the highest utility."""

from minrisk.decoding import decode, make_strategy
from minrisk.errors import InputError, MinriskError, MissingExtra
from minrisk.groups import Groups
from minrisk.io.references import ReferenceFile
from minrisk.metrics.bleu import BLEU
from minrisk.metrics.chrf import ChrF
from minrisk.pipeline.references import decode_shards
from minrisk.pool import Batch, Pool, bind
from minrisk.references import References
from minrisk.scoring import Score, score
from minrisk.segment import Confidence, Ranking, Segment, weights_from_logprobs
from minrisk.signature import signature
from minrisk.strategies.adaptive import Adaptive
from minrisk.strategies.aggregate import Aggregate
from minrisk.strategies.cascade import AggregateToFine, Cascade, CoarseToFine
from minrisk.strategies.centroid import Centroid
from minrisk.strategies.confident import Confident
from minrisk.strategies.control_variate import ControlVariate
from minrisk.strategies.diverse import Diverse
from minrisk.strategies.low_rank import LowRank
from minrisk.strategies.medoids import Medoids
from minrisk.strategies.n_by_s import NByS
from minrisk.strategies.prune import Prune
from minrisk.strategies.quality_then_mbr import QualityThenMBR
from minrisk.strategies.rerank import Rerank
from minrisk.strategies.standard import Standard
from minrisk.threads import set_threads
from minrisk.version import __version__

__all__ = [
    "BLEU",
    "Adaptive",
    "Aggregate",
    "AggregateToFine",
    "Batch",
    "Cascade",
    "Centroid",
    "ChrF",
    "CoarseToFine",
    "Confidence",
    "Confident",
    "ControlVariate",
    "Diverse",
    "Groups",
    "InputError",
    "LowRank",
    "Medoids",
    "MinriskError",
    "MissingExtra",
    "NByS",
    "Pool",
    "Prune",
    "QualityThenMBR",
    "Ranking",
    "ReferenceFile",
    "References",
    "Rerank",
    "Score",
    "Segment",
    "Standard",
    "__version__",
    "bind",
    "decode",
    "decode_shards",
    "make_strategy",
    "score",
    "set_threads",
    "signature",
    "weights_from_logprobs",
]

"""Minimum Bayes Risk decoding: pick, from many samples, the one with the highest utility."""

from minrisk.decoding import decode, make_strategy
from minrisk.errors import InputError, MinriskError, MissingExtra
from minrisk.groups import Groups
from minrisk.metrics.bleu import BLEU
from minrisk.metrics.chrf import ChrF
from minrisk.pool import Batch, Pool, bind
from minrisk.scoring import Score, score
from minrisk.segment import Ranking, Segment, weights_from_logprobs
from minrisk.signature import signature
from minrisk.strategies.aggregate import Aggregate
from minrisk.strategies.cascade import AggregateToFine, Cascade, CoarseToFine
from minrisk.strategies.n_by_s import NByS
from minrisk.strategies.standard import Standard
from minrisk.threads import set_threads
from minrisk.version import __version__

__all__ = [
    "BLEU",
    "Aggregate",
    "AggregateToFine",
    "Batch",
    "Cascade",
    "ChrF",
    "CoarseToFine",
    "Groups",
    "InputError",
    "MinriskError",
    "MissingExtra",
    "NByS",
    "Pool",
    "Ranking",
    "Score",
    "Segment",
    "Standard",
    "__version__",
    "bind",
    "decode",
    "make_strategy",
    "score",
    "set_threads",
    "signature",
    "weights_from_logprobs",
]

"""Minimum Bayes Risk decoding: pick, from many samples, the one with the highest utility.

    ranking = minrisk.decode(["a sample", "another sample", "a sample again"])
    print(ranking.text)

Everything here is imported when it is first used. What authors of metrics, strategies and samplers
need is in `minrisk.plugins`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from minrisk.version import __version__

if TYPE_CHECKING:
    from minrisk._api.decoding import decode_corpus, export
    from minrisk._api.inspecting import Report, inspect
    from minrisk._api.parts import decode_parts
    from minrisk._api.results import DecodedSegment, RunSummary, SampledPrompt
    from minrisk._api.sampling import answer, answer_async, sample, translate
    from minrisk._api.validation import validate
    from minrisk._core.batch import Batch, bind
    from minrisk._core.decoding import decode, make_metric, make_sampler, make_strategy
    from minrisk._core.errors import InputError, MinriskError, MissingExtra, UnusableError
    from minrisk._core.groups import Groups
    from minrisk._core.pool import Pool
    from minrisk._core.references import References
    from minrisk._core.segment import Confidence, Ranking, Segment, Uncertainty
    from minrisk._core.signature import signature
    from minrisk._core.threads import set_threads
    from minrisk._core.weights import weights_from_logprobs
    from minrisk.evaluation.scoring import Score, score
    from minrisk.evaluation.validation import Validation
    from minrisk.io.references import ReferenceFile
    from minrisk.io.text_files import TextFiles
    from minrisk.metrics.bertscore import BertScore
    from minrisk.metrics.bleu import BLEU
    from minrisk.metrics.bleurt import Bleurt
    from minrisk.metrics.cached import Cached
    from minrisk.metrics.chrf import ChrF
    from minrisk.metrics.cider import Cider
    from minrisk.metrics.combined import Combined
    from minrisk.metrics.comet import Comet, CometQE
    from minrisk.metrics.comet.unified import CometKiwi, XComet
    from minrisk.metrics.command import Command
    from minrisk.metrics.cutoff import Cutoff
    from minrisk.metrics.documents import Documents
    from minrisk.metrics.edit import Edit
    from minrisk.metrics.embedding import Embedding
    from minrisk.metrics.exact_match import ExactMatch
    from minrisk.metrics.json_match import JsonMatch
    from minrisk.metrics.judge import Judge
    from minrisk.metrics.logprob import LogProb
    from minrisk.metrics.metricx import MetricX, MetricXQE
    from minrisk.metrics.mqm import MQM
    from minrisk.metrics.outcomes import Outcomes
    from minrisk.metrics.python import Python
    from minrisk.metrics.reward import Reward
    from minrisk.metrics.rouge import Rouge, RougeL
    from minrisk.metrics.symbolic import Symbolic
    from minrisk.metrics.symmetric import Symmetric
    from minrisk.metrics.ter import Ter
    from minrisk.metrics.wer import Cer, Wer
    from minrisk.samplers.ct2 import CTranslate2
    from minrisk.samplers.hf import Transformers
    from minrisk.samplers.openai import Endpoint
    from minrisk.strategies.adaptive import Adaptive
    from minrisk.strategies.aggregate import Aggregate
    from minrisk.strategies.cascade import AggregateToFine, Cascade, CoarseToFine
    from minrisk.strategies.centroid import Centroid
    from minrisk.strategies.cluster import Cluster
    from minrisk.strategies.confident import Confident
    from minrisk.strategies.control_variate import ControlVariate
    from minrisk.strategies.diverse import Diverse
    from minrisk.strategies.low_rank import LowRank
    from minrisk.strategies.mbr_bon import MBRBoN
    from minrisk.strategies.medoids import Medoids
    from minrisk.strategies.n_by_s import NByS
    from minrisk.strategies.prune import Prune
    from minrisk.strategies.quality_then_mbr import QualityThenMBR
    from minrisk.strategies.rerank import Rerank
    from minrisk.strategies.standard import Standard
    from minrisk.strategies.uncertain import Uncertain
    from minrisk.strategies.universal_self_consistency import UniversalSelfConsistency

_HOME = {  # the same names by module, at run time
    "_api.decoding": ("decode_corpus", "export"),
    "_api.inspecting": ("Report", "inspect"),
    "_api.parts": ("decode_parts",),
    "_api.results": ("DecodedSegment", "RunSummary", "SampledPrompt"),
    "_api.sampling": ("answer", "answer_async", "sample", "translate"),
    "_api.validation": ("validate",),
    "_core.batch": ("Batch", "bind"),
    "_core.decoding": ("decode", "make_metric", "make_sampler", "make_strategy"),
    "_core.errors": ("InputError", "MinriskError", "MissingExtra", "UnusableError"),
    "_core.groups": ("Groups",),
    "_core.pool": ("Pool",),
    "_core.references": ("References",),
    "_core.segment": ("Confidence", "Ranking", "Segment", "Uncertainty"),
    "_core.signature": ("signature",),
    "_core.threads": ("set_threads",),
    "_core.weights": ("weights_from_logprobs",),
    "evaluation.scoring": ("Score", "score"),
    "evaluation.validation": ("Validation",),
    "io.references": ("ReferenceFile",),
    "io.text_files": ("TextFiles",),
    "metrics.bertscore": ("BertScore",),
    "metrics.bleu": ("BLEU",),
    "metrics.bleurt": ("Bleurt",),
    "metrics.cached": ("Cached",),
    "metrics.chrf": ("ChrF",),
    "metrics.cider": ("Cider",),
    "metrics.combined": ("Combined",),
    "metrics.comet": ("Comet", "CometQE"),
    "metrics.comet.unified": ("CometKiwi", "XComet"),
    "metrics.command": ("Command",),
    "metrics.cutoff": ("Cutoff",),
    "metrics.documents": ("Documents",),
    "metrics.edit": ("Edit",),
    "metrics.embedding": ("Embedding",),
    "metrics.exact_match": ("ExactMatch",),
    "metrics.json_match": ("JsonMatch",),
    "metrics.judge": ("Judge",),
    "metrics.logprob": ("LogProb",),
    "metrics.metricx": ("MetricX", "MetricXQE"),
    "metrics.mqm": ("MQM",),
    "metrics.outcomes": ("Outcomes",),
    "metrics.python": ("Python",),
    "metrics.reward": ("Reward",),
    "metrics.rouge": ("Rouge", "RougeL"),
    "metrics.symbolic": ("Symbolic",),
    "metrics.symmetric": ("Symmetric",),
    "metrics.ter": ("Ter",),
    "metrics.wer": ("Cer", "Wer"),
    "samplers.ct2": ("CTranslate2",),
    "samplers.hf": ("Transformers",),
    "samplers.openai": ("Endpoint",),
    "strategies.adaptive": ("Adaptive",),
    "strategies.aggregate": ("Aggregate",),
    "strategies.cascade": ("AggregateToFine", "Cascade", "CoarseToFine"),
    "strategies.centroid": ("Centroid",),
    "strategies.cluster": ("Cluster",),
    "strategies.confident": ("Confident",),
    "strategies.control_variate": ("ControlVariate",),
    "strategies.diverse": ("Diverse",),
    "strategies.low_rank": ("LowRank",),
    "strategies.mbr_bon": ("MBRBoN",),
    "strategies.medoids": ("Medoids",),
    "strategies.n_by_s": ("NByS",),
    "strategies.prune": ("Prune",),
    "strategies.quality_then_mbr": ("QualityThenMBR",),
    "strategies.rerank": ("Rerank",),
    "strategies.standard": ("Standard",),
    "strategies.uncertain": ("Uncertain",),
    "strategies.universal_self_consistency": ("UniversalSelfConsistency",),
}
_RENAMED = {"decode_shards": "decode_parts (and its argument shards to parts)"}
_MODULES = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BLEU",
    "MQM",
    "Adaptive",
    "Aggregate",
    "AggregateToFine",
    "Batch",
    "BertScore",
    "Bleurt",
    "CTranslate2",
    "Cached",
    "Cascade",
    "Centroid",
    "Cer",
    "ChrF",
    "Cider",
    "Cluster",
    "CoarseToFine",
    "Combined",
    "Comet",
    "CometKiwi",
    "CometQE",
    "Command",
    "Confidence",
    "Confident",
    "ControlVariate",
    "Cutoff",
    "DecodedSegment",
    "Diverse",
    "Documents",
    "Edit",
    "Embedding",
    "Endpoint",
    "ExactMatch",
    "Groups",
    "InputError",
    "JsonMatch",
    "Judge",
    "LogProb",
    "LowRank",
    "MBRBoN",
    "Medoids",
    "MetricX",
    "MetricXQE",
    "MinriskError",
    "MissingExtra",
    "NByS",
    "Outcomes",
    "Pool",
    "Prune",
    "Python",
    "QualityThenMBR",
    "Ranking",
    "ReferenceFile",
    "References",
    "Report",
    "Rerank",
    "Reward",
    "Rouge",
    "RougeL",
    "RunSummary",
    "SampledPrompt",
    "Score",
    "Segment",
    "Standard",
    "Symbolic",
    "Symmetric",
    "Ter",
    "TextFiles",
    "Transformers",
    "Uncertain",
    "Uncertainty",
    "UniversalSelfConsistency",
    "UnusableError",
    "Validation",
    "Wer",
    "XComet",
    "__version__",
    "answer",
    "answer_async",
    "bind",
    "decode",
    "decode_corpus",
    "decode_parts",
    "export",
    "inspect",
    "make_metric",
    "make_sampler",
    "make_strategy",
    "sample",
    "score",
    "set_threads",
    "signature",
    "translate",
    "validate",
    "weights_from_logprobs",
]


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"minrisk.{name} was renamed to minrisk.{_RENAMED[name]}")
    if name not in _MODULES:
        raise AttributeError(f"module 'minrisk' has no attribute {name!r}")
    found = getattr(import_module(f"minrisk.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__

# Written by `make names`.

from minrisk._core.batch import Batch, bind
from minrisk._core.calibration import Calibration
from minrisk._core.decoding import decode, make_metric, make_sampler, make_strategy
from minrisk._core.errors import InputError, MinriskError, MissingExtra, UnusableError
from minrisk._core.groups import Groups
from minrisk._core.pool import Pool
from minrisk._core.process import set_threads
from minrisk._core.segment import Confidence, Proposal, Ranking, References, Segment, Uncertainty
from minrisk._core.signature import signature
from minrisk._core.weights import weights_from_logprobs
from minrisk.evaluation.calibration import CalibrationReport, read_calibration
from minrisk.evaluation.scoring import Score, score
from minrisk.evaluation.validation import Validation
from minrisk.io.segments import ReferenceFile
from minrisk.io.text import TextFiles
from minrisk.metrics.cider import Cider
from minrisk.metrics.comet import Comet, CometKiwi, CometQE, XComet
from minrisk.metrics.edit import Cer, Edit, Wer
from minrisk.metrics.embedding import Embedding
from minrisk.metrics.given import LogProb
from minrisk.metrics.judge import Judge
from minrisk.metrics.neural.bertscore import BertScore
from minrisk.metrics.neural.bleurt import Bleurt
from minrisk.metrics.neural.metricx import MetricX, MetricXQE
from minrisk.metrics.neural.mqm import MQM
from minrisk.metrics.neural.reward import Reward
from minrisk.metrics.ngram.bleu import BLEU
from minrisk.metrics.ngram.chrf import ChrF
from minrisk.metrics.ngram.rouge import Rouge, RougeL
from minrisk.metrics.ter import Ter
from minrisk.metrics.user_code.command import Command
from minrisk.metrics.user_code.python import Python
from minrisk.metrics.votes.exact_match import ExactMatch, Outcomes
from minrisk.metrics.votes.json_match import JsonMatch
from minrisk.metrics.votes.symbolic import Symbolic
from minrisk.metrics.wrappers.cached import Cached
from minrisk.metrics.wrappers.combined import Combined, Cutoff, Symmetric
from minrisk.metrics.wrappers.documents import Documents
from minrisk.samplers.ct2 import CTranslate2
from minrisk.samplers.ensemble import Ensemble
from minrisk.samplers.hf import Transformers
from minrisk.samplers.openai import Endpoint
from minrisk.strategies.calibrated import Calibrated
from minrisk.strategies.cascade import AggregateToFine, Cascade, CoarseToFine
from minrisk.strategies.compose import Compose
from minrisk.strategies.confident import Confident
from minrisk.strategies.groups import Aggregate, Centroid, NByS, Standard
from minrisk.strategies.low_rank import LowRank
from minrisk.strategies.quality import Fuse, MBRBoN, QualityThenMBR, Rerank, RewardWeighted, UniversalSelfConsistency
from minrisk.strategies.race import Adaptive, ControlVariate, Prune
from minrisk.strategies.sets import Cluster, Diverse, Medoids
from minrisk.strategies.uncertain import Uncertain
from minrisk.tasks.calibrate import calibrate
from minrisk.tasks.decode import decode_corpus
from minrisk.tasks.export import export
from minrisk.tasks.inspect import Report, inspect
from minrisk.tasks.parts import decode_parts
from minrisk.tasks.results import DecodedSegment, RunSummary, SampledPrompt
from minrisk.tasks.sample import sample
from minrisk.tasks.translate import answer, answer_async, translate
from minrisk.tasks.validate import validate
from minrisk.version import __version__

__all__ = [
    "Adaptive", "Aggregate", "AggregateToFine", "BLEU", "Batch", "BertScore", "Bleurt",
    "CTranslate2", "Cached", "Calibrated", "Calibration", "CalibrationReport", "Cascade",
    "Centroid", "Cer", "ChrF", "Cider", "Cluster", "CoarseToFine", "Combined", "Comet", "CometKiwi",
    "CometQE", "Command", "Compose", "Confidence", "Confident", "ControlVariate", "Cutoff",
    "DecodedSegment", "Diverse", "Documents", "Edit", "Embedding", "Endpoint", "Ensemble",
    "ExactMatch", "Fuse", "Groups", "InputError", "JsonMatch", "Judge", "LogProb", "LowRank",
    "MBRBoN", "MQM", "Medoids", "MetricX", "MetricXQE", "MinriskError", "MissingExtra", "NByS",
    "Outcomes", "Pool", "Proposal", "Prune", "Python", "QualityThenMBR", "Ranking", "ReferenceFile",
    "References", "Report", "Rerank", "Reward", "RewardWeighted", "Rouge", "RougeL", "RunSummary",
    "SampledPrompt", "Score", "Segment", "Standard", "Symbolic", "Symmetric", "Ter", "TextFiles",
    "Transformers", "Uncertain", "Uncertainty", "UniversalSelfConsistency", "UnusableError",
    "Validation", "Wer", "XComet", "__version__", "answer", "answer_async", "bind", "calibrate",
    "decode", "decode_corpus", "decode_parts", "export", "inspect", "make_metric", "make_sampler",
    "make_strategy", "read_calibration", "sample", "score", "set_threads", "signature", "translate",
    "validate", "weights_from_logprobs",
]

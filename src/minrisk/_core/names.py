"""The names of the registry, for type checkers. Written by `make names`."""

from typing import Literal

MetricName = Literal[
    "chrf", "bleu", "comet", "comet-qe", "comet-kiwi", "xcomet", "bertscore", "metricx",
    "metricx-qe", "bleurt", "ter", "rouge", "rouge-l", "edit", "wer", "cer", "cider", "exact-match",
    "json-match", "symbolic", "outcomes", "embedding", "mqm", "judge", "reward", "logprob",
    "python", "command", "combined", "symmetric", "cutoff", "documents", "cached",
]
StrategyName = Literal[
    "standard", "n-by-s", "aggregate", "aggregate-to-fine", "coarse-to-fine", "cascade", "prune",
    "adaptive", "centroid", "low-rank", "control-variate", "rerank", "quality-then-mbr", "mbr-bon",
    "universal-self-consistency", "fuse", "compose", "diverse", "medoids", "cluster",
]
SamplerName = Literal[
    "hf", "openai", "ct2",
]

"""How sure a model was of a sample, by the log-probabilities of its tokens.

Fu et al. 2025 (DeepConf): the confidence of the least confident group of consecutive tokens, and of
the last ones. Kang et al. 2025: self-certainty, here over the likeliest tokens that a server lists.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# tokens in a group: about a sentence, and a tenth of an answer of a few hundred tokens
WINDOW = 32
TOP_LOGPROBS = 5  # likeliest tokens of each position that are requested: what every server accepts
# of one sample: of several, in records and segments
CONFIDENCES = {"lowest_logprob": "lowest_logprobs", "tail_logprob": "tail_logprobs",
               "certainty": "certainties"}
TOKEN_SIGNALS = ("logprob", "cocoa", *CONFIDENCES)  # of a confidence, which need log-probabilities


def lowest_and_tail(logprobs: Sequence[float], window: int = WINDOW) -> tuple[float, float]:
    """The mean log-probability of the least confident `window` consecutive tokens, and of the last.

    A text with fewer tokens is one group.

    >>> lowest_and_tail([-1.0, -4.0, -2.0, 0.0], window=2)
    (-3.0, -1.0)
    """
    width = min(window, len(logprobs))
    total = np.concatenate([[0.0], np.cumsum(np.asarray(logprobs, np.float64))])
    means = np.minimum((total[width:] - total[:-width]) / width, 0.0)  # rounding may exceed 0
    return float(means.min()), float(means[-1])


def self_certainty(top: Sequence[Sequence[float]]) -> float | None:
    """The mean of -log p over the likeliest tokens of every position; None for fewer than two.

    It is the divergence of the distribution of these tokens from a uniform one, up to a constant.
    Servers list one token more where the sampled one is not among the likeliest: it is left out.

    >>> self_certainty([[-0.5, -1.5], [-0.25, -3.75]])
    1.5
    """
    size = min(map(len, top), default=0)
    if size < 2:
        return None
    certainty = -float(np.mean([sorted(listed, reverse=True)[:size] for listed in top]))
    return certainty if math.isfinite(certainty) else None

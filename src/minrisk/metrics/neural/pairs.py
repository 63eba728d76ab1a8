"""Scores of all pairs of hypotheses and references by a cross-encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import warn
from minrisk._core.process import report_progress
from minrisk._torch.device import Runtime
from minrisk._torch.tokens import length_batches

_PAIRS_PER_CHUNK = 4096  # pairs whose inputs are in memory at a time

# the tokens of a pair, and whether they were truncated
TokenizePair = Callable[[int, int], tuple[Ints, bool]]
ScoreBatch = Callable[[Sequence[Ints]], Tensor]  # (B,) scores of a batch


def pairs_in_chunks(hyps: int, refs: int) -> Iterator[list[tuple[int, int]]]:
    pairs = product(range(hyps), range(refs))
    while chunk := list(islice(pairs, _PAIRS_PER_CHUNK)):
        yield chunk


@torch.inference_mode()
def pair_scores(hyps: int, refs: int, tokenize_pair: TokenizePair, score_batch: ScoreBatch,
                runtime: Runtime) -> Floats:
    """(H, R) scores, computed in batches of pairs of similar length."""
    result = np.zeros((hyps, refs))
    done, long = 0, 0
    with runtime.inference():
        for pairs in pairs_in_chunks(hyps, refs):
            inputs, cut = zip(*(tokenize_pair(*pair) for pair in pairs), strict=True)
            long += sum(cut)
            for rows in length_batches([own.size for own in inputs], runtime.tokens):
                found = score_batch([inputs[row] for row in rows])
                places = np.array([pairs[row] for row in rows])
                result[places[:, 0], places[:, 1]] = found.float().cpu().numpy()
                done += len(rows)
                report_progress("pairs scored", done, result.size)
    if long:
        warn(f"{long} of {result.size} pairs have more tokens than the model takes; the rest is "
             "ignored")
    return result

"""All pairs of hypotheses and references through a model that reads both together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product

import numpy as np
import torch
from torch import Tensor

from minrisk._torch.batches import batches
from minrisk._torch.device import Runtime
from minrisk.arrays import Floats, Ints
from minrisk.progress import tell

_AT_ONCE = 4096  # pairs whose inputs and states are held together

Read = Callable[[int, int], tuple[Ints, bool]]  # the tokens of a pair, and whether they were cut
Judge = Callable[[Sequence[Ints]], Tensor]  # (B,) scores of a batch


def pairs_in_chunks(hyps: int, refs: int) -> Iterator[list[tuple[int, int]]]:
    pairs = product(range(hyps), range(refs))
    while chunk := list(islice(pairs, _AT_ONCE)):
        yield chunk


@torch.inference_mode()
def pair_scores(hyps: int, refs: int, read: Read, judge: Judge, runtime: Runtime) -> Floats:
    """(H, R) with pairs of similar length in one batch."""
    result = np.zeros((hyps, refs))
    done, long = 0, 0
    with runtime.running():
        for pairs in pairs_in_chunks(hyps, refs):
            inputs, cut = zip(*(read(*pair) for pair in pairs), strict=True)
            long += sum(cut)
            for rows in batches([own.size for own in inputs], runtime.tokens):
                found = judge([inputs[row] for row in rows])
                places = np.array([pairs[row] for row in rows])
                result[places[:, 0], places[:, 1]] = found.float().cpu().numpy()
                done += len(rows)
                tell("pairs scored", done, result.size)
    if long:
        warnings.warn(f"{long} of {result.size} pairs have more tokens than the model takes; "
                      "it does not see the rest", stacklevel=4)
    return result

"""Decoding steps as CUDA graphs; row counts are padded, so that few captures are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minrisk._torch.cuda_graphs import CudaGraphs, next_power_of_two
from minrisk.samplers.hf.attention import Network, TritonAttention
from minrisk.samplers.hf.drawing import Draw, DrawnTokens

_MAX_RECORDINGS = 256
_MIN_ROW_STEP = 256  # larger row counts are multiples of this


@dataclass(frozen=True)
class _GraphKey:
    """Everything that is constant in a captured graph."""

    rows: int
    inputs: int  # size of the packed inputs, which depends on the number of samples
    draw: Draw


class RecordedSteps:
    """The steps of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._graphs: CudaGraphs[_GraphKey, DrawnTokens] = CudaGraphs(_MAX_RECORDINGS)

    def step(self, tokens: Tensor, rows: Tensor, cache: Tensor, draw: Draw,
             inputs: Tensor) -> DrawnTokens:
        """Draw the next tokens; row counts should be padded (`padded_rows`). `rows` (2, R) are the
        sources of the rows, and the positions of their first tokens.
        """
        key = _GraphKey(len(tokens), len(inputs), draw)

        def run(all_inputs: Tensor) -> DrawnTokens:
            tokens, source, starts, cache, inputs = torch.split(
                all_inputs, [key.rows, key.rows, key.rows,
                             len(all_inputs) - 3 * key.rows - key.inputs, key.inputs])
            logits = self._network.step(tokens, starts + cache[-1:],
                                        TritonAttention(cache, source))
            # `longer` would keep the logits of every graph alive
            return replace(draw(logits, _no_history, inputs), longer=None)

        # capturing may run the step several times, which has no side effects
        return self._graphs.run(key, [tokens, rows.flatten(), cache, inputs], run)


def padded_rows(number: int) -> int:
    """Round up to a power of four of at least 16; above 256, to one of few sizes."""
    if number <= _MIN_ROW_STEP:
        return int(max(16, 1 << 2 * -(-(number - 1).bit_length() // 2)))
    step = max(_MIN_ROW_STEP, next_power_of_two(number) // 8)
    return -(-number // step) * step


def _no_history() -> Tensor:
    raise AssertionError("logits processors that read histories are not recorded")

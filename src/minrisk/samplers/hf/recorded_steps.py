"""Steps as CUDA graphs: rows are padded to a few numbers, so that few recordings are needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from minrisk._torch.cuda_graphs import CudaGraphs, next_power_of_two
from minrisk.samplers.hf.attention import Network, TritonAttention
from minrisk.samplers.hf.drawing import Draw, DrawnTokens

_MAX_RECORDINGS = 256
_MIN_ROW_STEP = 256  # that larger numbers of rows are multiples of


@dataclass(frozen=True)
class _GraphKey:
    """What is fixed in a recording."""

    rows: int
    inputs: int  # numbers, as many as the samples need
    draw: Draw


class RecordedSteps:
    """The steps of a network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._graphs: CudaGraphs[_GraphKey, DrawnTokens] = CudaGraphs(_MAX_RECORDINGS)

    def step(self, tokens: Tensor, source: Tensor, cache: Tensor, draw: Draw,
             inputs: Tensor) -> DrawnTokens:
        """The next tokens after those of rows, of which there should be few numbers."""
        key = _GraphKey(len(tokens), len(inputs), draw)

        def run(all_inputs: Tensor) -> DrawnTokens:
            tokens, source, cache, inputs = torch.split(
                all_inputs, [key.rows, key.rows, len(all_inputs) - 2 * key.rows - key.inputs,
                             key.inputs])
            logits = self._network.step(tokens, cache[-1:], TritonAttention(cache, source))
            # without what would keep the logits of every recording
            return replace(draw(logits, _no_history, inputs), longer=None)

        # that a recording runs the step several times changes nothing
        return self._graphs.run(key, [tokens, source, cache, inputs], run)


def padded_rows(number: int) -> int:
    """Up to a power of four that is 16 at least; of more than 256 up to one of few numbers."""
    if number <= _MIN_ROW_STEP:
        return int(max(16, 1 << 2 * -(-(number - 1).bit_length() // 2)))
    step = max(_MIN_ROW_STEP, next_power_of_two(number) // 8)
    return -(-number // step) * step


def _no_history() -> Tensor:
    raise AssertionError("logits processors that read histories are not recorded")

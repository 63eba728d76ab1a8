"""The encoder without padding: the tokens of all texts in one row, attention within each text.

For encoders whose layers are BERT's, on CUDA and in half precision. It uses the weights of the
transformers model, and gives what running that model gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from minrisk._core.arrays import Ints
from minrisk._torch.cuda_graphs import CudaGraphs, next_power_of_two
from minrisk._torch.device import triton_not_supported_reasons, upload
from minrisk._torch.tokens import longest_first

if TYPE_CHECKING:
    from minrisk.metrics.comet.encoder import CometEncoder

_POSITIONS_AFTER_PADDING = {"xlm-roberta": True, "bert": False}  # kinds with BERT's layers
_HALF = (torch.bfloat16, torch.float16)
_MIN_TOKEN_STEP = 256  # tokens that recorded batches differ by
# tokens less than a multiple of the step: for multiples of 128, cuBLAS chooses slower kernels
_MISSING = 8
_BATCH_PARTS = 8  # of a full batch, of which a smaller one has as many as there are tokens for
_TEXT_TOKENS = 32  # most texts have as many; there is room for shorter ones where they come
_MIN_LONGEST = 64  # attention takes as long for texts that are shorter
_MAX_RECORDINGS = 64


def not_supported_reasons(encoder: CometEncoder) -> list[str]:
    """Reasons why this path cannot run; none if it can."""
    model: Any = encoder.model
    config, weight = model.config, next(model.parameters())
    reasons = triton_not_supported_reasons(weight.device)
    if weight.dtype not in _HALF:
        reasons.append(f"the numbers are {weight.dtype}, not of half precision")
    if config.model_type not in _POSITIONS_AFTER_PADDING:
        reasons.append(f"the layers are those of {config.model_type}, not BERT's")
    if getattr(config, "position_embedding_type", "absolute") != "absolute":
        reasons.append("positions are relative")
    if config.hidden_act != "gelu":
        reasons.append(f"the activation is {config.hidden_act}, not gelu")
    if encoder.pool == "max":
        reasons.append("the pooling is max")
    return reasons


@dataclass(frozen=True)
class BatchSize:
    """Numbers of a batch."""

    tokens: int
    texts: int
    longest: int  # tokens of the longest text
    fillers: int = 0  # tokens at the end that may belong to no text

    @classmethod
    def of(cls, ids: Sequence[Ints]) -> BatchSize:
        lengths = [own.size for own in ids]
        return cls(sum(lengths), len(lengths), max(lengths))

    def rounded_up(self) -> BatchSize:
        """One of few sizes: filler tokens cost time, texts without tokens hardly any.

        There is always a filler, so that texts without tokens have one to start at.
        """
        power = next_power_of_two(self.tokens)
        step = max(_MIN_TOKEN_STEP, power >> 6)
        tokens = ((self.tokens + _MISSING) // step + 1) * step - _MISSING
        texts = next_power_of_two(self.texts, power // _TEXT_TOKENS)
        return BatchSize(tokens, texts, next_power_of_two(self.longest, _MIN_LONGEST), step)


def packed_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows of similar length, longest first, in batches of few sizes: `budget` tokens, as many
    parts of it as there are tokens for, and what is left then.
    """
    part = min(budget, max(_MIN_TOKEN_STEP, budget // _BATCH_PARTS))
    order = longest_first(lengths)
    ends = np.cumsum([lengths[row] for row in order])
    start = done = 0
    while start < len(order):
        tokens = max(part, min(budget, int(ends[-1]) - done) // part * part)
        fitting = int(np.searchsorted(ends, done + tokens - _MISSING, "left"))
        stop = max(start + 1, fitting)
        yield order[start:stop]
        start, done = stop, int(ends[stop - 1])


@dataclass(frozen=True)
class PackedTexts:
    """A batch of texts, one after the other."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) of each token in its text
    starts: Tensor  # (B + 1,) of each text, and the end
    counts: Tensor  # (B, 1) tokens of each text
    size: BatchSize

    @classmethod
    def of(cls, numbers: Tensor, size: BatchSize) -> PackedTexts:
        """From what `packed_numbers` returns, on the device."""
        tokens, positions, starts, counts = torch.split(
            numbers, [size.tokens, size.tokens, size.texts + 1, size.texts])
        return cls(tokens, positions, starts, counts[:, None], size)


def packed_numbers(ids: Sequence[Ints], size: BatchSize) -> npt.NDArray[np.int32]:
    """A batch as one array, which is one copy to the device; filled up with zeros and with texts
    without tokens if there are fewer texts and tokens than the size says.
    """
    lengths = np.zeros(size.texts, np.int32)
    lengths[: len(ids)] = [own.size for own in ids]
    ends = np.cumsum(lengths, dtype=np.int32)
    result = np.zeros(2 * size.tokens + 2 * size.texts + 1, np.int32)
    tokens, positions, starts, counts = np.split(
        result, np.cumsum([size.tokens, size.tokens, size.texts + 1]))
    np.concatenate(ids, out=tokens[: ends[-1]], casting="same_kind")
    positions[: ends[-1]] = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    starts[1:] = ends
    counts[:] = lengths
    return result


class PackedEncoder:
    """Runs the layers of an encoder on packed texts, sizes that come again as CUDA graphs."""

    def __init__(self, encoder: CometEncoder) -> None:
        self._encoder = encoder
        model: Any = encoder.model
        self._layers = [PackedLayer(layer) for layer in model.encoder.layer]
        self._device = next(encoder.model.parameters()).device
        if self._device.type == "cuda":
            self._graphs: CudaGraphs[BatchSize, Tensor] = CudaGraphs(_MAX_RECORDINGS)
            self._copied: Any = torch.cuda.Event()  # type: ignore[no-untyped-call,unused-ignore]

    def embed(self, ids: Sequence[Ints]) -> Tensor:
        """(B, D) sentence embeddings."""
        size = BatchSize.of(ids)
        if self._device.type == "cuda":
            return self._run_as_graph(ids, size.rounded_up())
        return self._run(upload(packed_numbers(ids, size), self._device), size)

    def _run_as_graph(self, ids: Sequence[Ints], size: BatchSize) -> Tensor:
        # threads have streams of their own, and all graphs the same memory
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._copied)
        found = self._graphs.run(size, [upload(packed_numbers(ids, size), self._device)],
                                 lambda numbers: self._run(numbers, size))
        result = found[: len(ids)].clone()
        self._copied.record(stream)
        return result

    def _run(self, numbers: Tensor, size: BatchSize) -> Tensor:
        """(B, D) sentence embeddings, undefined for texts without tokens."""
        mix, texts = self._encoder.mix, PackedTexts.of(numbers, size)
        hidden = self._embeddings(texts)
        pooled = hidden.new_zeros(size.texts, hidden.shape[1], dtype=torch.float32)
        for place, layer in enumerate([None, *self._layers]):
            hidden = hidden if layer is None else layer(hidden, texts)
            if place in mix:
                pooled.add_(self._pool(hidden, texts), alpha=mix[place])
        return pooled

    def _embeddings(self, texts: PackedTexts) -> Tensor:
        """(T, D) token embeddings."""
        model: Any = self._encoder.model
        offset = 0
        if _POSITIONS_AFTER_PADDING[model.config.model_type]:
            offset = model.config.pad_token_id + 1
        tokens = texts.tokens[None]
        found: Tensor = model.embeddings(input_ids=tokens, token_type_ids=torch.zeros_like(tokens),
                                         position_ids=texts.positions[None] + offset)
        return found[0]

    def _pool(self, hidden: Tensor, texts: PackedTexts) -> Tensor:
        """(B, D) float32: one layer, pooled as `pooling.LinearPooling` does it."""
        from minrisk.metrics.comet.kernels import token_sums

        counts = texts.counts
        sums = token_sums(hidden, texts.starts)
        pooled = hidden[texts.starts[:-1]].float() if self._encoder.pool == "cls" else sums / counts
        if not self._encoder.layer_norm:
            return pooled
        size = counts * hidden.shape[1]
        mean = sums.sum(1, keepdim=True) / size
        squares = token_sums(hidden.float().square().sum(1, keepdim=True), texts.starts)
        return (pooled - mean) / (squares / size - mean**2 + 1e-12).sqrt()


class PackedLayer:
    """One layer of BERT, with its three projections as one product."""

    def __init__(self, layer: Any) -> None:
        attention = layer.attention.self
        parts = (attention.query, attention.key, attention.value)
        self._weight = torch.cat([part.weight for part in parts]).detach()
        self._bias = torch.cat([part.bias for part in parts]).detach()
        self._heads: int = attention.num_attention_heads
        self._attention_output: Any = layer.attention.output
        self._intermediate: nn.Linear = layer.intermediate.dense
        self._output: Any = layer.output

    def __call__(self, hidden: Tensor, texts: PackedTexts) -> Tensor:
        from minrisk._torch.kernels import add_norm
        from minrisk.metrics.comet.kernels import attention

        qkv = functional.linear(hidden, self._weight, self._bias)
        attended = attention(qkv, texts.starts, texts.size.longest, self._heads,
                             texts.size.fillers)
        output = self._attention_output
        hidden = add_norm(output.dense(attended), hidden, output.LayerNorm)
        wide = self._widened(hidden)
        return add_norm(self._output.dense(wide), hidden, self._output.LayerNorm)

    def _widened(self, hidden: Tensor) -> Tensor:
        """(T, 4D) GELU of the first product, by its own kernel, so that it is not read again.

        That has GELU's approximation by tanh, whose error is about a rounding of half precision.
        """
        wide = self._intermediate
        kernel = getattr(torch, "_addmm_activation", None)
        if kernel is None:
            return functional.gelu(wide(hidden))
        found: Tensor = kernel(wide.bias, hidden, wide.weight.T, use_gelu=True)
        return found

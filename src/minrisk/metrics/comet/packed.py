"""The encoder without padding: tokens of all texts are concatenated, attention is per text.

For encoders with BERT's layers, on CUDA and in half precision. It uses the weights of the
transformers model and computes the same results.
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

# model types with BERT's layers -> whether positions start after the padding index
_POSITIONS_AFTER_PADDING = {"xlm-roberta": True, "bert": False}
_HALF = (torch.bfloat16, torch.float16)
_MIN_TOKEN_STEP = 256  # granularity of batch sizes for graph capture, in tokens
# sizes are this much below a multiple of the step: at multiples of 128, cuBLAS picks slower kernels
_MISSING = 8
_BATCH_PARTS = 8  # sizes of smaller batches are multiples of 1/8 of a full batch
_TEXT_TOKENS = 32  # typical tokens per text; sizes have room for more texts if they are shorter
_MIN_LONGEST = 64  # attention is not faster for shorter texts
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
    """The sizes of a batch that a captured graph depends on."""

    tokens: int
    texts: int
    longest: int  # maximum tokens of a text
    fillers: int = 0  # maximum number of padding tokens at the end

    @classmethod
    def of(cls, ids: Sequence[Ints]) -> BatchSize:
        lengths = [own.size for own in ids]
        return cls(sum(lengths), len(lengths), max(lengths))

    def rounded_up(self) -> BatchSize:
        """One of few sizes: padding tokens cost time, empty texts hardly any.

        There is always a padding token, so that empty texts have one to start at.
        """
        power = next_power_of_two(self.tokens)
        step = max(_MIN_TOKEN_STEP, power >> 6)
        tokens = ((self.tokens + _MISSING) // step + 1) * step - _MISSING
        texts = next_power_of_two(self.texts, power // _TEXT_TOKENS)
        return BatchSize(tokens, texts, next_power_of_two(self.longest, _MIN_LONGEST), step)


def packed_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows of similar length, longest first, in batches of few sizes: `budget` tokens, then a
    multiple of `budget` / 8, then the rest.
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
    """A batch of concatenated texts."""

    tokens: Tensor  # (T,)
    positions: Tensor  # (T,) position of each token in its text
    starts: Tensor  # (B + 1,) start of each text, and the end of the last
    counts: Tensor  # (B, 1) number of tokens of each text
    size: BatchSize

    @classmethod
    def of(cls, numbers: Tensor, size: BatchSize) -> PackedTexts:
        """Unpack the result of `packed_numbers`, on the device."""
        tokens, positions, starts, counts = torch.split(
            numbers, [size.tokens, size.tokens, size.texts + 1, size.texts])
        return cls(tokens, positions, starts, counts[:, None], size)


def packed_numbers(ids: Sequence[Ints], size: BatchSize) -> npt.NDArray[np.int32]:
    """A batch as one array, for a single copy to the device; padded with zeros and empty texts up
    to `size`.
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
    """Runs the layers of an encoder on packed texts, with CUDA graphs for repeated sizes."""

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
        # threads have separate streams, but all graphs share memory
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(self._copied)
        found = self._graphs.run(size, [upload(packed_numbers(ids, size), self._device)],
                                 lambda numbers: self._run(numbers, size))
        result = found[: len(ids)].clone()
        self._copied.record(stream)
        return result

    def _run(self, numbers: Tensor, size: BatchSize) -> Tensor:
        """(B, D) sentence embeddings; undefined for empty texts."""
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
        """(B, D) float32: one layer, pooled as in `pooling.LinearPooling`."""
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
    """A layer of BERT with a fused projection of queries, keys and values."""

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
        """(T, 4D) GELU of the first product, fused into the matrix product.

        The fused kernel uses the tanh approximation, whose error is about one rounding of half
        precision.
        """
        wide = self._intermediate
        kernel = getattr(torch, "_addmm_activation", None)
        if kernel is None:
            return functional.gelu(wide(hidden))
        found: Tensor = kernel(wide.bias, hidden, wide.weight.T, use_gelu=True)
        return found

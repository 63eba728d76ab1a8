"""Which tokens may be drawn: transformers' truncations, in its order and with its meaning.

Each of them keeps the best tokens of a row, however many, so that all work on a list of tokens
that is sorted and, where that is enough, short: the vocabulary is passed over twice, not ten times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from minrisk._core.arrays import Floats, Ints
from minrisk._core.options import Options, option
from minrisk._torch.device import triton_not_supported_reasons, upload

_MAX_TIES = 32  # tokens as likely as the last of the top k, for which there is room in a short list
_KERNEL_MARGIN = 1e-4  # by which a kernel's probabilities may differ from ours
_FIRST_LIST_TOKENS = 256  # where the options say nothing about how many they keep
Cut = Callable[[Tensor], Tensor]  # log-probabilities (R, K), best first -> those to keep


class Candidates(Protocol):
    """The tokens of each row that may be drawn; they stay on the device."""

    def draw(self, uniforms: Floats) -> DrawnTokens:
        """A token for each of the uniforms: a row's number plus a number from [0, 1)."""
        ...


@dataclass(frozen=True)
class DrawnTokens:
    """What some samples drew."""

    tokens: Ints  # (N,)
    truncated: Floats  # (N,) log-probability of drawing it
    full: Floats  # (N,) log-probability under the model as it is
    rows: Ints  # (N,) where it was found; in another row if the logits were no numbers


@dataclass(frozen=True)
class FullVocabulary:
    """All of the vocabulary, in its order."""

    cumulative: Tensor  # (R * V,) distribution; row r climbs from r to r + 1
    scores: Tensor  # (R, V) log-probabilities of drawing
    logs: Tensor  # (R, V) those of the model, less what `shift` (R, 1) adds
    shift: Tensor

    def draw(self, uniforms: Floats) -> DrawnTokens:
        places = _search(self.cumulative, uniforms)
        tokens, rows = places % self.scores.shape[1], places // self.scores.shape[1]
        full = self.logs.view(-1)[places] + self.shift[rows, 0]
        return _download(torch.stack([tokens, self.scores.view(-1)[places], full, rows], 1))


@dataclass(frozen=True)
class LikelyTokens:
    """The best tokens; if a list turns out to be too short, its tokens are -1."""

    cumulative: Tensor  # (R * K,) distribution; row r climbs from r to r + 1
    table: Tensor  # (R * K, 4) token, log-probability of drawing it, that under the model, row
    longer: Callable[[], Candidates] | None  # None if the list is long enough in any case

    def draw(self, uniforms: Floats) -> DrawnTokens:
        drawn = _download(self.table[_search(self.cumulative, uniforms)])
        if self.longer is not None and drawn.tokens.min() < 0:
            return self.longer().draw(uniforms)
        return drawn


def _search(cumulative: Tensor, uniforms: Floats) -> Tensor:
    """(N,) where each uniform falls in the cumulative distributions of all rows.

    Where logits were no numbers these are none either, and the search may run past their end.
    """
    places = torch.searchsorted(cumulative, upload(uniforms, cumulative.device), right=True)
    return places.clamp_(max=len(cumulative) - 1)


def _download(columns: Tensor) -> DrawnTokens:
    """The one moment of a step when the host waits for the device.

    Tokens came as float32, which holds all numbers below 2**24.
    """
    tokens, truncated, full, rows = columns.cpu().numpy().T.astype(np.float64)
    return DrawnTokens(tokens.astype(np.intp), truncated, full, rows.astype(np.intp))


def _cumulative(logs: Tensor) -> Tensor:
    """(R * K,) the cumulative distributions of all rows, one above the other."""
    sums = logs.exp().cumsum(1, dtype=torch.float64)
    sums /= sums[:, -1:].clone()
    sums += torch.arange(len(sums), device=sums.device)[:, None]
    return sums.view(-1)


@dataclass(frozen=True)
class Truncation(Options):
    """Nothing is cut off unless told; with no field changed this is ancestral sampling."""

    name: ClassVar[str] = "sampling"  # in messages: the options come from a generation config too

    temperature: float = option(1.0, gt=0, help="divisor of the logits")
    top_k: int = option(0, ge=0, help="number of likeliest tokens; 0 is all")
    top_p: float = option(1.0, gt=0, le=1, help="mass of the likeliest tokens")
    min_p: float = option(0.0, ge=0, lt=1, help="least share of the likeliest token's probability")
    epsilon: float = option(0.0, ge=0, lt=1, help="least probability")
    eta: float = option(0.0, ge=0, lt=1, help="the same, but lower where the distribution is flat")

    def __call__(self, scores: Tensor, logs: Tensor, shift: Tensor) -> Candidates:
        """What may be drawn, by log-probabilities (R, V) that keep the rules.

        Those under the model as it is are `logs` (R, V) plus `shift` (R, 1).
        """
        if self.temperature != 1:
            scores = (scores / self.temperature).log_softmax(1)
        if not [*self._cuts()]:
            return FullVocabulary(_cumulative(scores), scores, logs, shift)
        return self._shortlist(scores, logs, shift, self._width())

    def uses_likely_kernel(self, device: torch.device) -> bool:
        """Whether tokens of some probability are all that can be drawn, and a kernel finds them."""
        asked = self.epsilon and self._is_wide_enough and self.temperature == 1
        return bool(asked) and not triton_not_supported_reasons(device)

    def likely(self, logits: Tensor, lost: Tensor) -> Candidates:
        """What may be drawn, by logits (R, V); of what may not, the logits come to `lost` (R, 1).
        """
        from minrisk.samplers.hf import kernels

        width = min(self._width(), logits.shape[1])
        least = math.log(self.epsilon) - _KERNEL_MARGIN
        tokens, scores, totals = kernels.likely(logits, least, width)
        scores, order = scores.sort(1, descending=True)
        full = scores + (totals[:, None] - torch.logaddexp(totals[:, None], lost))
        return self._apply_cuts(scores, tokens.gather(1, order), full, None)

    def _shortlist(self, scores: Tensor, logs: Tensor, shift: Tensor, width: int) -> Candidates:
        """The best `width` tokens, or fewer, after all cuts."""
        width = min(width, scores.shape[1])
        longer = None
        if width < scores.shape[1] and not self._is_wide_enough:
            longer = partial(self._shortlist, scores, logs, shift, scores.shape[1])
        best, tokens = scores.topk(width)
        return self._apply_cuts(best, tokens, logs.gather(1, tokens) + shift, longer)

    def _apply_cuts(self, scores: Tensor, tokens: Tensor, full: Tensor,
             longer: Callable[[], Candidates] | None) -> Candidates:
        """Of tokens (R, K), best first; if the first cut keeps them all, there may be more."""
        for number, keeps in enumerate(self._cuts()):
            keep = (keeps(scores) | (scores == scores[:, :1])) & (scores > -math.inf)
            if number == 0 and longer is not None:
                tokens = tokens.masked_fill(keep[:, -1:], -1)
            scores = scores.masked_fill(~keep, -math.inf).log_softmax(1)
        rows = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(tokens)
        table = torch.stack([tokens, scores, full, rows], 2).view(-1, 4)
        return LikelyTokens(_cumulative(scores), table, longer)

    def _cuts(self) -> Iterator[Cut]:
        """In the order in which transformers applies them."""
        if self.top_k:
            yield lambda logs: logs >= logs[:, min(self.top_k, logs.shape[1]) - 1, None]
        if self.top_p < 1:
            yield lambda logs: logs.exp().cumsum(1) - logs.exp() < self.top_p
        if self.min_p:
            yield lambda logs: logs >= logs[:, :1] + math.log(self.min_p)
        if self.epsilon:
            yield lambda logs: logs.exp() >= self.epsilon
        if self.eta:
            yield self._above_eta

    def _above_eta(self, logs: Tensor) -> Tensor:
        entropy = torch.special.entr(logs.exp()).sum(1, keepdim=True)
        keep: Tensor = logs.exp() >= (math.sqrt(self.eta) * (-entropy).exp()).clamp(max=self.eta)
        return keep

    def _width(self) -> int:
        """How many tokens the first cut keeps at most, or is likely to."""
        if self.top_k:
            return self.top_k + _MAX_TIES
        if self.top_p < 1 or self.min_p:
            return _FIRST_LIST_TOKENS
        return int(1 / self.epsilon) + 2 if self.epsilon else 1 << 62  # eta asks for all of them

    @property
    def _is_wide_enough(self) -> bool:
        """Whether that is certain: no more than 1 / epsilon tokens can be that likely."""
        return not (self.top_k or self.top_p < 1 or self.min_p)

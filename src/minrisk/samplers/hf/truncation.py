"""Truncation of distributions (top-k, top-p, min-p, epsilon, eta) in transformers' order.

Each truncation keeps the most likely tokens of a row, so all of them work on one sorted list, which
is short if possible: this takes two passes over the vocabulary instead of ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from minrisk._core.options import Options, option
from minrisk._torch.device import triton_not_supported_reasons
from minrisk.samplers.hf import native

_MAX_TIES = 32  # ties with the k-th token for which a short list has room
_KERNEL_MARGIN = 1e-4  # tolerance for differences between log-probabilities of kernels and torch
_FIRST_LIST_TOKENS = 256  # length of the list if the options do not bound the candidates
_BLOCK = 512  # tokens, for blocks of the whole vocabulary: about the square root of a large one
# below 1 even after a row number is added and the sum is rounded
LARGEST_UNIFORM = 1 - 2.0**-32
ALL_TOKENS = 1 << 62  # more than any vocabulary has
_LOGITS_COPIES = 4  # copies of the logits in memory at a time, without the kernel
Cut = Callable[[Tensor], Tensor]  # log-probabilities (R, K), best first -> mask of those to keep


class Candidates(Protocol):
    """The tokens of each row that may be sampled."""

    @property
    def longer(self) -> Callable[[], Candidates] | None:
        """A longer list, if this one may be too short, in which case sampled tokens are -1."""
        ...

    def sample(self, uniforms: Tensor) -> SampledTokens:
        """A token for each uniform number in [0, 1), to which the row number has been added."""
        ...


@dataclass(frozen=True)
class SampledTokens:
    """The next tokens of N samples, on the device."""

    index: Tensor  # (N,) position among the candidates of all rows, row by row
    rows: Tensor  # (N,) row of that position; the wrong row if logits were not finite
    # (N, 3): token, log-probability under the sampling distribution, and under the model itself
    columns: Tensor  # float32, which is exact for tokens below 2**24


@dataclass(frozen=True)
class FullVocabulary:
    """Candidates: the whole vocabulary, in its original order.

    Cumulative distributions are of blocks of tokens, and of single tokens only within the sampled
    blocks: over the whole vocabulary they would take longer than a step of a small model.
    """

    cumulative: Tensor  # (R * B,) of blocks; row r rises from r to r + 1
    probabilities: Tensor  # (R * B, _BLOCK) of the tokens of each block, padded with zeros
    scores: Tensor  # (R, V) log-probabilities under the sampling distribution
    logs: Tensor  # (R, V) log-probabilities under the model itself, minus `shift` (R, 1)
    shift: Tensor
    longer: None = None

    @classmethod
    def of(cls, scores: Tensor, logs: Tensor, shift: Tensor) -> FullVocabulary:
        rows, size = scores.shape
        padded = scores.new_zeros(rows, math.ceil(size / _BLOCK) * _BLOCK)
        torch.exp(scores, out=padded[:, :size])
        blocks = padded.view(rows, -1, _BLOCK)
        return cls(_cumulative(blocks.sum(2, dtype=torch.float64)), blocks.flatten(0, 1), scores,
                   logs, shift)

    def sample(self, uniforms: Tensor) -> SampledTokens:
        rows, size = self.scores.shape
        blocks = len(self.cumulative) // rows  # B
        block = _search(self.cumulative, uniforms)
        row, number = block // blocks, block % blocks
        before = torch.where(number == 0, row, self.cumulative[block - 1])
        inside = (uniforms - before) / (self.cumulative[block] - before)
        sums = self.probabilities[block].cumsum(1, dtype=torch.float64)
        place = torch.searchsorted(sums, inside.clamp(max=LARGEST_UNIFORM)[:, None] * sums[:, -1:],
                                   right=True)[:, 0]
        tokens = (number * _BLOCK + place).clamp(max=size - 1)  # beyond it if not finite
        found = row * size + tokens
        full = self.logs.view(-1)[found] + self.shift[row, 0]
        return SampledTokens(found, row,
                             torch.stack([tokens, self.scores.view(-1)[found], full], 1))


@dataclass(frozen=True)
class LikelyTokens:
    """Candidates: the most likely tokens; if a list is too short, its tokens are -1."""

    cumulative: Tensor  # (R * K,) cumulative distributions; row r rises from r to r + 1
    table: Tensor  # (R, K, 3) columns of `SampledTokens`
    longer: Callable[[], Candidates] | None  # None if the list is always long enough

    def sample(self, uniforms: Tensor) -> SampledTokens:
        found = _search(self.cumulative, uniforms)
        return SampledTokens(found, found // self.table.shape[1], self.table.view(-1, 3)[found])


def self_certainty(totals: Tensor, means: Tensor, vocabulary: int) -> Tensor:
    """(R,) the divergence of the distributions of rows from the uniform one: KL(uniform || p).

    From the logsumexp and the mean of the logits of each row.
    """
    return totals - means - math.log(vocabulary)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _search(cumulative: Tensor, uniforms: Tensor) -> Tensor:
    """(N,) position of each uniform number in the cumulative distributions of all rows.

    If logits are not finite, neither are these, and the search may run past the end of the row.
    """
    found = torch.searchsorted(cumulative, uniforms, right=True)
    return found.clamp_(max=len(cumulative) - 1)


def _cumulative(probabilities: Tensor) -> Tensor:
    """(R * K,) the cumulative distributions of all rows, concatenated and increasing."""
    sums = probabilities.cumsum(1, dtype=torch.float64)
    sums /= sums[:, -1:].clone()
    sums += torch.arange(len(sums), device=sums.device)[:, None]
    return sums.view(-1)


@dataclass(frozen=True)
class Truncation(Options):
    """Truncation options; the defaults are ancestral sampling."""

    name: ClassVar[str] = "sampling"  # for messages; options may come from a generation config

    temperature: float = option(1.0, gt=0, help="divisor of the logits")
    top_k: int = option(0, ge=0, help="number of most likely tokens; 0 is all")
    top_p: float = option(1.0, gt=0, le=1, help="mass of the most likely tokens")
    min_p: float = option(0.0, ge=0, lt=1, help="minimum share of the highest probability")
    epsilon: float = option(0.0, ge=0, lt=1, help="minimum probability of a token")
    eta: float = option(0.0, ge=0, lt=1, help="the same, lower at high entropy")

    def __call__(self, scores: Tensor, logs: Tensor, shift: Tensor,
                 width: int | None = None) -> Candidates:
        """Candidates from log-probabilities (R, V) after logits processing: from the `width` most
        likely tokens at first [default: an estimate of how many are needed].

        Log-probabilities under the model itself are `logs` (R, V) plus `shift` (R, 1).
        """
        if self.temperature != 1:
            scores = (scores / self.temperature).log_softmax(1)
        if not [*self._cuts()]:
            return FullVocabulary.of(scores, logs, shift)
        return self._shortlist(scores, logs, shift, self._width() if width is None else width)

    def uses_likely_kernel(self, device: torch.device) -> bool:
        """Whether a kernel can find the candidates: on GPUs if only epsilon bounds them."""
        if native.not_supported_reasons(device):
            return bool(self.epsilon and self.is_complete and self.temperature == 1
                        and not triton_not_supported_reasons(device))
        if not self.is_complete:
            return self.temperature == 1 or self.top_k > 0
        return self.epsilon > 0 and self.temperature == 1

    def bytes_per_logit(self, device: torch.device) -> int:
        """Bytes of memory per logit for finding candidates."""
        return 4 if self.uses_likely_kernel(device) else 4 * _LOGITS_COPIES

    def likely(self, parts: Iterable[tuple[Tensor, Tensor, Tensor]],
               all_candidates: Callable[[], Candidates]) -> tuple[Candidates, Tensor]:
        """Candidates, and the self-certainty (R,) of the model, from logits (R, V) in parts of some
        rows, each with the logsumexp (R, 1) and the logits (R, B) of banned tokens; all candidates
        are needed if the likely tokens are too few.
        """
        tokens, scores, full, certainty = map(_joined, zip(*starmap(self._likely, parts),
                                                           strict=True))
        is_enough = self.is_complete or tokens.shape[1] < self._width()  # or it is the vocabulary
        return self._apply_cuts(scores, tokens, full,
                                None if is_enough else all_candidates), certainty

    def _likely(self, logits: Tensor, banned_total: Tensor, banned: Tensor
                ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Tokens (R, K), best first, with their log-probabilities, those under the model, and the
        self-certainty (R,) of the model.
        """
        width = min(self._width(), logits.shape[1])
        if self.is_complete:
            if triton_not_supported_reasons(logits.device):
                find = native.likely
            else:
                from minrisk.samplers.hf import kernels

                find = kernels.likely
            tokens, scores, totals, finite = find(
                logits, math.log(self.epsilon) - _KERNEL_MARGIN, width)
            scores, order = scores.sort(1, descending=True)
            tokens = tokens.gather(1, order)
        else:
            tokens, scores, totals, finite = native.best(logits, width)
        whole = torch.logaddexp(totals[:, None], banned_total)
        # -inf if the model itself gives some other token that logit
        vocabulary = logits.shape[1]
        mean = torch.where(finite[:, 1] == vocabulary - banned.shape[1],
                           (finite[:, 0] + banned.sum(1)) / vocabulary, -math.inf)
        # after top-k, which is the same at every temperature, probabilities are computed anew
        return (tokens, scores / self.temperature, scores + (totals[:, None] - whole),
                self_certainty(whole[:, 0], mean, vocabulary))

    def _shortlist(self, scores: Tensor, logs: Tensor, shift: Tensor, width: int) -> Candidates:
        """Candidates from the `width` most likely tokens."""
        width = min(width, scores.shape[1])
        longer = None
        if width < scores.shape[1] and not self.is_complete:
            longer = partial(self._shortlist, scores, logs, shift, scores.shape[1])
        best, tokens = scores.topk(width)
        return self._apply_cuts(best, tokens, logs.gather(1, tokens) + shift, longer)

    def _apply_cuts(self, scores: Tensor, tokens: Tensor, full: Tensor,
                    longer: Callable[[], Candidates] | None) -> Candidates:
        """Candidates from tokens (R, K), best first; `longer` is needed if the first cut keeps all.
        """
        for number, keeps in enumerate(self._cuts()):
            keep = keeps(scores) | (scores == scores[:, :1])
            if number == 0 and longer is not None:
                is_full = keep[:, -1:] & (scores[:, -1:] > -math.inf)
                tokens = tokens.masked_fill(is_full, -1)
            scores = torch.where(keep, scores, -math.inf).log_softmax(1)
        return LikelyTokens(_cumulative(scores.exp()), torch.stack([tokens, scores, full], 2),
                            longer)

    def _cuts(self) -> Iterator[Cut]:
        """The active truncations, in the order in which transformers applies them."""
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
        """The number of tokens that the first cut keeps: an upper bound or an estimate."""
        if self.top_k:
            return self.top_k + _MAX_TIES
        if self.top_p < 1 or self.min_p:
            return _FIRST_LIST_TOKENS
        return int(1 / self.epsilon) + 2 if self.epsilon else ALL_TOKENS  # for eta

    @property
    def is_complete(self) -> bool:
        """Whether `_width` is an upper bound, so that candidates are never too few: at most
        1 / epsilon tokens have a probability of at least epsilon.
        """
        return not (self.top_k or self.top_p < 1 or self.min_p)

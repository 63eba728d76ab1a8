"""Unified COMET models, which read hypothesis, source and reference as one sequence.

A model with references reads each pair twice (with and without the source) and each hypothesis once
with the source alone. XCOMET also tags the hypothesis's tokens with error severities, whose sum
enters the score together with the three regression scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError, warn
from minrisk._core.process import report_progress
from minrisk._torch.tokens import length_batches
from minrisk.metrics.comet.checkpoint import UNIFIED_CLASSES, XCOMET
from minrisk.metrics.comet.embedder import SEVERITY_WEIGHTS, Embedder, truncation_warning
from minrisk.metrics.comet.tensors import cast_for
from minrisk.metrics.neural.pairs import pairs_in_chunks

# encoders without token types -> number of separators between two texts
_SEPARATORS = {"XLM-RoBERTa": 2, "XLM-RoBERTa-XL": 2, "MiniLM": 2, "DeBERTa": 1}
# XCOMET's weights: hypothesis with the source, with the reference, with both
_SCORE_WEIGHTS, _TAG_WEIGHTS, _SPANS_WEIGHT = (0.12, 0.33, 0.33), (0.1667, 0.3333, 0.5), 0.22
_MAX_SEVERITY = 25.0


@dataclass(frozen=True)
class UnifiedOutput:
    """The model's outputs for N inputs."""

    scores: Tensor  # (N,)
    tags: Tensor  # (N, T, C) probability of each severity per token; C is 0 except for XCOMET

    def __getitem__(self, rows: Sequence[int]) -> UnifiedOutput:
        return UnifiedOutput(self.scores[rows], self.tags[rows])


class UnifiedScorer:
    """A unified COMET model on its device."""

    def __init__(self, embedder: Embedder, model: str) -> None:
        spec = embedder.architecture
        if spec.encoder_model not in _SEPARATORS or "src" not in spec.input_segments:
            raise InputError(f"{model}: found the encoder {spec.encoder_model!r} that reads "
                             f"{', '.join(spec.input_segments)}; expected one of "
                             f"{', '.join(_SEPARATORS)} that reads mt and src")
        self._model = model
        self._embedder = embedder
        # besides the end-of-sequence token of every text
        self._extra_separators = _SEPARATORS[spec.encoder_model] - 1
        self._network = embedder.network(*UNIFIED_CLASSES)
        self._tagger = embedder.tagger() if spec.class_identifier == XCOMET else None

    def tokenize(self, texts: Sequence[str]) -> list[Ints]:
        return self._embedder.tokenize(texts)

    @torch.inference_mode()
    def quality(self, hyps: Sequence[Ints], source: Ints) -> Floats:
        """(H,) quality from the source alone."""
        self._warn_of_truncation([hyp.size + source.size for hyp in hyps])
        with self._embedder.runtime.inference():
            output = self._run(hyps, [[hyp, source] for hyp in hyps])
            return _to_numpy(self._combined_scores([output], hyps))

    @torch.inference_mode()
    def scores(self, hyps: Sequence[Ints], refs: Sequence[Ints], source: Ints) -> Floats:
        """(H, R) scores of all pairs."""
        if "ref" not in self._embedder.architecture.input_segments:
            raise InputError(f"{self._model}: this model judges by the source alone, and cannot "
                             "compare with references; use it as the metric 'comet-kiwi'")
        self._warn_of_truncation([hyp.size + source.size + ref.size
                                  for hyp in hyps for ref in refs])
        found: list[Floats] = []
        with self._embedder.runtime.inference():
            alone = self._run(hyps, [[hyp, source] for hyp in hyps])
            for pairs in pairs_in_chunks(len(hyps), len(refs)):
                mt, ref = [hyps[h] for h, _ in pairs], [refs[r] for _, r in pairs]
                outputs = [alone[[h for h, _ in pairs]],
                            self._run(mt, list(zip(mt, ref, strict=True))),
                            self._run(mt, [[m, source, r] for m, r in zip(mt, ref, strict=True)])]
                found.append(_to_numpy(self._combined_scores(outputs, mt)))
                report_progress("pairs scored", sum(map(len, found)), len(hyps) * len(refs))
        return np.concatenate([np.empty(0), *found]).reshape(len(hyps), len(refs))

    def _run(self, hyps: Sequence[Ints], inputs: Sequence[Sequence[Ints]]) -> UnifiedOutput:
        """The outputs for inputs that start with the hypothesis."""
        return self._embedder.runtime.checked(lambda: self._outputs(hyps, inputs), _are_finite)

    def _outputs(self, hyps: Sequence[Ints], inputs: Sequence[Sequence[Ints]]) -> UnifiedOutput:
        encoder, runtime, network = self._embedder.encoder, self._embedder.runtime, self._network
        ids = [self._joined_ids(texts) for texts in inputs]
        longest = max((hyp.size for hyp in hyps), default=0)
        scores = torch.zeros(len(ids), device=runtime.device)
        kinds = 0 if self._tagger is None else len(SEVERITY_WEIGHTS)
        tags = torch.zeros(len(ids), longest, kinds, device=runtime.device)
        done = 0
        for rows in length_batches([own.size for own in ids], runtime.tokens):
            batch = [ids[row] for row in rows]
            if self._tagger is None:
                embeddings = encoder.embed(batch)
            else:
                embeddings, states = encoder.embed_with_states(batch)
                tagger = self._tagger.get()
                logits = tagger(cast_for(tagger, states[:, :longest]))
                probabilities = logits.float().softmax(2)
                tags[rows, : probabilities.shape[1]] = probabilities
            scores[rows] = _scores(network.get(), embeddings)
            done += len(rows)
            report_progress("texts encoded", done, len(ids))
        return UnifiedOutput(scores, tags)

    def _joined_ids(self, texts: Sequence[Ints]) -> Ints:
        """<s> a </s> </s> b </s> (or one </s> between) ..., truncated to the encoder's limit."""
        encoder = self._embedder.encoder
        first, *others = (own[own != encoder.tokenizer.pad_token_id] for own in texts)
        more = first[-1:].repeat(self._extra_separators)
        parts = [first, *(part for own in others for part in (more, own[1:]))]
        return np.concatenate(parts)[: self._max_tokens]

    @property
    def _max_tokens(self) -> int:
        return self._embedder.encoder.max_tokens + 2  # as in the official code

    def _combined_scores(self, outputs: Sequence[UnifiedOutput], hyps: Sequence[Ints]) -> Tensor:
        """(N,) scores from the outputs for one input per hypothesis, or for three."""
        if self._tagger is None:
            return torch.stack([output.scores for output in outputs]).mean(0)
        alone = len(outputs) == 1
        score_weights = (sum(_SCORE_WEIGHTS),) if alone else _SCORE_WEIGHTS
        tag_weights = (1.0,) if alone else _TAG_WEIGHTS
        score, tags = torch.zeros(()), torch.zeros(())
        for output, weight, tag_weight in zip(outputs, score_weights, tag_weights, strict=True):
            score = output.scores.clamp(max=1.0) * weight + score
            tags = output.tags * tag_weight + tags
        return score + _SPANS_WEIGHT * spans_score(tags, [hyp.size for hyp in hyps])

    def _warn_of_truncation(self, lengths: Sequence[int]) -> None:
        if any(length > self._max_tokens for length in lengths):
            warn(truncation_warning("inputs", f"{self._max_tokens} tokens together"))


def _scores(network: nn.Sequential, embeddings: Tensor) -> Tensor:
    """(N,) scores; NaN for infinite embeddings, which an activation would hide."""
    cast = cast_for(network, embeddings)
    found: Tensor = network(cast)[:, 0].float()
    return found.where(cast.isfinite().all(1), torch.nan)


def _are_finite(output: UnifiedOutput) -> bool:
    return bool(output.scores.isfinite().all() & output.tags.isfinite().all())


def spans_score(tags: Tensor, lengths: Sequence[int]) -> Tensor:
    """(N,) from 1 (no errors) to 0: an error span is as severe as its first token.

    A span that reaches the end does not count: the official code closes spans only at the next
    token without an error.
    """
    labels = tags.argmax(2)  # (N, T)
    place = torch.arange(labels.shape[1], device=labels.device)
    inside = place < torch.tensor(lengths, device=labels.device)[:, None]
    wrong = (labels > 0) & inside
    last_right = torch.where(inside & ~wrong, place, -1).amax(1, keepdim=True)
    before = torch.nn.functional.pad(wrong, (1, 0))[:, :-1]
    starts = wrong & ~before & (place < last_right)
    severities = torch.tensor(SEVERITY_WEIGHTS, device=labels.device)[labels]
    return 1 - (severities * starts).sum(1).clamp(max=_MAX_SEVERITY) / _MAX_SEVERITY


def _to_numpy(tensor: Tensor) -> Floats:
    found: Floats = tensor.cpu().numpy().astype(np.float64)
    return found

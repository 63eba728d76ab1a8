"""Greedy matching of all pairs on the device: each token with the nearest in the other text."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from minrisk._core.arrays import Floats, Ints
from minrisk._core.errors import InputError
from minrisk._core.process import report_progress
from minrisk._torch.device import Runtime
from minrisk._torch.tokens import length_batches
from minrisk.metrics.neural.bertscore.encoder import TokenEmbeddings, TokenEncoder, TokenWeights

if TYPE_CHECKING:
    from minrisk.metrics.neural.bertscore import BertScore

_TOKENS_PER_BLOCK = {True: 8192, False: 512}  # per side: with CUDA, without (in a cache of the CPU)
_EMPTY_TEXT_TOKENS = 2  # only special tokens, as in bert-score
_BASELINE_COLUMNS = {"precision": "P", "recall": "R", "f1": "F"}  # columns of baseline files


class TextBlock:
    """A padded batch of texts of similar length."""

    def __init__(self, texts: Sequence[TokenEmbeddings], weights: TokenWeights) -> None:
        lengths = torch.tensor([own.ids.size for own in texts])
        # padding repeats the first token with weight 0, which changes no maximum
        tokens = torch.arange(int(lengths.max()))
        rows = torch.where(tokens < lengths[:, None], tokens, 0)
        rows += (lengths.cumsum(0) - lengths)[:, None]  # of all tokens, one text after the other
        vectors = torch.cat([own.vectors for own in texts])
        self.vectors = vectors[rows.to(vectors.device)]  # (n, L, D)
        has_tokens = (lengths != _EMPTY_TEXT_TOKENS) & (lengths > 0)
        self.has_tokens = has_tokens.to(vectors.device)  # (n,)
        own_weights = [torch.from_numpy(weights.of(own.ids)).float() for own in texts]
        self.weights = pad_sequence(own_weights, batch_first=True).to(vectors.device)  # (n, L)


class GreedyMatcher:
    """BERTScore of pairs, from the token embeddings of an encoder."""

    def __init__(self, options: BertScore) -> None:
        self._runtime = Runtime(options.device, options.dtype, options.tokens)
        self._encoder = TokenEncoder(options.model, options.layer, self._runtime)
        self._part = options.part
        self._idf = options.idf
        self._file_weights = self._weights_from_file(options.idf)
        self._baseline = _baseline(options.baseline, self._encoder.layer, options.part)

    def encode(self, texts: Sequence[str],
               are_references: Sequence[bool] = ()) -> list[TokenEmbeddings]:
        """The embeddings of texts, with token weights computed from the references among them."""
        found = self._encoder.encode(texts)
        if not are_references:
            return found
        weights = TokenWeights.idf([own.ids for own in compress(found, are_references)])
        return [replace(own, weights=weights) for own in found]

    @torch.inference_mode()
    def scores(self, hyps: Sequence[TokenEmbeddings], refs: Sequence[TokenEmbeddings]) -> Floats:
        """(H, R) scores of all pairs."""
        result = np.zeros((len(hyps), len(refs)))
        weights = self._weights(refs)
        left = self._blocks(hyps, weights)
        # texts against themselves: the precision of a pair is the recall of the pair reversed
        is_mirrored = [*map(id, hyps)] == [*map(id, refs)]
        right = left if is_mirrored else self._blocks(refs, weights)
        done = 0
        with self._runtime.precision():
            for index, (rows, hyp) in enumerate(left):
                for columns, ref in right[index:] if is_mirrored else right:
                    precision, recall = _match(hyp, ref)
                    result[np.ix_(rows, columns)] = self._combined(precision, recall)
                    done += precision.numel()
                    if is_mirrored and ref is not hyp:
                        result[np.ix_(columns, rows)] = self._combined(recall.T, precision.T)
                        done += precision.numel()
                    report_progress("pairs scored", done, result.size)
        return (result - self._baseline) / (1 - self._baseline)

    def _combined(self, precision: Tensor, recall: Tensor) -> Floats:
        if self._part == "f1":
            total = precision + recall
            return (2 * precision * recall / total).where(total != 0, 0.0).cpu().numpy()
        return (precision if self._part == "precision" else recall).cpu().numpy()

    def _blocks(self, texts: Sequence[TokenEmbeddings],
                weights: TokenWeights) -> list[tuple[Ints, TextBlock]]:
        budget = _TOKENS_PER_BLOCK[self._runtime.device.type == "cuda"]
        return [(np.array(rows), TextBlock([texts[row] for row in rows], weights))
                for rows in length_batches([own.ids.size for own in texts], budget)]

    def _weights(self, refs: Sequence[TokenEmbeddings]) -> TokenWeights:
        if self._idf is None:
            return TokenWeights.uniform(self._encoder.special_ids)
        if self._file_weights is not None:
            return self._file_weights
        of_segment = next((own.weights for own in refs if own.weights is not None), None)
        return of_segment or TokenWeights.idf([own.ids for own in refs])

    def _weights_from_file(self, path: str | None) -> TokenWeights | None:
        """Inverse document frequencies from a file, if one is given."""
        if path is None or path == "references":
            return None
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as texts to count tokens in: {error}; "
                             "give a UTF-8 file with one text a line, or 'references'") from None
        return TokenWeights.idf(self._encoder.tokenize(lines))


def _match(hyp: TextBlock, ref: TextBlock) -> tuple[Tensor, Tensor]:
    """(h, r) precision and recall of the pairs of two blocks."""
    h, i, _ = hyp.vectors.shape
    r, j, _ = ref.vectors.shape
    similarity = (hyp.vectors.flatten(0, 1) @ ref.vectors.flatten(0, 1).T).float()
    nearest_in_ref = similarity.view(h, i, r, j).amax(3)
    nearest_in_hyp = similarity.view(h, i, r * j).amax(1).view(h, r, j)
    has_tokens = hyp.has_tokens[:, None] & ref.has_tokens
    precision = torch.einsum("hir,hi->hr", nearest_in_ref, hyp.weights)
    recall = torch.einsum("hrj,rj->hr", nearest_in_hyp, ref.weights)
    return precision.where(has_tokens, 0.0), recall.where(has_tokens, 0.0)


def _baseline(path: str | None, layer: int, part: str) -> float:
    """The baseline score, from a file with a row per layer and columns P, R and F."""
    if path is None:
        return 0.0
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return float(list(csv.DictReader(file))[layer][_BASELINE_COLUMNS[part]])
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as baselines of layer {layer}: {error!r}; "
                         "expected the columns LAYER,P,R,F and a row for every layer from "
                         "0") from None

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

_TOKENS_PER_BLOCK = {True: 8192, False: 2048}  # per side, with and without CUDA
_EMPTY_TEXT_TOKENS = 2  # only special tokens, as in bert-score
_BASELINE_COLUMNS = {"precision": "P", "recall": "R", "f1": "F"}  # columns of baseline files


class TextBlock:
    """A padded batch of texts of similar length."""

    def __init__(self, texts: Sequence[TokenEmbeddings], weights: TokenWeights) -> None:
        self.vectors = pad_sequence([own.vectors for own in texts], batch_first=True)  # (n, L, D)
        device = self.vectors.device
        lengths = torch.tensor([own.ids.size for own in texts], device=device)
        self.mask = torch.arange(self.vectors.shape[1], device=device) < lengths[:, None]
        self.has_tokens = (lengths != _EMPTY_TEXT_TOKENS) & (lengths > 0)  # (n,)
        own_weights = [torch.from_numpy(weights.of(own.ids)).float() for own in texts]
        self.weights = pad_sequence(own_weights, batch_first=True).to(device)  # (n, L)


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
        left, right = (self._blocks(side, weights) for side in (hyps, refs))
        done = 0
        with self._runtime.precision():
            for rows, hyp in left:
                for columns, ref in right:
                    found = self._match(hyp, ref)
                    result[np.ix_(rows, columns)] = found.cpu().numpy()
                    done += found.numel()
                    report_progress("pairs scored", done, result.size)
        return (result - self._baseline) / (1 - self._baseline)

    def _match(self, hyp: TextBlock, ref: TextBlock) -> Tensor:
        """(h, r) scores of the pairs of two blocks."""
        similarity = torch.einsum("hid,rjd->hirj", hyp.vectors, ref.vectors).float()
        # every text has at least one token, so the maximum is finite
        visible = similarity.masked_fill(~ref.mask, -torch.inf)
        precision = torch.einsum("hir,hi->hr", visible.amax(3), hyp.weights)
        visible = similarity.masked_fill(~hyp.mask[:, :, None, None], -torch.inf)
        recall = torch.einsum("hrj,rj->hr", visible.amax(1), ref.weights)
        valid = hyp.has_tokens[:, None] & ref.has_tokens
        if self._part == "f1":
            match = 2 * precision * recall / (precision + recall)
            valid = valid & (precision + recall != 0)
        else:
            match = precision if self._part == "precision" else recall
        return match.where(valid, 0.0)

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


def _baseline(path: str | None, layer: int, part: str) -> float:
    """The baseline score, from a file with a row per layer and columns P, R and F."""
    if path is None:
        return 0.0
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return float(list(csv.DictReader(file))[layer][_BASELINE_COLUMNS[part]])
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise InputError(f"{path}: cannot be read as baselines of layer {layer}: {error!r}; wanted "
                         "the columns LAYER,P,R,F and a row for every layer from 0") from None

"""BERTScore (Zhang et al. 2020): greedy matching of tokens by their embeddings.

This module does not import torch, so that the metric can be listed where it is not installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from minrisk._core.arrays import Floats
from minrisk._core.errors import needs_extra
from minrisk._core.groups import WeightedRows, check_rows
from minrisk._core.lazy import lazy
from minrisk._core.options import option
from minrisk._core.segment import Segment
from minrisk.metrics.embedding import agreement_of_cosines
from minrisk.metrics.neural import NeuralModel

if TYPE_CHECKING:
    from minrisk.metrics.neural.bertscore.matcher import GreedyMatcher


@dataclass(frozen=True)
class BertScore(NeuralModel):
    """BERTScore, a greedy matching of token embeddings; needs minrisk[neural].

    BERTScore (Zhang et al. 2020), equal to `bert-score`'s, -1 to 1 without a baseline.

    Args:
        model: hub name or folder of an encoder of transformers.
        dtype: number format; "auto" is bf16 on CUDA and fp32 elsewhere.
        device: torch device, such as "cuda", "mps" or "cpu"; "auto" is a GPU if there is one.
        tokens: maximum number of tokens per batch [default: depends on the device].
        layer: layer whose hidden states are compared [default: bert-score's choice for the model].
        part: score to use: "f1", "precision" or "recall".
        idf: source of inverse document frequencies: a file with one text per line, or "references",
            the distinct references of the segment. None weighs all tokens equally.
        baseline: file of baseline scores in bert-score's format, for rescaling.

    Raises:
        InputError: when it is used, if a file cannot be read, or no layer is known for the model.
        MissingExtra: when it is used, if torch or transformers is not installed.

    >>> import minrisk
    >>> bertscore = minrisk.BertScore("FacebookAI/xlm-roberta-base", part="recall", device="cpu")
    >>> print(minrisk.signature(bertscore, "metric").partition("|dtype")[0])
    metric:bertscore|model:FacebookAI/xlm-roberta-base
    >>> minrisk.decode(["a cat", "the cat", "a dog"], metric=bertscore)  # doctest: +SKIP
    """

    name = "bertscore"
    papers = ("Zhang et al. 2020",)
    cost = "n + m runs of the model, and n · m matchings of tokens"
    model: str = option("google-bert/bert-base-multilingual-cased")
    layer: int | None = option(None)
    part: Literal["f1", "precision", "recall"] = option("f1")
    idf: str | None = option(None)
    baseline: str | None = option(None)

    def prepare(self) -> None:
        self._matcher  # noqa: B018 - which loads the model

    @property
    def needs_segment(self) -> bool:
        """Whether tokens are weighted by the references of the segment."""
        return self.idf == "references"

    def features(self, texts: Sequence[str]) -> WeightedRows:
        return WeightedRows.plain(self, self._matcher.encode(texts))

    def segment_features(self, segment: Segment, texts: Sequence[str]) -> WeightedRows:
        """Features whose token weights are computed from all references of the segment."""
        weighted = zip(segment.references, segment.weights.tolist(), strict=True)
        references = {text for text, weight in weighted if weight > 0}
        encoded = self._matcher.encode(texts, [text in references for text in texts])
        return WeightedRows.plain(self, encoded)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) BERTScore of every pair."""
        check_rows(self, hyps, refs)
        return self._matcher.scores(hyps.listed(), refs.listed())

    def agreement(self, scores: Floats, whole: Floats) -> Floats:
        """Scores are means of cosines, except with a baseline."""
        if self.baseline is not None:
            return super().agreement(scores, whole)
        return agreement_of_cosines(scores)

    @lazy
    def _matcher(self) -> GreedyMatcher:
        with needs_extra("BERTScore", "neural"):
            from minrisk.metrics.neural.bertscore.matcher import GreedyMatcher
        return GreedyMatcher(self)

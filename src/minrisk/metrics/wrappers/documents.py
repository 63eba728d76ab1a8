"""Scores of documents by optimal transport between their sentences (MBR-OT, Jinnai 2025)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints, Objects, blocks_of, numbered, objects
from minrisk.metrics.wrappers import WrapperMetric
from minrisk.metrics.wrappers.transport import exact_transport, sinkhorn_transport
from minrisk.plugins import AnyMetric, inner, option

# the end of a sentence: punctuation (and closing quotes) before white space; Chinese and Japanese
# punctuation anywhere; a line break
_END = re.compile(r"""[.!?…]+["'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*|\n""")
_MAX_SCORES_PER_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class DocumentFeatures:
    """Documents as lists of sentences; equal sentences share features of the inner metric."""

    texts: Objects
    sentences: Any  # features of the distinct sentences
    rows: Objects  # for each document, the rows of its sentences
    lengths: Objects  # for each document, the lengths of its sentences in characters

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, rows: Ints, /) -> DocumentFeatures:
        return replace(self, texts=self.texts[rows], rows=self.rows[rows],
                       lengths=self.lengths[rows])

    def used(self) -> tuple[Any, list[Ints]]:
        """The features of the sentences in use, and the rows of each document in them."""
        used = Distinct.from_labels(np.concatenate(self.rows), len(self.sentences))
        return self.sentences[used.labels], np.split(used.inverse, np.cumsum(self.sizes)[:-1])

    @property
    def sizes(self) -> Ints:
        """(N,) number of sentences of each document."""
        return np.array([rows.size for rows in self.rows])


@dataclass(frozen=True)
class Documents(WrapperMetric):
    """The best matching of the sentences of two documents: --metric documents:NAME.

    MBR-OT (Jinnai 2025): the score of two documents is the maximum mean score of a transport plan
    between their sentences, so that sentences may be reordered, merged or split. References cannot
    be averaged. A metric that reads the source gets the whole source with each pair of sentences.

    Args:
        metric: the inner metric of sentences, by object, class or name.
        split: where sentences end. "sentence": at line breaks, and after a full stop, question or
            exclamation mark (with closing quotes) before white space, or anywhere if it is Chinese
            or Japanese; "line": only at line breaks, for text that is already split.
        weights: weight of a sentence in its document: "uniform", or its "length" in characters.
        exact: maximum number of sentences in either document for exact transport. Longer documents
            are matched by Sinkhorn's iteration, whose scores are a little lower.
        regularization: weight of the entropy of a plan in Sinkhorn's iteration, relative to the
            range of the scores of a pair's sentences; 0.1 in the authors' code.

    >>> import minrisk
    >>> documents = minrisk.Documents(minrisk.ChrF())
    >>> texts = documents.features(["It rains. The cat sleeps.", "The cat sleeps. It rains."])
    >>> documents.scores(texts, texts)
    array([[100., 100.],
           [100., 100.]])
    """

    kind = "documents"
    papers = ("Jinnai 2025",)
    cost = "scores of all pairs of sentences, and n · m optimal transports"
    metric: AnyMetric = inner(help="an inner metric, as in documents:comet", texts_only=True)
    split: Literal["sentence", "line"] = option("sentence")
    weights: Literal["uniform", "length"] = option("uniform")
    exact: int = option(16, ge=1)
    regularization: float = option(0.01, ge=0.005, le=10.0)

    def features(self, texts: Sequence[str]) -> DocumentFeatures:
        split = [sentences(text, self.split == "line") for text in texts]
        numbers: dict[str, int] = {}
        rows = objects(numbered(own, numbers) for own in split)
        lengths = objects([max(len(s), 1) for s in own] for own in split)
        return DocumentFeatures(objects(texts), self.metric.features(list(numbers)), rows, lengths)

    def as_given(self, refs: DocumentFeatures) -> DocumentFeatures:
        return replace(refs, sentences=self.metric.as_given(refs.sentences))

    def take_usage(self, source: str | None, texts: Iterable[str]) -> Counter[str]:
        """The usage of the documents' sentences, which are the texts of the inner metric."""
        return super().take_usage(source, (sentence for text in texts
                                           for sentence in sentences(text, self.split == "line")))

    def scores(self, hyps: DocumentFeatures, refs: DocumentFeatures,
               source: DocumentFeatures | None = None) -> Floats:
        """(H, R) the score of the best matching of every pair."""
        whole = None if source is None or not self.needs_source else self.metric.features(
            list(source.texts))
        theirs, columns = refs.used()
        blocks = blocks_of(hyps.sizes * len(theirs), _MAX_SCORES_PER_BLOCK)
        return np.concatenate([self._block(hyps[rows], theirs, columns, refs, whole)
                               for rows in blocks])

    def _block(self, hyps: DocumentFeatures, theirs: Any, columns: list[Ints],
               refs: DocumentFeatures, source: Any) -> Floats:
        ours, rows = hyps.used()
        matrix = self.metric.scores(ours, theirs, source)  # sentence by sentence
        result = np.empty((len(hyps), len(refs)))
        long: dict[tuple[int, int], list[tuple[int, int]]] = {}  # sentence counts -> pairs
        for i, own in enumerate(rows):
            for j, other in enumerate(columns):
                if min(own.size, other.size) == 1 or max(own.size, other.size) <= self.exact:
                    result[i, j] = exact_transport(matrix[np.ix_(own, other)],
                                                   self._weights(hyps.lengths[i]),
                                                   self._weights(refs.lengths[j]))
                else:
                    long.setdefault((own.size, other.size), []).append((i, j))
        for pairs in long.values():
            blocks = np.stack([matrix[np.ix_(rows[i], columns[j])] for i, j in pairs])
            weights = (np.array([self._weights(side[pair[place]]) for pair in pairs], np.float64)
                       for place, side in enumerate((hyps.lengths, refs.lengths)))
            left, right = (own / own.sum(axis=1, keepdims=True) for own in weights)
            places = np.array(pairs)
            result[places[:, 0], places[:, 1]] = sinkhorn_transport(blocks, left, right,
                                                                    self.regularization)
        return result

    def _weights(self, lengths: list[int]) -> list[int]:
        return lengths if self.weights == "length" else [1] * len(lengths)


def sentences(text: str, lines: bool = False) -> list[str]:
    """The sentences of a text, without surrounding white space; at least one.

    >>> sentences('He said "No!" and left. It was 3.5 km away.')
    ['He said "No!"', 'and left.', 'It was 3.5 km away.']
    >>> sentences("今日は晴れ。明日は雨。")
    ['今日は晴れ。', '明日は雨。']
    """
    parts = text.split("\n") if lines else _parts(text)
    stripped = [part.strip() for part in parts if part.strip()]
    return stripped or [""]


def _parts(text: str) -> Iterator[str]:
    start = 0
    for match in _END.finditer(text):
        yield text[start:match.end()]
        start = match.end()
    yield text[start:]

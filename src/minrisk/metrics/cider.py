"""CIDEr-D (Vedantam et al. 2015), consensus of captions, with the numbers of pycocoevalcap.

The score against several references is the mean of the scores against each. Reference aggregation
is therefore exact, and takes linear time: the contributions of all references of the same length
to an n-gram are summed once for all hypotheses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log

import numpy as np

from minrisk._core.arrays import Distinct, Floats, Ints, blocks_of, numbered, ranges, sums
from minrisk._core.errors import InputError, Wording
from minrisk._core.groups import Groups, WeightedRows, check_rows
from minrisk._core.lazy import lazy
from minrisk._core.metric import Metric, PartialStatistics
from minrisk._core.options import option
from minrisk.metrics.ngram.tokenizers import normalized

_SCALE = 10.0  # factor of the published scores
_MAX_MATCHES_PER_BLOCK = 1 << 22  # common n-grams in memory at a time
_MAX_ORDER = 100  # a higher order is certainly a mistake


@dataclass(frozen=True, eq=False)
class NgramVectors:
    """Sparse tf-idf vectors of N texts; the E entries are the distinct n-grams of each text."""

    ngrams: dict[str, int]
    idf: Floats  # (V,)
    order: Ints  # (V,) order of each n-gram, from 0
    text: Ints  # (E,)
    ngram: Ints  # (E,)
    count: Floats  # (E,)
    inverse_norm: Floats  # (E,) 1 / norm of the n-grams of the same order in the text, or 0
    length: Floats  # (N,) length of each text

    def __len__(self) -> int:
        return self.length.size

    @lazy
    def offsets(self) -> Ints:
        """(N + 1,) the first entry of each text."""
        return np.searchsorted(self.text, np.arange(len(self) + 1))

    def renumbered(self, ngrams: dict[str, int]) -> NgramVectors:
        """The same vectors in another vocabulary, to which new n-grams are added."""
        return replace(self, ngrams=ngrams, ngram=numbered(self.ngrams, ngrams)[self.ngram])


@dataclass(frozen=True)
class InverseDocumentFrequencies:
    """The inverse document frequency of each n-gram: rarer n-grams weigh more."""

    of: dict[str, float]
    unseen: float  # for n-grams that occur in no document


@dataclass(frozen=True)
class Cider(Metric[WeightedRows]):
    """CIDEr-D, the consensus of captions by tf-idf of word n-grams, 0 to 10.

    CIDEr-D (Vedantam et al. 2015), equal to pycocoevalcap's, given the same words and documents.
    The score against several references is the mean over them, so that averaging them is exact:
    standard MBR takes linear time.

    Args:
        documents: file of JSON lines whose references (or samples) define document frequencies.
            Each line is a document (an image) with its captions; it may be the file that is
            decoded. Without a file, all n-grams weigh the same.
        n: maximum order of word n-grams.
        sigma: standard deviation of the length penalty, in words.
        lowercase: ignore case.
        no_punct: remove punctuation (of any script).

    Raises:
        InputError: when it is used, if the file cannot be read.

    >>> import minrisk
    >>> cider = minrisk.Cider(n=2)
    >>> texts = cider.features(["a dog runs", "a dog runs fast"])
    >>> cider.scores(texts, texts).round(2)
    array([[10. ,  8.3],
           [ 8.3, 10. ]])
    """

    name = "cider"
    papers = ("Vedantam et al. 2015",)
    cost = "n + m vectors; the average of references is exact"
    features_per_segment = True

    documents: str | None = option(None)
    n: int = option(4, ge=1, le=_MAX_ORDER)
    sigma: float = option(6.0, gt=0)
    lowercase: bool = option(True)
    no_punct: bool = option(True)

    def prepare(self) -> None:
        _ = self._idf

    def features(self, texts: Sequence[str]) -> WeightedRows:
        words = [self._words(text) for text in texts]
        return WeightedRows.plain(self, self._vectors(words))

    def aggregate(self, refs: WeightedRows, groups: Groups) -> WeightedRows:
        return refs.average(groups)

    def scores(self, hyps: WeightedRows, refs: WeightedRows, source: object = None) -> Floats:
        """(H, R) score of every pair; against an aggregate, the mean over its members."""
        ours, theirs = self._in_one_vocabulary(hyps, refs)
        texts = Distinct.from_labels(refs.members, len(theirs))
        pairs = self._pairs(_select(ours, hyps.members), _select(theirs, texts.labels))
        result = np.zeros((len(refs), len(hyps)))
        np.add.at(result, refs.rows,
                  pairs.T[texts.inverse] * refs.weights[:, None])
        return np.ascontiguousarray(result.T)

    def utility(self, hyps: WeightedRows, refs: WeightedRows, mass: Floats,
                source: object = None) -> Floats:
        """(H,) `scores @ mass`, in linear time."""
        ours, theirs = self._in_one_vocabulary(hyps, refs)
        weights = sums(refs.members, refs.spread(mass), len(theirs))
        return self._expected(_select(ours, hyps.members), theirs, weights)

    def partial_statistics(self, hyps: WeightedRows, refs: WeightedRows,
                           weights: Floats) -> PartialStatistics:
        """(H,) weighted sums of scores, which add up over parts."""
        return self.utility(hyps, refs, weights)

    def finalize(self, hyps: WeightedRows, statistics: PartialStatistics,
                 source: object = None) -> Floats:
        return statistics

    def statistics(self, hyps: Sequence[str], refs: Sequence[Sequence[str]]) -> Floats:
        """(N, 2) the mean score over all references, and one."""
        means = [self.scores(self.features([hyp]), self.features(own)).mean()
                 for hyp, own in zip(hyps, refs, strict=True)]
        return np.stack([means, np.ones(len(means))], axis=1)

    def corpus(self, statistics: Floats) -> float:
        return float(statistics[0] / statistics[1])

    def _words(self, text: str) -> list[str]:
        return normalized(text, self.lowercase, self.no_punct).split()

    def _vectors(self, texts: Sequence[list[str]]) -> NgramVectors:
        counts = [Counter(_ngrams(words, self.n)) for words in texts]
        ngrams: dict[str, int] = {}
        ngram = numbered(chain.from_iterable(counts), ngrams)
        count = np.array([value for c in counts for value in c.values()], np.float64)
        text = np.repeat(np.arange(len(texts)), [len(c) for c in counts])
        order = np.array([g.count(" ") for g in ngrams], np.intp)
        idf = np.array([self._idf.of.get(g, self._idf.unseen) for g in ngrams], np.float64)
        place = text * self.n + order[ngram]
        norm = np.sqrt(sums(place, (count * idf[ngram]) ** 2, len(texts) * self.n))
        inverse = np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)
        # the published code uses the number of bigrams
        length = np.array([max(len(words) - 1, 0) for words in texts], np.float64)
        return NgramVectors(ngrams, idf, order, text, ngram, count, inverse[place], length)

    def _in_one_vocabulary(self, hyps: WeightedRows,
                           refs: WeightedRows) -> tuple[NgramVectors, NgramVectors]:
        check_rows(self, hyps, refs)
        hyps.check_texts()
        if hyps.base is refs.base:
            return hyps.base, refs.base
        return hyps.base, refs.base.renumbered(dict(hyps.base.ngrams))

    def _pairs(self, hyps: NgramVectors, refs: NgramVectors) -> Floats:
        """(H, R) scores from the common n-grams of each pair."""
        by_ngram = np.argsort(refs.ngram, kind="stable")
        text, count = refs.text[by_ngram], refs.count[by_ngram]
        theirs = count * refs.inverse_norm[by_ngram]
        first, last = (np.searchsorted(refs.ngram[by_ngram], hyps.ngram, side)
                       for side in ("left", "right"))
        ours, sizes = hyps.idf[hyps.ngram] ** 2 * hyps.inverse_norm, last - first
        summed = np.zeros(len(hyps) * len(refs))
        for block in blocks_of(sizes, _MAX_MATCHES_PER_BLOCK):
            place, times = ranges(first[block], last[block]), sizes[block]
            clipped = np.minimum(np.repeat(hyps.count[block], times), count[place])
            summed += sums(np.repeat(hyps.text[block] * len(refs), times) + text[place],
                          clipped * np.repeat(ours[block], times) * theirs[place], summed.size)
        matrix: Floats = summed.reshape(len(hyps), len(refs)) * self._penalty(
            hyps.length, refs.length)
        return matrix * (_SCALE / self.n)

    def _expected(self, hyps: NgramVectors, refs: NgramVectors, weights: Floats) -> Floats:
        """(H,) the weighted sum of scores, without computing pairs.

        A table has a row for each reference length and a column for each n-gram with its count in a
        hypothesis; a cell sums the contributions of all references of that length.
        """
        base = int(hyps.count.max(initial=0)) + 1  # a column is n-gram * base + c
        columns, column = np.unique(hyps.ngram * base + hyps.count.astype(np.intp),
                                    return_inverse=True)
        lengths, table = _tabulate(refs, weights, columns, base)
        own = hyps.idf[hyps.ngram] ** 2 * hyps.inverse_norm  # (E,)
        result = np.zeros(len(hyps))
        for length in np.unique(hyps.length):
            entries = np.flatnonzero(hyps.length[hyps.text] == length)
            per_column = self._penalty(np.array([length]), lengths)[0] @ table
            result += sums(hyps.text[entries], own[entries] * per_column[column[entries]],
                           result.size)
        return result * (_SCALE / self.n)

    def _penalty(self, hyps: Floats, refs: Floats) -> Floats:
        """(H, R) penalty for the difference in length."""
        result: Floats = np.exp(-((hyps[:, None] - refs) ** 2) / (2 * self.sigma**2))
        return result

    @lazy
    def _idf(self) -> InverseDocumentFrequencies:
        if self.documents is None:
            return InverseDocumentFrequencies({}, 1.0)
        frequency: Counter[str] = Counter()
        total = 0
        for texts in _documents(self.documents):
            frequency.update({g for text in texts for g in _ngrams(self._words(text), self.n)})
            total += 1
        if not total:
            raise InputError(Wording("cider: documents={documents!r} has no document; give a file "
                                     "of JSON lines with references or samples",
                                     documents=self.documents))
        return InverseDocumentFrequencies(
            {g: log(total) - log(count) for g, count in frequency.items()}, log(total))


def _ngrams(words: Sequence[str], n: int) -> Iterator[str]:
    for order in range(1, n + 1):
        for start in range(len(words) - order + 1):
            yield " ".join(words[start:start + order])


def _select(vectors: NgramVectors, rows: Ints) -> NgramVectors:
    """The vectors of these texts, in this order."""
    if np.array_equal(rows, np.arange(len(vectors))):
        return vectors
    first, last = vectors.offsets[rows], vectors.offsets[rows + 1]
    entries = ranges(first, last)
    return replace(vectors, text=np.repeat(np.arange(rows.size), last - first),
                   ngram=vectors.ngram[entries], count=vectors.count[entries],
                   inverse_norm=vectors.inverse_norm[entries], length=vectors.length[rows])


def _tabulate(refs: NgramVectors, weights: Floats, columns: Ints,
              base: int) -> tuple[Floats, Floats]:
    """The lengths of references (L,), and the table (L, columns) of `_expected`."""
    lengths, row = np.unique(refs.length, return_inverse=True)
    first, last = (np.searchsorted(columns, refs.ngram * base + count) for count in (0, base))
    entry, target = np.repeat(np.arange(refs.ngram.size), last - first), ranges(first, last)
    clipped = np.minimum(columns[target] % base, refs.count[entry])
    added = clipped * (refs.count * refs.inverse_norm * weights[refs.text])[entry]
    table = sums(row[refs.text[entry]] * columns.size + target, added, lengths.size * columns.size)
    return lengths, table.reshape(lengths.size, columns.size)


def _documents(path: str) -> Iterator[list[str]]:
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield _captions(line, f"{path}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Wording("cider: cannot read documents={path!r} ({error}); give a file of "
                                 "JSON lines with references or samples", path=path,
                                 error=error)) from None


def _captions(line: str, where: str) -> list[str]:
    try:
        fields = json.loads(line)
        captions = fields.get("references") or fields["samples"]
    except (ValueError, RecursionError, AttributeError, KeyError):
        captions = None
    if not isinstance(captions, list) or not all(isinstance(text, str) for text in captions):
        raise InputError(f"{where}: expected a document, a JSON object whose references (or "
                         "samples) are a list of strings")
    return captions

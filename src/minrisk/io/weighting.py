"""How much each sample counts as a reference: by its number, its probability or its tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minrisk._core.arrays import Floats
from minrisk._core.errors import InputError, Wording, unknown
from minrisk._core.weights import (
    check_not_positive,
    checked_texts,
    weights_from_confidences,
    weights_from_logprobs,
)

PROBABILITIES = ("logprobs", "length-normalised")  # of a distinct text, whatever its count
# confidences of each single sample, and the columns that they are computed from
CONFIDENCE_COLUMNS = {"mean-logprob": "logprobs", "lowest-logprob": "lowest_logprobs",
                      "tail-logprob": "tail_logprobs", "certainty": "certainties"}
NAMES = ("auto", "uniform", *PROBABILITIES, *CONFIDENCE_COLUMNS)


@dataclass(frozen=True)
class Weighting:
    """How references are weighted."""

    by: str = "auto"
    temperature: float = 1.0  # divisor of log-probabilities and other confidences
    keep: float = 1.0  # share of the samples, the most confident ones, that count

    def __post_init__(self) -> None:
        if self.by not in NAMES:
            raise unknown("weights", self.by, NAMES)
        if self.by not in CONFIDENCE_COLUMNS and self.keep != 1:
            raise InputError(Wording("keep_confident={keep} needs weights= by a confidence: "
                                     "{names}; found {weights!r}", keep=self.keep,
                                     names=", ".join(CONFIDENCE_COLUMNS), weights=self.by))

    def __str__(self) -> str:
        temperature = "" if self.temperature == 1 else f"/{self.temperature}"
        return f"{self.by}{temperature}" + ("" if self.keep == 1 else f"/keep {self.keep}")

    @property
    def column(self) -> str | None:
        """The column of the samples that it needs; None for weights that are given or equal."""
        return "logprobs" if self.by in PROBABILITIES else CONFIDENCE_COLUMNS.get(self.by)

    def of(self, values: Sequence[float], texts: Sequence[str],
           lengths: Sequence[float] | None = None,
           counts: Sequence[int] | None = None) -> Floats:
        """Weights from the values of the column; lengths default to those in characters."""
        if self.by not in ("length-normalised", "mean-logprob"):
            lengths = None
        else:  # an empty text has length 1: its log-probability is that of its end
            lengths = [length or 1 for length in (
                map(len, checked_texts(texts, "references")) if lengths is None else lengths)]
        if self.by not in CONFIDENCE_COLUMNS:
            return weights_from_logprobs(values, texts, counts, lengths=lengths,
                                         temperature=self.temperature)
        if self.by != "certainty":
            check_not_positive(np.asarray(values, np.float64))
        return weights_from_confidences(
            np.asarray(values, np.float64) / (1 if lengths is None else lengths), counts,
            temperature=self.temperature, keep=self.keep)

    def of_columns(self, found: Mapping[str, Any], repeated: bool = True) -> Floats | None:
        """Weights of samples in columns; None if they are equal.

        Weights are per sample if texts are `repeated` by their counts, otherwise per text.
        """
        own = found.get("weights")  # of the models
        if self.column is None:
            return None if own is None else np.multiply(own, 1 if repeated else found["counts"])
        if self.column not in found:
            raise InputError(Wording("expected {column} for weights={weights!r}, but the sampler "
                                     "has none", column=self.column, weights=self.by))
        weights = self.of_models(found[self.column], found["samples"], found.get("lengths"),
                                 found["counts"], found.get("models"), own)
        return weights if repeated else weights * np.asarray(found["counts"])

    def of_models(self, values: Sequence[float], texts: Sequence[str],
                  lengths: Sequence[float] | None, counts: Sequence[int] | None,
                  models: Sequence[str | None] | None,
                  weights: Sequence[float] | None) -> Floats:
        """Weights from the values of several models, each for its own samples.

        Probabilities of different models are not compared: together, the samples of a model weigh
        as much as without them.
        """
        if models is None:
            return self.of(values, texts, lengths, counts)
        found = np.zeros(len(texts))
        mass = np.ones(len(texts)) if weights is None else np.array(weights, np.float64)
        mass *= 1 if counts is None else np.asarray(counts)
        for model in dict.fromkeys(models):
            rows = [row for row, name in enumerate(models) if name == model]
            own = [None if column is None else [column[row] for row in rows]
                   for column in (values, texts, lengths, counts)]
            found[rows] = self.of(*own) * mass[rows].sum()  # type: ignore[arg-type]
        return found

    def or_uniform(self, found: Mapping[str, Any]) -> Weighting:
        """This weighting; uniform if the columns lack the one that it needs."""
        return self if self.column is None or self.column in found else UNIFORM


AUTO, UNIFORM = Weighting(), Weighting("uniform")

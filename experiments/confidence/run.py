"""Is the confidence in a choice as high as it should be?

    python experiments/confidence/run.py en-fr=en-fr.jsonl.xz fr-en=fr-en.jsonl.xz \
        demo=src/minrisk/data/demo.jsonl.xz --llm gsm8k.jsonl.xz

Each file has 1,024 `samples` per line. From the first m of them (and the next m, and so on),
minrisk chooses by each metric, and says with which probability very many samples would make the
same choice. All remaining samples are the very many: the choice is right if it has the highest
utility among the same hypotheses by them, or in a vote, if no other answer is more frequent among
them. Writes results.json, and the tables of README.md; docs/figures/confidence.py draws the figure.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

import minrisk
from minrisk.io.files import Input
from minrisk.plugins import AnyMetric, Metric

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))  # what all experiments share

import pages

SAMPLES = (8, 16, 32, 64, 128, 256)
SETS = 4  # of each number of samples
BINS = 10
RESAMPLES = 500  # of segments
LIMITS = {"embedding": 100}  # segments of each file, where all would take hours
METRICS = ("chrf", "bleu", "embedding")
VOTES = {"last word": r"\w+(?=\W*$)", "first three words": r"^\W*\w+\W+\w+\W+\w+",
         "text before a comma": r"^[^,]+(?=,)"}
ANSWERS = {"exact-match": minrisk.ExactMatch(r"\\boxed\{([^{}]*)\}", numbers=True),
           "symbolic": minrisk.make_metric("symbolic")}  # on the answers of a language model
FEW = (4, 8)  # of its 16 samples, so that the others are left to compare with
TOLERANCE = 1e-9

Case = tuple[str, int, float, bool]  # segment, number of samples, probability, whether it is right


@dataclass(frozen=True)
class Known(Metric):
    """Scores that were computed before; a text is the number of its row."""

    name = "known"
    matrix: Any = None  # (N, N)

    def features(self, texts: Sequence[str]) -> Any:
        return np.array([int(text) for text in texts])

    def scores(self, hyps: Any, refs: Any, source: Any = None) -> Any:
        return self.matrix[np.ix_(hyps, refs)]


def main(*args: str) -> None:
    files = dict(arg.split("=", 1) for arg in args if "=" in arg)
    corpora = {name: _records(path) for name, path in files.items()}
    found: dict[str, dict[str, list[Case]]] = {}
    for metric in METRICS:
        chosen = minrisk.make_metric(metric)
        found[metric] = {name: [case for k, record in enumerate(records[:LIMITS.get(metric)])
                                for case in _utilities(f"{name} {k}", record["samples"], chosen)]
                         for name, records in corpora.items()}
    covered: list[bool] = []
    votes = {rule: {name: [case for k, record in enumerate(records)
                           for case in _votes(f"{name} {k}", record["samples"],
                                              minrisk.ExactMatch(pattern), SAMPLES, covered)]
                    for name, records in corpora.items()}
             for rule, pattern in VOTES.items()}
    found["votes"] = {name: [*chain(*(rows[name] for rows in votes.values()))] for name in corpora}
    made = {"question": "probability of a choice, and how often it is the winner of the remaining "
            "of 1,024 samples", "samples": SAMPLES, "sets": SETS, "version": minrisk.__version__,
            "metrics": {metric: _by_corpus(rows) for metric, rows in found.items()},
            "votes": {rule: _calibration([*chain(*rows.values())]) for rule, rows in votes.items()},
            "intervals of votes": {"cover": float(np.mean(covered)), "of": len(covered)}}
    if "--llm" in args:
        records = _records(args[args.index("--llm") + 1])
        made["llm"] = {name: answers_of_a_model(records, metric)
                       for name, metric in ANSWERS.items()}
    (HERE / "results.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    pages.fill(HERE / "README.md", tables(made))


def _records(path: str) -> list[dict[str, Any]]:
    source = Input(path)
    return [json.loads(source.text(line)) for line in source]


def _parts(texts: Sequence[Any], sizes: Sequence[int]) -> Iterator[tuple[int, slice]]:
    for m in sizes:
        for start in range(0, min(SETS * m, len(texts) - m + 1), m):
            yield m, slice(start, start + m)


def _utilities(segment: str, texts: Sequence[str], metric: AnyMetric) -> Iterator[Case]:
    distinct, rows = np.unique(texts, return_inverse=True)
    features = metric.features(distinct.tolist())
    matrix = np.asarray(metric.scores(features, features), np.float64)
    total = matrix @ np.bincount(rows)
    strategy = minrisk.Confident(minrisk.Standard(Known(matrix)))
    for m, part in _parts(texts, SAMPLES):
        drawn = rows[part]
        [ranking] = strategy.rank([minrisk.Segment([str(row) for row in drawn])])
        rest = (total - matrix[:, drawn].sum(axis=1))[drawn]
        right = rest[ranking.best] >= rest.max() - TOLERANCE * np.abs(rest).max()
        yield segment, m, ranking.confidence.probability, bool(right)


def _votes(segment: str, texts: Sequence[str], metric: AnyMetric, sizes: Sequence[int],
           covered: list[bool]) -> Iterator[Case]:
    strategy = minrisk.Confident(minrisk.Standard(metric))
    answers = metric.answers(metric.features(texts)) or []
    total = Counter(answers)
    for m, part in _parts(texts, sizes):
        if not any(answers[part]):
            continue
        [ranking] = strategy.rank([minrisk.Segment(texts[part])])
        rest = total - Counter(answers[part])
        best = rest.pop(answers[part][ranking.best], 0)
        unanswered = rest.pop(None, 0)
        low, high = ranking.confidence.interval
        # the frequency among the rest has an error of its own, so that not all can be inside
        share = best / (best + sum(rest.values()) + unanswered)
        covered.append(low - TOLERANCE <= share <= high + TOLERANCE)
        yield (segment, m, ranking.confidence.probability,
               bool(best and best >= max(rest.values(), default=0)))


def _by_corpus(cases: dict[str, list[Case]]) -> dict[str, Any]:
    everything = cases | {"all": list(chain(*cases.values()))}
    return {name: _calibration(rows) for name, rows in everything.items()}


def _calibration(cases: list[Case]) -> dict[str, Any]:
    names = sorted({case[0] for case in cases})
    segment = np.array([names.index(case[0]) for case in cases])
    m, said, right = (np.array(column, float) for column in list(zip(*cases, strict=True))[1:])
    rng = np.random.default_rng(0)
    draws = [np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))[segment]
             for _ in range(RESAMPLES)]
    error, debiased, perfect = _compared_with_perfect(segment, said, right, rng)
    return {"choices": said.size, "segments": len(names),
            "said": float(said.mean()), "right": float(right.mean()),
            "error": error, "interval": _inner([_error(said, right, w) for w in draws]),
            "error of perfect": {"mean": float(perfect.mean()), "95%": float(
                np.quantile(perfect, 0.95)), "as large": float(np.mean(perfect >= error))},
            "debiased error": debiased,
            "by samples": {str(int(n)): [float(said[m == n].mean()), float(right[m == n].mean())]
                           for n in np.unique(m)},
            "bins": _bins(said, right, draws)}


def _inner(values: list[float]) -> list[float]:
    """The middle 95%."""
    low, high = np.quantile(values, [0.025, 0.975]).tolist()
    return [low, high]


def _compared_with_perfect(segment: Any, said: Any, right: Any,
                           rng: np.random.Generator) -> tuple[float, float, Any]:
    """The calibration error, the debiased one, and those of probabilities that are exactly right.

    Errors of bins do not cancel, so that luck alone makes some; and the choices of a segment are
    right or wrong together. What is left of each segment after the gap of its bins, with a random
    sign, is such luck (a wild bootstrap of clusters). Debiased, the square of a bin's gap is less
    by its variance.
    """
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    shape = (int(segment.max()) + 1, BINS)
    cells = np.ravel_multi_index((segment, place), shape)
    size = shape[0] * BINS
    counts = np.bincount(cells, minlength=size).reshape(shape)
    sums = np.bincount(cells, said - right, minlength=size).reshape(shape)
    gaps = sums.sum(axis=0)
    luck = sums - counts * (gaps / np.maximum(counts.sum(axis=0), 1))
    signs = rng.choice([-1.0, 1.0], (10 * RESAMPLES, shape[0]))
    perfect = np.abs(signs @ luck).sum(axis=1) / said.size
    left = np.sqrt(np.maximum(gaps**2 - (luck**2).sum(axis=0), 0)).sum() / said.size
    return float(np.abs(gaps).sum() / said.size), float(left), perfect


def _error(said: Any, right: Any, weights: Any = None) -> float:
    """The expected calibration error over bins of equal width."""
    weights = np.ones(said.size) if weights is None else weights
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, weights * (said - right), minlength=BINS)
    return float(np.abs(gaps).sum() / weights.sum())


def _bins(said: Any, right: Any, draws: list[Any]) -> list[dict[str, Any]]:
    place = np.minimum((said * BINS).astype(int), BINS - 1)
    found = []
    for k in np.unique(place):
        inside = place == k
        shares = [np.average(right[inside], weights=w[inside]) for w in draws if w[inside].sum()]
        found.append({"said": float(said[inside].mean()), "right": float(right[inside].mean()),
                      "interval": _inner(shares),
                      "share": float(inside.mean())})
    return found


def answers_of_a_model(records: list[dict[str, Any]], metric: AnyMetric) -> dict[str, Any]:
    """How well the probability of a vote tells right answers from wrong ones, by halves."""
    strategy = minrisk.Confident(minrisk.Standard(metric))
    said, right = [], []
    cases: list[Case] = []
    for k, record in enumerate(records):
        texts = record["samples"]
        cases += _votes(str(k), texts, metric, FEW, [])
        [ranking] = strategy.rank([minrisk.Segment(texts)])
        said.append(np.nan_to_num(ranking.confidence.probability))  # none without an answer
        gold = rf"\boxed{{{record['gold']}}}"
        right.append(minrisk.decode([texts[ranking.best]], [gold], metric=metric).utility[0] == 1)
    return {"problems": len(records), "right": float(np.mean(right)), "auroc": {
        name: _auroc(np.array(said)[rows], np.array(right)[rows]) for name, rows in {
            "even": slice(0, None, 2), "odd": slice(1, None, 2), "all": slice(None)}.items()},
        "confirmed by the other samples": _calibration(cases)}


def _auroc(scores: Any, right: Any) -> float:
    ours, theirs = scores[right][:, None], scores[~right]
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))


def tables(made: dict[str, Any]) -> dict[str, str]:
    """The tables of README.md by their names."""
    return {"corpora": _by_corpus(made), "samples": _by_samples(made)}


def _by_corpus(made: dict[str, Any]) -> str:
    rows = []
    corpora = made["metrics"] | {f"{name}, GSM8K": {f"{FEW[0]} and {FEW[1]} of 16": found[
        "confirmed by the other samples"]} for name, found in made.get("llm", {}).items()}
    corpora |= {f"votes, {rule}": {"all": found} for rule, found in made["votes"].items()}
    for metric, calibrations in corpora.items():
        for name, found in calibrations.items():
            (low, high), perfect = found["interval"], found["error of perfect"]
            rows.append([metric, name, f"{found['choices']:,}", f"{found['said']:.3f}",
                         f"{found['right']:.3f}", f"{found['error']:.3f} ({low:.3f} to {high:.3f})",
                         f"{perfect['mean']:.3f}, {perfect['95%']:.3f}",
                         f"{perfect['as large']:.3f}", f"{found['debiased error']:.3f}"])
    return pages.table(["choice by", "samples of", "choices", "said", "right", "calibration error",
                        "of perfect ones: mean, 95%", "as large by luck", "debiased error"], rows)


def _by_samples(made: dict[str, Any]) -> str:
    sizes = [str(n) for n in made["samples"]]
    rows = []
    for metric, corpora in made["metrics"].items():
        found = corpora["all"]["by samples"]
        rows.append([metric, *("{:.2f} / {:.2f}".format(*found[n]) for n in sizes)])
    return pages.table(["choice by", *sizes], rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

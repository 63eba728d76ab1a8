"""All measurements as rows, each with its number of segments and its machine."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from decoding import Decoded, Outcome
from intervals import of_share
from material import Material
from methods import COARSE
from settings import Settings

import minrisk
from minrisk._core.metric import AnyMetric

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from machine import processor

Row = dict[str, Any]
Place = tuple[str, str, str, int]  # a utility, a dataset, a curve, and its effective references

BEAM, SAMPLE, AVERAGE = "beam search", "epsilon sampling", "average"
DIFFERENCE = ("difference", "difference_low", "difference_high")  # and its interval


@dataclass
class Results:
    """The rows of each table."""

    settings: Settings
    accuracy: list[Row] = field(default_factory=list)
    quality: list[Row] = field(default_factory=list)
    more_samples: list[Row] = field(default_factory=list)  # what more of them buy
    beams: list[Row] = field(default_factory=list)
    statistics: list[Row] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    outcomes: dict[Place, list[Outcome]] = field(default_factory=dict)  # of each segment

    @property
    def machines(self) -> str:
        """On which all was decoded, and then judged."""
        rows = [*self.accuracy, *self.statistics]
        return "; ".join(dict.fromkeys(row["machine"] for row in rows))

    @property
    def tables(self) -> dict[str, list[Row]]:
        return {name: value for name, value in vars(self).items() if isinstance(value, list)}

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "results.json").write_text(json.dumps(self.tables, indent=1) + "\n",
                                             encoding="utf-8")
        for name, rows in self.tables.items():
            if rows:
                with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as stream:
                    writer = csv.DictWriter(stream, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(rows)


def outcomes(decoded: Decoded) -> Iterable[tuple[Place, list[Outcome]]]:
    """Every point of every curve; at n all but the coarse metric are standard MBR itself."""
    for label in decoded.labels:
        curve, _, effective = label.rpartition(" ")
        shown = decoded.utility.coarse.name if curve == COARSE else curve
        yield ((decoded.utility.name, decoded.material.name, shown, int(effective)),
               decoded.outcomes(label))


def accuracy_rows(points: Mapping[Place, Sequence[Outcome]], samples: int, top: int,
                  machine: str) -> Iterable[Row]:
    for (utility, dataset, curve, effective), found in points.items():
        yield {"utility": utility, "dataset": dataset, "segments": len(found), "samples": samples,
               "curve": curve, "effective": effective,
               **_share("top1", [o.first for o in found]), "k": top,
               **_share("topk", [o.among for o in found]),
               **_share("distinct", [o.among_distinct for o in found]),
               "lost": fmean(o.lost for o in found), "machine": machine}


def _share(name: str, found: Sequence[bool]) -> Row:
    """A share of the segments, and its interval."""
    low, high = of_share(found)
    return {name: fmean(found), f"{name}_low": low, f"{name}_high": high}


def quality_rows(decoded: Sequence[Decoded], settings: Settings) -> Iterable[Row]:
    """One utility and number of samples on all datasets, by every judge.

    The average is that of the datasets' scores; its test is of all their segments together.
    """
    systems = [_systems(own, settings) for own in decoded]
    shared = [name for name in systems[0] if all(name in own for own in systems)]
    together = {name: [text for own in systems for text in own[name]] for name in shared}
    whole = _joined([own.material for own in decoded])
    for judge, metric in settings.judges.items():
        common = {"utility": decoded[0].utility.name, "samples": decoded[0].count, "judge": judge}
        values: dict[str, list[float]] = {}
        for own, texts in zip(decoded, systems, strict=True):
            for row in _scored(texts, own.material, metric, settings):
                values.setdefault(row["method"], []).append(row["score"])
                yield common | {"dataset": own.material.name} | row
        for row in _scored(together, whole, metric, settings):
            yield common | {"dataset": AVERAGE} | row | {"score": fmean(values[row["method"]])}


def more_rows(many: Sequence[Decoded], few: Sequence[Decoded], settings: Settings) -> Iterable[Row]:
    """Standard MBR with many samples against the same with few, on all segments together."""
    for method in [name for name in many[0].methods if name in few[0].methods]:
        texts = {str(own[0].count): [text for one in own for text in one.texts(method)]
                 for own in (few, many)}
        whole = _joined([own.material for own in many])
        for judge, metric in settings.judges.items():
            fewer, more = _scored(texts, whole, metric, settings)
            yield {"utility": many[0].utility.name, "method": method, "judge": judge,
                   "samples": f"{few[0].count} to {many[0].count}", "before": fewer["score"],
                   "after": more["score"],
                   **{key: more[key] for key in (*DIFFERENCE, "p_value", "segments", "machine")}}


def beam_rows(materials: Sequence[Material], settings: Settings) -> Iterable[Row]:
    """All numbers of beams on the same segments."""
    searched = [own.first(min(map(len, own.beams.values()))) for own in materials if own.beams]
    if not searched:
        return
    for judge, metric in settings.judges.items():
        scores: dict[int, list[float]] = {}
        for own in searched:
            systems = {str(size): texts for size, texts in own.beams.items()}
            for size, row in zip(own.beams, _scored(systems, own, metric, settings), strict=True):
                scores.setdefault(size, []).append(row["score"])
                yield {"beams": size, "dataset": own.name, "judge": judge} | _without_method(row)
        segments = sum(len(own.items) for own in searched)
        for size, found in scores.items():
            yield {"beams": size, "dataset": AVERAGE, "judge": judge, "score": fmean(found),
                   "interval": None, **dict.fromkeys(DIFFERENCE), "p_value": None,
                   "segments": segments, "machine": processor()}


def statistics_row(material: Material) -> Row:
    return {"dataset": material.name, "segments": len(material.items),
            "samples": fmean(map(len, material.samples)),
            "distinct": fmean(len(set(own)) for own in material.samples), "machine": processor()}


def _systems(decoded: Decoded, settings: Settings) -> dict[str, list[str]]:
    """What is compared with standard MBR, which comes first."""
    first, *others = decoded.methods
    found = {first: decoded.texts(first)}
    beams = decoded.material.beams.get(settings.beams[0]) if settings.beams else None
    if beams:
        found[BEAM] = beams
    found[SAMPLE] = [own[0] for own in decoded.material.samples]
    return found | {method: decoded.texts(method) for method in others}


def _joined(materials: Sequence[Material]) -> Material:
    return Material(AVERAGE, [item for own in materials for item in own.items], [], {})


def _scored(systems: Mapping[str, Sequence[str]], material: Material, metric: AnyMetric,
            settings: Settings) -> Iterator[Row]:
    """A row for each system; differences are those from the first, and better if positive.

    `interval` is half the width of the score's own.
    """
    scores = minrisk.score(systems, material.references, material.sources, metric=metric,
                           resamples=settings.resamples, test="bootstrap")
    baseline = next(iter(systems))
    sign = -1 if getattr(metric, "is_error", False) else 1
    for name, score in scores.items():
        difference = score.value - scores[baseline].value, *(score.ahead or (None, None))
        yield {"method": name, "score": sign * score.value, "interval": score.interval,
               **dict(zip(DIFFERENCE, difference, strict=True)),
               "p_value": _p_value(score, systems[name] == systems[baseline]),
               "segments": len(material.items), "machine": processor()}


def _p_value(score: minrisk.Score, same: bool) -> float | None:
    """sacreBLEU's test, as ours, finds that the same texts differ: by 0, in every resample."""
    return 1.0 if same and score.p_value is not None else score.p_value


def _without_method(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "method"}

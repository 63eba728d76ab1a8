"""The page: every table beside the paper's numbers, all from the rows, none typed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import paper
from claims import RULE
from formatting import difference, number, with_interval
from intervals import exceeds, of_row
from methods import STANDARD
from results import AVERAGE, BEAM, SAMPLE, Results, Row

from minrisk._core.metric import AnyMetric
from minrisk._core.signature import metric_signature

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import pages

_SHOWN = (1, 16, 256)  # effective references, of those that were tried
_WAYS = ("minrisk", "paper")  # who computes
_ACCURACY = ("The share of segments for which the string that standard MBR picks is {}; bands and "
             "brackets are its 95% interval. With s effective references each hypothesis is "
             "compared with s references (N-by-S) or with s averages (reference aggregation, "
             "expected features), or corrected by s references (control variate); a metric's own "
             "name is that metric in place of the utility. accuracy.csv has every s. The paper's "
             "span is that of its four directions, with COMET-22 beside what is neither chrF nor "
             "Cometinho.")
_QUALITY = ("Corpus scores of what each method chooses, by a judge that is not the utility; each "
            "utility with all baselines on the same segments. Underlined: the interval of the "
            "difference from standard MBR includes zero; bold: better than it. The average is that "
            "of the datasets, its interval of all their segments together. The paper's column is "
            "that of chrF or COMET-22.")
_ERRORS = ("Marked as Table 1 is. Judges by which less is better: {}. One that is the utility, or "
           "of its kind, is no fair witness.")
_TIMES = ("Means, ± the standard deviation over segments: from texts to the choice, and in total, "
          "with the sampling. Samples are drawn for all segments at once; the paper's way takes "
          "one after the other, and fewer of them where it takes long.")


def write_page(results: Results, times: dict[str, Any], output: Path) -> None:
    parts = [part for part in _parts(results, times) if part]
    (output / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _parts(results: Results, times: dict[str, Any]) -> Iterator[str]:
    settings = results.settings
    most, judge = max(settings.samples), next(iter(settings.judges))
    yield f"# The paper, reproduced: {settings.name}"
    yield (f"Written by `run.py {settings.name}.yaml`; nothing is typed by hand. "
           f"Decoded and judged on {results.machines}. The paper's numbers are for other test "
           "sets, models and metrics: compare shapes, not values. Every table says of how "
           "many segments its numbers are.")
    yield "## Claims"
    yield pages.table(["claim", "paper", "here", "holds", "segments"],
                      ([row[key] for key in ("claim", "paper", "found", "holds", "segments")]
                       for row in results.claims))
    yield RULE
    yield f"## Figure 1: top-{settings.top} accuracy of efficiency methods"
    yield f"![Top-{settings.top} accuracy over effective references](figure-1.svg)"
    yield _ACCURACY.format(f"among a method's first {settings.top}")
    yield _accuracy(results, "topk", settings.top)
    if all("distinct" in row for row in results.accuracy):
        yield f"## Figure 1, with distinct texts: top-{settings.top}"
        yield ("The same with equal strings counted once, so that copies of one string do not "
               "crowd out the others; the paper has no such number.")
        yield _accuracy(results, "distinct", settings.top, False)
    yield "## Figure 1, top-1 accuracy"
    yield "![Top-1 accuracy over effective references](figure-top-1.svg)"
    yield "The same for a method's first choice."
    yield _accuracy(results, "top1", 1)
    for count in sorted(settings.samples, reverse=True):
        title = "Table 1: quality" if count == most else "The same table"
        yield f"## {title}, {count} samples, by {judge}"
        yield _QUALITY if count == most else ""
        yield _quality(results, count, judge)
    yield f"## Extended table: averages by every judge, {most} samples"
    yield _ERRORS.format(", ".join(_errors(settings.judges)) or "none")
    yield _extended(results, most)
    if results.more_samples:
        yield "## What more samples buy"
        yield ("Standard MBR with the first of the samples and with all of them, on the segments "
               "of all datasets together; a positive difference is an improvement, by every judge.")
        yield _more(results)
    if len({row["beams"] for row in results.beams}) > 1:
        yield f"## Beam sizes, by {judge}"
        yield "On the segments that were searched with every number of beams."
        yield _beams(results, judge)
    yield "## Time per segment"
    yield from _times(times)
    yield "## Data"
    yield _statistics(results)
    yield "## Signatures"
    yield "\n".join([*(f"- {u.name}: `{metric_signature(u.metric)}`" for u in settings.utilities),
                     *(f"- judge {name}: `{metric_signature(metric)}`"
                       for name, metric in settings.judges.items())])


def _accuracy(results: Results, field: str, top: int, beside_paper: bool = True) -> str:
    rows = []
    sizes = (1, 16) if beside_paper else ()
    for utility, dataset, curve, segments in _distinct(
            (r["utility"], r["dataset"], r["curve"], r["segments"]) for r in results.accuracy):
        found = {r["effective"]: with_interval(r[field], (r[f"{field}_low"], r[f"{field}_high"]))
                 for r in results.accuracy
                 if (r["utility"], r["dataset"], r["curve"]) == (utility, dataset, curve)}
        rows.append([utility, dataset, segments, curve, *(found.get(s, "") for s in _SHOWN),
                     *(paper.span(paper.accuracy(utility, curve, s, top)) for s in sizes)])
    return pages.table(["utility", "dataset", "segments", "method", *(f"s = {s}" for s in _SHOWN),
                        *(f"paper, s = {s}" for s in sizes)], rows)


def _quality(results: Results, samples: int, judge: str) -> str:
    """A block for each utility, with the baselines on the same segments."""
    rows = [r for r in results.quality if (r["samples"], r["judge"]) == (samples, judge)]
    datasets = _distinct(r["dataset"] for r in rows)
    lines = []
    for utility, method in _methods(rows):
        own = {r["dataset"]: r for r in rows if (r["utility"], r["method"]) == (utility, method)}
        lines.append([utility, method, *(_score(own[d]) for d in datasets),
                      own[AVERAGE]["segments"],
                      _number(_theirs("quality", str(samples), utility, method), -1)])
    return pages.table(["utility", "method", *datasets, "segments",
                        f"paper, average {paper.TABLES['judge']}"], lines)


def _extended(results: Results, samples: int) -> str:
    rows = [r for r in results.quality if (r["samples"], r["dataset"]) == (samples, AVERAGE)]
    judges = _distinct(r["judge"] for r in rows)
    theirs = paper.TABLES["extended"]["judges"]
    lines = []
    for utility, method in _methods(rows):
        own = {r["judge"]: r for r in rows if (r["utility"], r["method"]) == (utility, method)}
        printed = _theirs("extended", None, utility, method)
        lines.append([utility, method, *(_score(own[j]) for j in judges),
                      own[judges[0]]["segments"],
                      *(_number(printed, i, 1) for i in range(len(theirs)))])
    return pages.table(["utility", "method", *judges, "segments", *(f"paper, {j}" for j in theirs)],
                       lines)


def _errors(judges: Mapping[str, AnyMetric]) -> list[str]:
    return [name for name, metric in judges.items() if getattr(metric, "is_error", False)]


def _more(results: Results) -> str:
    return pages.table(["utility", "judge", "samples", "with few", "with more", "difference",
                        "segments"],
                       ([r["utility"], r["judge"], r["samples"], number(r["before"]),
                         number(r["after"]), difference(r, r["after"]), r["segments"]]
                        for r in results.more_samples if r["method"] == STANDARD))


def _beams(results: Results, judge: str) -> str:
    rows = [r for r in results.beams if r["judge"] == judge]
    datasets = _distinct(r["dataset"] for r in rows)
    lines = []
    for size in _distinct(r["beams"] for r in rows):
        own = {r["dataset"]: r for r in rows if r["beams"] == size}
        lines.append([size, *(number(own[d]["score"]) for d in datasets),
                      own[AVERAGE]["segments"],
                      _number(paper.TABLES["beams"].get(str(size)), -1)])
    return pages.table(["beams", *datasets, "segments", f"paper, average {paper.TABLES['judge']}"],
                       lines)


def _statistics(results: Results) -> str:
    ours = [[r["dataset"], r["segments"], f"{r['samples']:.0f}", f"{r['distinct']:.1f}"]
            for r in results.statistics]
    theirs = [[f"paper, {name}", segments, 1024, paper.TABLES["distinct"][name]]
              for name, segments in paper.TABLES["segments"].items()]
    return pages.table(["dataset", "segments", "samples per segment", "distinct"], [*ours, *theirs])


def _times(times: dict[str, Any]) -> Iterator[str]:
    """The paper's last column, one machine after the other."""
    yield _TIMES if times else "Not measured yet: `timing.py` does it."
    for found in times.values():
        machine = found["machine"]
        yield (f"{machine['name']}; {found['samples']} samples. The greatest load of the machine "
               f"at the end of a part: {machine['load']:.1f}.")
        yield pages.table(["utility", "method", "minrisk, utility", "total", "segments",
                           "the paper's way, utility", "total", "segments",
                           "the paper (RTX 3090), utility", "total"], _time_rows(found))


def _time_rows(found: dict[str, Any]) -> Iterator[list[Any]]:
    sampling, seconds = found["sampling"], paper.TABLES["seconds"]
    for method in (BEAM, SAMPLE):
        cells = [cell for who in _WAYS for cell in _drawn(sampling.get(who, {}), method)]
        yield ["", method, *cells, "", _seconds(seconds[method][1])]
    for utility, ways in found["utilities"].items():
        for method in ways["minrisk"]:
            cells = [cell for who in _WAYS
                     for cell in _spent(ways.get(who, {}).get(method), sampling.get(who, {}))]
            printed = seconds.get(utility, {}).get(method, [None, None])
            yield [utility, method, *cells, *map(_seconds, printed)]


def _drawn(sampling: dict[str, float], method: str) -> list[Any]:
    """Nothing for a utility, in total, and of how many segments."""
    return ["", _seconds(sampling.get(method)), sampling.get("segments", "")]


def _spent(found: dict[str, Any] | None, sampling: dict[str, float]) -> list[Any]:
    """For the utility, with the sampling, and of how many segments."""
    if found is None:
        return ["", "", ""]
    mean, each, drawing = found["utility_s"], found.get("each_s", []), sampling.get("samples")
    spread = f" ± {_seconds(stdev(each))}" if len(each) > 1 else ""
    return [_seconds(mean) + spread, _seconds(None if drawing is None else mean + drawing),
            len(each) or ""]


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f} s" if value >= 0.1 else f"{1000 * value:.1f} ms"


def _score(row: Row) -> str:
    text = number(row["score"])
    if row["method"] in (STANDARD, BEAM, SAMPLE):
        return text
    return {None: f"<ins>{text}</ins>", True: f"**{text}**", False: text}[exceeds(of_row(row))]


def _theirs(table: str, samples: str | None, utility: str, method: str) -> list[float] | None:
    """The paper's numbers for a method with the utility that stands beside ours."""
    found = paper.TABLES[table] if samples is None else paper.TABLES[table].get(samples, {})
    twin = paper.like(utility)
    return found.get(method) or found.get(twin, {}).get(method.replace(utility, twin))


def _number(values: Sequence[float] | None, place: int, digits: int = 2) -> str:
    return f"{values[place]:.{digits}f}" if values else ""


def _methods(rows: Iterable[Row]) -> list[tuple[str, str]]:
    """In the paper's order: baselines first."""
    found = _distinct((r["utility"], r["method"]) for r in rows)
    utilities = _distinct(utility for utility, _ in found)
    return [pair for utility in utilities for is_method in (False, True) for pair in found
            if pair[0] == utility and (pair[1] not in (BEAM, SAMPLE)) == is_method]


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))

"""`minrisk score`: outputs of systems against references, as sacreBLEU reports them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from minrisk._core.decoding import METRIC
from minrisk._core.errors import InputError
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.threads import set_threads
from minrisk.cli.method import MetricCommand, metrics_of
from minrisk.cli.report import ScoreColumn, show, show_sentences
from minrisk.cli.shared import SETTINGS, check_files, option
from minrisk.evaluation.scoring import SEED, Score, sacrebleu_signature, score_signature
from minrisk.evaluation.scoring import score as score_systems
from minrisk.io.files import Input
from minrisk.io.remote import shown

_EXAMPLES = """\b
Examples:
  minrisk score best.txt -r ref.txt
  minrisk score beam.txt mbr.txt -r ref.txt --paired-bs --format text
  minrisk score mbr.txt -r ref-a.txt -r ref-b.txt --metric.word-order 2 -b -w 4
  minrisk score mbr.txt -s src.txt --metric comet-kiwi
  minrisk decode samples.jsonl --format text | minrisk score - -r ref.txt"""

_input = partial(option, "Input")
_method = partial(option, "Method")
_output = partial(option, "Output")


@click.command(cls=MetricCommand, epilog=_EXAMPLES, context_settings=SETTINGS)
@click.argument("systems", metavar="SYSTEM...", nargs=-1, required=True, type=click.Path())
@_input("-r", "--references", metavar="FILE", multiple=True, type=click.Path(),
        help="A line per segment; several times for several references. Metrics that judge by the "
        "source alone need none.")
@_input("-s", "--source", "--sources", metavar="FILE", type=click.Path(),
        help="A line per segment, for metrics that read it.")
@_method("--metric", metavar="NAME", multiple=True, default=[METRIC], show_default=True,
         help="Metric of the scores; several times for several. --metric.FIELD fills a field of "
         "every metric that has it.")
@_method("--confidence", "--paired-bs", "bootstrap", is_flag=True,
         help="Resample the lines: a 95% interval for each system, and the p-value of each "
         "against the first.")
@_method("--resamples", "--confidence-n", "--paired-bs-n", type=click.IntRange(min=1),
         default=1000, show_default=True, metavar="N", help="Number of resamples.")
@_method("--seed", type=click.IntRange(min=0), default=SEED, show_default=True, metavar="S",
         help="Seed of the resampling.")
@_output("-f", "--format", "form", type=click.Choice(["json", "text", "latex"]), default="json",
         show_default=True, help="LaTeX is a table of all systems.")
@_output("-b", "--score-only", is_flag=True, help="Just the number.")
@_output("-w", "--width", type=click.IntRange(0, 15), default=1, show_default=True, metavar="W",
         help="Digits after the point.")
@_output("--sentence-level", "--sl", "sentences", is_flag=True,
         help="A line of text per segment instead of a score for all.")
@click.option("--threads", type=int, metavar="T",
              help="Number of threads of the native core; one per core unless given.")
def score(**params: Any) -> None:
    """Score the outputs of systems, a line per segment, against references.

    The numbers are sacreBLEU's for its metrics: of the corpus from its summed statistics, with
    the same resamples. Other metrics are means over segments. Where there are several references,
    a segment is scored against the one that suits it best, unless the metric knows better. Beside
    its own signature, a score of sacreBLEU's metrics has one in sacreBLEU's words. Files may be
    compressed; `-` is standard input.
    """
    set_threads(params["threads"])
    metrics = metrics_of(params)
    _check(params, metrics)
    systems = {shown(path): _lines(path) for path in params["systems"]}
    references = _references(params["references"]) if params["references"] else None
    sources = _lines(params["source"]) if params["source"] else None
    resamples = params["resamples"] if params["bootstrap"] else 0
    columns = []
    for metric in metrics:
        scores = score_systems(systems, references, sources, metric=metric, resamples=resamples,
                               seed=params["seed"])
        columns.append(_column(metric, scores, resamples, params))
    if params["sentences"]:
        show_sentences(columns[0], params["width"], params["score_only"])
    else:
        show(columns, params["form"], params["width"], params["score_only"])


def _check(params: dict[str, Any], metrics: Sequence[AnyMetric]) -> None:
    for metric in metrics:
        if not params["references"] and Ability.QUALITY not in metric.abilities:
            raise InputError(f"metric {metric.name!r} compares with references; give -r FILE, or "
                             "choose a metric that judges by the source alone")
        if not params["references"] and not params["source"]:
            raise InputError(f"metric {metric.name!r} judges by the source; give -s FILE")
    check_files([*params["systems"], *params["references"], params["source"]], written=[])
    names = [shown(path) for path in params["systems"]]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"{name} was given twice; name each system once")
    if params["sentences"] and (len(metrics) > 1 or len(params["systems"]) > 1
                                or params["bootstrap"]):
        raise InputError("--sentence-level shows one system by one metric, without --confidence")
    if params["form"] == "latex" and len(params["systems"]) == 1:
        raise InputError("--format latex is a table of systems; give several, or another format")


def _lines(path: str) -> list[str]:
    source = Input(path)
    return [source.text(line).rstrip() for line in source]  # as sacreBLEU reads them


def _references(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """For each segment the lines of all files."""
    streams = [_lines(path) for path in paths]
    for path, lines in zip(paths, streams, strict=True):
        if len(lines) != len(streams[0]):
            raise InputError(f"{shown(path)} has {len(lines)} lines, {shown(paths[0])} has "
                             f"{len(streams[0])}; check that the references belong together")
    return list(zip(*streams, strict=True))


def _signed(metric: AnyMetric, scores: dict[str, Score]) -> dict[str, Score]:
    """Errors with their own sign."""
    if not metric.is_error:
        return scores
    return {
        name: replace(score, value=-score.value, sentences=-score.sentences,
                      mean=None if score.mean is None else -score.mean)
        for name, score in scores.items()
    }


def _column(metric: AnyMetric, scores: dict[str, Score], resamples: int,
            params: dict[str, Any]) -> ScoreColumn:
    references, seed = len(params["references"]), params["seed"]
    signature = score_signature(metric, references, resamples, seed)
    theirs = sacrebleu_signature(metric, scores.values(), references, resamples, seed,
                                 of_corpus=not params["sentences"])
    return ScoreColumn(metric.name, signature, theirs, _signed(metric, scores))

"""`minrisk score`: scores outputs of systems, reported like sacreBLEU."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import click

from minrisk._core.adapters import as_metric
from minrisk._core.errors import InputError
from minrisk._core.metric import Ability, AnyMetric
from minrisk._core.options import flag
from minrisk._core.process import MAX_THREADS
from minrisk._core.registry import METRICS
from minrisk.cli.command import command
from minrisk.cli.components import MetricsOptions
from minrisk.cli.execute import QUIET_HELP
from minrisk.cli.options import argument
from minrisk.evaluation.ablation import ablated
from minrisk.evaluation.coverage import Sampled, coverage_scores, read_sampled
from minrisk.evaluation.metric_bias import origin_of, warn_of_bias
from minrisk.evaluation.scoring import SEED, Score, SignificanceTest, score_signature
from minrisk.evaluation.scoring import score as score_systems
from minrisk.evaluation.validation import aligned
from minrisk.io.files import Input
from minrisk.io.remote import redact_url
from minrisk.io.segments import output_texts
from minrisk.run.driver import check_files
from minrisk.run.options import THREADS_HELP

ScoreFormat = Literal["json", "text", "latex"]
_SIGNIFICANT = 0.05  # p-value up to which a difference is marked
_LATEX = str.maketrans({
    **{special: f"\\{special}" for special in "_&%#${}"}, "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "±": r"$\pm$"})

T = TypeVar("T")


@dataclass(frozen=True)
class ScoreOptions:
    systems: tuple[str, ...] = argument("SYSTEM...", required=True)
    references: tuple[str, ...] = flag(
        (), "-r", section="Input", metavar="FILE",
        help="References, one line per segment; may be repeated. Quality-estimation metrics need "
        "none.")
    gold: str | None = flag(
        None, section="Input", metavar="FIELD",
        help="Field of SYSTEM with the gold answer, instead of -r. For votes with samples in the "
        "input, adds the accuracy of one sample and pass@k.")
    source: str | None = flag(None, "-s", "--sources", section="Input", metavar="FILE",
                              help="Sources, one line per segment, for metrics that read them.")
    ablation: str | None = flag(
        None, section="Method", metavar="METRIC", registry=METRICS,
        help="For samples of several models: also score the choices by this metric from all "
        "models, and from all but one.")
    confidence: bool = flag(
        False, section="Method",
        help="Add a 95% bootstrap interval for each system, and its p-value against the first in a "
        "paired permutation test.")
    paired_bs: bool = flag(
        False, section="Method",
        help="Like --confidence, with p-values of sacreBLEU's paired bootstrap test, which reports "
        "differences too often.")
    resamples: int = flag(1000, "--confidence-n", "--paired-bs-n", section="Method", metavar="N",
                          ge=1, help="Number of resamples or permutations.")
    seed: int = flag(SEED, section="Method", metavar="S", ge=0,
                     help="Random seed of resamples and permutations.")
    format: ScoreFormat = flag(
        "json", "-f", section="Output", help="Output format; latex is a table of several systems.")
    score_only: bool = flag(False, "-b", section="Output", help="Print only the score.")
    width: int = flag(1, "-w", section="Output", metavar="W", ge=0, le=15,
                      help="Number of decimal places.")
    sentence_level: bool = flag(False, "--sl", section="Output",
                                help="Print one line of text per segment, instead of one score.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, help=THREADS_HELP)
    quiet: bool = flag(False, "-q", help=QUIET_HELP)

    def __post_init__(self) -> None:
        if self.gold is not None and self.references:
            raise InputError("--gold and --references are mutually exclusive; give one of them")
        check_files([*self.systems, *self.references, *filter(None, [self.source])], written=[])
        names = [redact_url(path) for path in self.systems]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{name} was given twice; give each system once")
        if self.sentence_level and (len(self.systems) > 1 or self.resample_count):
            raise _one_system()
        if self.format == "latex" and len(self.systems) == 1:
            raise InputError("--format latex is a table of several systems; give more than one, "
                             "or choose another format")

    @property
    def resample_count(self) -> int:
        return self.resamples if self.confidence or self.paired_bs else 0

    @property
    def test(self) -> SignificanceTest:
        return "bootstrap" if self.paired_bs else "permutation"


@command(examples="""\
  minrisk score best.txt -r ref.txt
  minrisk score beam.txt mbr.txt -r ref.txt --confidence --format text
  minrisk score mbr.txt -r ref-a.txt -r ref-b.txt --metric.word-order 2 -b -w 4
  minrisk score mbr.txt -s src.txt --metric comet-kiwi
  minrisk decode samples.jsonl --format text | minrisk score - -r ref.txt""")
def score(chosen: MetricsOptions, options: ScoreOptions) -> None:
    """Score the outputs of systems against references.

    SYSTEM is plain text, one line per segment, or JSON lines as `decode` writes them, which may
    have gold answers. Files may be compressed; `-` is standard input. BLEU, chrF and TER give
    sacreBLEU's scores of the corpus, its confidence intervals, p-values (--paired-bs) and
    signatures, as far as it has the same options. Other metrics are averaged over segments. With
    several references, the best score of a segment counts, unless the metric combines references
    itself, as BLEU, TER and CIDEr-D do. A warning names each system whose texts were chosen by the
    metric that scores it, according to FILE.run.json beside it.
    """
    metrics = chosen.make()
    _check(options, metrics)
    systems: dict[str, list[str]] = {}
    references: Sequence[Sequence[str]] | None = None
    covered: dict[str, list[Sampled]] = {}
    failed: Set[int] = set()
    if options.gold is None:
        systems = {redact_url(path): _stripped(output_texts(path)) for path in options.systems}
        references = _references(options.references) if options.references else None
    else:
        covered, failed = _covered(options.systems, options.gold)
        systems = {name: [line.text for line in lines] for name, lines in covered.items()}
        references = [line.golds for line in next(iter(covered.values()))]
    if failed and not options.quiet:
        click.echo(f"minrisk: left out {len(failed)} segments that failed", err=True)
    if options.ablation is not None:
        judge = as_metric(options.ablation)
        systems |= {f"{redact_url(path)}: {name}": _without(failed, texts)
                    for path in options.systems for name, texts in ablated(path, judge).items()}
    sources = _without(failed, _lines(options.source)) if options.source else None
    columns = []
    for metric in metrics:
        with redirect_stdout(sys.stderr):  # what a metric prints must not mix with results
            scores = score_systems(systems, references, sources, metric=metric,
                                   resamples=options.resample_count, test=options.test,
                                   seed=options.seed)
            if covered and metric.is_vote and not options.sentence_level:
                scores |= coverage_scores(metric, covered, scores, options.resample_count,
                                          options.test, options.seed)
        columns.append(_column(metric, scores, options))
    warn_of_bias({redact_url(path): origin_of(path) for path in options.systems}, *metrics)
    if options.sentence_level:
        show_sentences(columns[0], options.width, options.score_only)
    else:
        show(columns, options.format, options.width, options.score_only)


def _check(options: ScoreOptions, metrics: Sequence[AnyMetric]) -> None:
    has_references = bool(options.references) or options.gold is not None
    for metric in metrics:
        if not has_references and Ability.QUALITY not in metric.abilities:
            raise InputError(f"metric {metric.name!r} compares with references; give -r FILE or "
                             "--gold FIELD, or choose a quality-estimation metric")
        if not has_references and not options.source:
            raise InputError(f"metric {metric.name!r} judges by the source; give -s FILE")
    if options.sentence_level and len(metrics) > 1:
        raise _one_system()


def _one_system() -> InputError:
    return InputError("--sentence-level is for one system and one metric, without --confidence")


def _covered(paths: Iterable[str], gold: str) -> tuple[dict[str, list[Sampled]], Set[int]]:
    """The lines of each system, without the segments that failed in any, and which these are."""
    read = {redact_url(path): read_sampled(path, gold) for path in paths}
    failed = {row for lines in read.values() for row, line in enumerate(lines) if line is None}
    return {name: [line for line in _without(failed, lines) if line is not None]
            for name, lines in read.items()}, failed


def _without(failed: Set[int], rows: Iterable[T]) -> list[T]:
    return [row for number, row in enumerate(rows) if number not in failed]


def _lines(path: str) -> list[str]:
    return _stripped(Input(path).texts())


def _stripped(texts: Iterable[str]) -> list[str]:
    return [text.rstrip() for text in texts]  # as sacreBLEU does


def _references(paths: Sequence[str]) -> list[tuple[str, ...]]:
    """The references of each segment, one per file."""
    streams = [_lines(path) for path in paths]
    for path, lines in zip(paths, streams, strict=True):
        if len(lines) != len(streams[0]):
            raise InputError(f"{redact_url(path)} has {len(lines)} lines, {redact_url(paths[0])} "
                             f"has {len(streams[0])}; check that the references belong together")
    return list(zip(*streams, strict=True))


def _signed(metric: AnyMetric, scores: dict[str, Score]) -> dict[str, Score]:
    """The scores; error metrics, which are negated as utilities, are negated back."""
    if not metric.is_error:
        return scores
    return {
        name: replace(score, value=-score.value, sentences=-score.sentences,
                      mean=None if score.mean is None else -score.mean)
        for name, score in scores.items()
    }


def _column(metric: AnyMetric, scores: dict[str, Score], options: ScoreOptions) -> ScoreColumn:
    of_corpus = str(next(iter(scores.values())).signature).removeprefix(f"{metric.name}|")
    signature = (score_signature(metric, len(options.references)) if options.sentence_level
                 else of_corpus)
    return ScoreColumn(metric.name, signature, _signed(metric, scores), options.test)


@dataclass(frozen=True)
class ScoreColumn:
    """The scores of every system by one metric."""

    metric: str
    signature: str
    scores: dict[str, Score]
    test: SignificanceTest


def show(columns: Sequence[ScoreColumn], format: ScoreFormat, width: int,
         score_only: bool) -> None:
    names = list(columns[0].scores)
    if len(names) > 1:
        {"json": _objects, "text": _table, "latex": _latex}[format](columns, names, width)
    elif format == "json" and not score_only:
        objects = [_object(column, width) for column in columns]
        _echo_json(objects if len(objects) > 1 else objects[0])
    else:
        for column in columns:
            (score,) = column.scores.values()
            click.echo(_line(column, _value(score, width, "μ = "), score_only))


def show_sentences(column: ScoreColumn, width: int, score_only: bool) -> None:
    (score,) = column.scores.values()
    for sentence in score.sentences.tolist():
        click.echo(_line(column, f"{sentence:.{width}f}", score_only))


def _line(column: ScoreColumn, value: str, score_only: bool) -> str:
    return value if score_only else f"{column.metric}|{column.signature} = {value}"


def _value(score: Score, width: int, mean: str = "") -> str:
    """The score with its interval, e.g. `51.8 (μ = 51.7 ± 1.2)`."""
    shown = f"{score.value:.{width}f}"
    if score.mean is None:
        return shown
    return f"{shown} ({mean}{score.mean:.{width}f} ± {score.interval:.{width}f})"


def _p_value(score: Score) -> str:
    if score.p_value is None:
        return ""
    return f"(p = {score.p_value:.4f}){'*' * (score.p_value <= _SIGNIFICANT)}"


def _object(column: ScoreColumn, width: int) -> dict[str, Any]:
    (score,) = column.scores.values()
    fields: dict[str, Any] = {"name": column.metric, "score": round(score.value, width),
                              "signature": column.signature}
    if score.mean is not None and score.interval is not None:
        fields |= {"confidence_mean": round(score.mean, width),
                   "confidence_var": round(score.interval, width),
                   "confidence": _value(score, width, "μ = ").partition("(")[2][:-1]}
    return fields | dict(part.partition(":")[::2] for part in column.signature.split("|"))


def _objects(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    """Print all digits, as sacreBLEU does for several systems."""
    _echo_json([
        {"system": name} | {column.metric: _numbers(column, name) for column in columns}
        for name in names
    ])


def _numbers(column: ScoreColumn, system: str) -> dict[str, float | str | None]:
    score = column.scores[system]
    return {"score": score.value, "p_value": score.p_value, "mean": score.mean,
            "ci": score.interval, "test": None if score.p_value is None else column.test}


def _table(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    echo_table([*_rows("system", columns, names, width)])
    click.echo()
    if _resampled(columns):
        click.echo("score (μ ± 95% interval of the resamples) and, against the baseline, the "
                   f"p-value of the paired\n{columns[0].test} test; * where it is 0.05 or less: "
                   "then chance is an unlikely reason for the difference.\n")
    for column in columns:
        click.echo(f"{column.metric}|{column.signature}")


def echo_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a bold header."""
    for number, line in enumerate(aligned(rows)):
        click.echo(click.style(line, bold=number == 0))


def _latex(columns: Sequence[ScoreColumn], names: Sequence[str], width: int) -> None:
    head, *body = (" & ".join(cell.translate(_LATEX) for cell in row) + r" \\"
                   for row in _rows("System", columns, names, width))
    click.echo("\n".join([rf"\begin{{tabular}}{{l{'r' * len(columns)}}}", r"\toprule", head,
                          r"\midrule", *body, r"\bottomrule", r"\end{tabular}"]))


def _rows(corner: str, columns: Sequence[ScoreColumn], names: Sequence[str],
          width: int) -> Iterator[list[str]]:
    """A table of the scores: a row for each system, after the header."""
    yield [corner, *(column.metric for column in columns)]
    for number, name in enumerate(names):
        scores = [column.scores[name] for column in columns]
        yield [f"Baseline: {name}" if number == 0 and _resampled(columns) else name,
               *(f"{_value(score, width)} {_p_value(score)}".rstrip() for score in scores)]


def _resampled(columns: Sequence[ScoreColumn]) -> bool:
    return any(score.mean is not None for score in columns[0].scores.values())


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))

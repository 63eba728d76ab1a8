"""`minrisk calibrate`: calibrates confidence on choices that are known to be right or wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import click

from minrisk._core.errors import warn
from minrisk._core.metric import AnyMetric
from minrisk._core.options import flag
from minrisk._core.registry import METRICS
from minrisk.cli.command import command
from minrisk.cli.components import Component, MetricOptions, Names
from minrisk.cli.decode import InputOptions
from minrisk.cli.execute import QUIET_HELP
from minrisk.evaluation.figure import check_figure
from minrisk.io.files import check_writable
from minrisk.io.store import check_new, write_text
from minrisk.report.calibration_page import calibration_page
from minrisk.run.driver import check_files
from minrisk.tasks.calibrate import CalibrateOptions, report_of
from minrisk.tasks.inspect import title_of


@dataclass(frozen=True)
class GoldMetric(MetricOptions):
    """A metric that compares texts with gold answers, if these need not be equal."""

    metric: str | None = flag(  # type: ignore[assignment]  # optional, unlike its base class's
        None, section="Method", metavar="NAME", registry=METRICS,
        help="Metric that compares texts with gold answers; --metric.FIELD sets its options. "
        "[default: answers must be equal]")

    @classmethod
    def named(cls, names: Names) -> Iterator[Component]:
        if "--metric" in names:
            yield from super().named(names)

    def made(self) -> AnyMetric | None:
        return None if self.metric is None else self.make()


@dataclass(frozen=True)
class CalibrateOutput:
    output: str | None = flag(None, "-o", section="Output", metavar="FILE",
                              help="File for the calibration, which --calibration of other "
                              "commands reads.")
    overwrite: bool = flag(False, section="Output", help="Replace an output that exists.")
    format: Literal["text", "json"] = flag(
        "text", section="Output", help="Format of the report on standard output.")
    plot: tuple[str, ...] = flag(
        (), section="Output", metavar="FILE",
        help="Figure of the calibration and of risk by coverage: .png, .svg or .pdf; needs "
        "minrisk[plot].")
    report: str | None = flag(
        None, section="Output", metavar="FILE",
        help="HTML page with the same figures, and tables of all signals and thresholds.")
    quiet: bool = flag(False, "-q", help=QUIET_HELP)

    def check(self, inputs: InputOptions) -> None:
        """Raise an InputError for files that cannot be written, before the work begins."""
        written = [*self.plot, *filter(None, (self.output, self.report))]
        check_files(inputs.paths(), written=written)
        for path in self.plot:
            check_figure(path)
        if self.report is not None:
            check_writable(self.report)
        if self.output is not None:
            check_new(self.output, self.overwrite)
            check_writable(self.output)


@command(examples="""\
  minrisk decode samples.jsonl --metric exact-match --confidence -o best.jsonl
  minrisk calibrate best.jsonl -o calibration.json --report calibration.html
  minrisk calibrate best.jsonl --gold reference --metric chrf --threshold 60 -o calibration.json
  minrisk decode more.jsonl --metric exact-match --calibration calibration.json --max-error 0.1""")
def calibrate(metric: GoldMetric, inputs: InputOptions, options: CalibrateOptions,
              output: CalibrateOutput) -> None:
    """Learn the probability that a choice is right.

    INPUT is the output of `decode` or `answer` with --confidence (and --uncertainty, for more
    signals), with a gold answer, a reference or a verdict in each line. The report shows how well
    each signal separates right from wrong choices: AUROC, the area under the risk-coverage curve
    (AURC), and the calibration error and Brier score of a logistic calibration on held-out halves.
    """
    output.check(inputs)
    report = report_of(list(inputs.paths()), options, metric.made())
    if report.calibration.signature is None:
        warn("the input does not say how these choices were made, so --calibration cannot check "
             "that others are made the same way; give the file from `minrisk decode -o`, with its "
             ".run.json beside it")
    if report.left_out and not output.quiet:
        click.echo(f"minrisk: left out {report.left_out} segments that failed", err=True)
    if output.output is not None:
        report.save(output.output)
    for path in output.plot:
        report.plot(path)
    if output.report is not None:
        write_text(output.report, calibration_page(report, title_of(inputs.corpus().files)))
    if output.format == "json":
        click.echo(json.dumps(report.as_json(), indent=1))
    else:
        click.echo(str(report))

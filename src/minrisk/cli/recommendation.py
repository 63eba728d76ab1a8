"""What a validation found, on standard output."""

from __future__ import annotations

import click

from minrisk.evaluation.report import report_lines
from minrisk.evaluation.study import Study
from minrisk.evaluation.summary import Summary


def show(summary: Summary, study: Study) -> None:
    head, *lines = report_lines(summary, study.top, study.signature)
    click.echo(click.style(head, bold=True))
    for line in lines:
        click.echo(line)

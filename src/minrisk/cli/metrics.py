"""`minrisk metrics`: what can judge."""

from __future__ import annotations

import click

from minrisk.cli.listing import as_json, show
from minrisk.registry import METRICS


@click.command()
@click.option("--json", "machine", is_flag=True, help="One JSON object per metric and line.")
def metrics(machine: bool) -> None:
    """List the installed metrics, their options and what they need."""
    (as_json if machine else show)(METRICS, "--metric.")

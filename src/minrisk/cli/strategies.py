"""`minrisk strategies`: what can choose."""

from __future__ import annotations

import click

from minrisk.cli.listing import as_json, show
from minrisk.registry import STRATEGIES


@click.command()
@click.option("--json", "machine", is_flag=True, help="One JSON object per strategy and line.")
def strategies(machine: bool) -> None:
    """List the installed strategies, their options and what they need."""
    (as_json if machine else show)(STRATEGIES, "--")

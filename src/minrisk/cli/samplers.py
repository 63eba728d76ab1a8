"""`minrisk samplers`: what can draw."""

from __future__ import annotations

import click

from minrisk.cli.listing import as_json, show
from minrisk.registry import SAMPLERS


@click.command()
@click.option("--json", "machine", is_flag=True, help="One JSON object per sampler and line.")
def samplers(machine: bool) -> None:
    """List the installed samplers, their options and what they need."""
    (as_json if machine else show)(SAMPLERS, "--")

"""`minrisk list`: the metrics, strategies and samplers that are installed."""

from __future__ import annotations

import click

from minrisk._core.errors import InputError, unknown
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES
from minrisk.cli.listing import as_json, show

KINDS = {"metrics": (METRICS, "--metric."), "strategies": (STRATEGIES, "--"),
         "samplers": (SAMPLERS, "--")}


@click.command("list")
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("names", nargs=-1)
@click.option("--json", "machine", is_flag=True, help="One JSON object per line.")
def lists(kind: str, names: tuple[str, ...], machine: bool) -> None:
    """List what is installed, with options and what goes together.

    \b
    minrisk list metrics
    minrisk list metrics comet bleu
    minrisk list samplers --json
    """
    registry, prefix = KINDS[kind]
    for name in names:
        if name not in registry.names():
            raise unknown(registry.kind, name, registry.names())
    (as_json if machine else show)(registry, prefix, names)


def moved(kind: str) -> click.Command:
    """The former name of a list, which says the new one."""
    @click.command(kind, hidden=True, context_settings={"ignore_unknown_options": True})
    @click.argument("rest", nargs=-1)
    def old(rest: tuple[str, ...]) -> None:
        raise InputError(f"`minrisk {kind}` is now `minrisk list {kind}`")

    return old

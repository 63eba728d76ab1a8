"""`minrisk list`, `completion` and `comet`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from minrisk._core.errors import needs_extra, unknown
from minrisk._core.metric import (
    Ability,
    metrics_with,
    possible_abilities,
    required_abilities,
    strategies_with,
)
from minrisk._core.options import inner_field
from minrisk._core.registry import METRICS, SAMPLERS, STRATEGIES, Registry
from minrisk.cli import MISUSE
from minrisk.cli.components import COMMON
from minrisk.cli.options import Entry, entries

_KINDS = {"metrics": (METRICS, "--metric."), "strategies": (STRATEGIES, "--"),
         "samplers": (SAMPLERS, "--")}
_HOW = {
    "bash": "mkdir -p ~/.local/share/bash-completion/completions && "
            "minrisk completion bash > ~/.local/share/bash-completion/completions/minrisk",
    "zsh": 'minrisk completion zsh > "${fpath[1]}/_minrisk"',
    "fish": "mkdir -p ~/.config/fish/completions && "
            "minrisk completion fish > ~/.config/fish/completions/minrisk.fish",
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("names", nargs=-1)
@click.option("--json", "machine", is_flag=True, help="Print JSON lines.")
def list_command(kind: str, names: tuple[str, ...], machine: bool) -> None:
    """List metrics, strategies or samplers with their options.

    Lists all that are installed, or those of NAMES, with their costs and with what they work
    together.

    \b
    minrisk list metrics
    minrisk list metrics comet bleu
    minrisk list samplers --json
    """
    registry, prefix = _KINDS[kind]
    for name in names:
        if name not in registry.names():
            raise unknown(registry.kind, name, registry.names())
    (_print_json if machine else _print)(registry, prefix, names)


def strategies_for(metric: type) -> list[str] | None:
    """The names of the strategies that work with metrics of a class; None if inner metrics decide.

    Some of these strategies only work with certain options of the metric.
    """
    if inner_field(metric):
        return None
    return list(strategies_with(possible_abilities(metric)))


def _notes(registry: Registry, entry: Entry) -> Iterator[str]:
    """Notes on an entry: its problem; or its cost, papers, and compatible components."""
    if entry.problem:
        yield entry.problem
        return
    if entry.cost:
        yield f"cost: {entry.cost}"
    if entry.papers:
        yield f"papers: {', '.join(entry.papers)}"
    if registry is METRICS:
        yield f"strategies: {shown_strategies(entry.cls)}"
    elif registry is STRATEGIES:
        for field, need in required_abilities(entry.cls).items():
            if need:
                yield f"--{field} takes a metric that {need}: {', '.join(metrics_with(need))}"


def shown_strategies(metric: type) -> str:
    """The strategies that work with the metrics of a class, as text."""
    works = strategies_for(metric)
    if works is None:
        return "those that the metrics inside it allow"
    fails = [name for name in STRATEGIES.names() if name not in works]
    return f"all but {', '.join(fails)}" if fails else "all"


def _print(registry: Registry, prefix: str, names: Sequence[str] = ()) -> None:
    """Print the entries as text, one paragraph each."""
    for entry in entries(registry, names):
        click.echo(f"{click.style(entry.name, bold=True)}: {entry.summary}")
        shown = [(f.shown(prefix), f.explained) for f in entry.fields if f.name not in COMMON]
        width = max((len(flag) for flag, _ in shown), default=0)
        for flag, help_line in shown:
            click.echo(f"    {flag:<{width}}  {help_line}".rstrip())
        for note in _notes(registry, entry):
            click.echo(f"    {note}")


def _print_json(registry: Registry, prefix: str, names: Sequence[str] = ()) -> None:
    for entry in entries(registry, names):
        options = [
            {"flag": prefix + f.flag[2:], "type": f.kind, "valid": f.valid, "help": f.help,
             "required": f.required, "default": None if f.required else f.default}
            for f in entry.fields if f.name not in COMMON
        ]
        known = {"name": entry.name, "summary": entry.summary, "options": options,
                 "papers": entry.papers, "cost": entry.cost, "problem": entry.problem}
        click.echo(json.dumps(known | _fit(registry, entry), default=str))


def _fit(registry: Registry, entry: Entry) -> dict[str, Any]:
    if entry.problem:
        return {}
    if registry is METRICS:
        return {"aggregates": Ability.AVERAGES in possible_abilities(entry.cls),
                "strategies": strategies_for(entry.cls)}
    if registry is STRATEGIES:
        return {"metrics": {field: list(metrics_with(need))
                            for field, need in required_abilities(entry.cls).items()}}
    return {}


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script of a shell, or how to install it."""
    if shell is None:
        click.echo("Run the line of your shell, then start a new one:\n")
        for line in _HOW.values():
            click.echo(f"  {line}")
        return
    maker = get_completion_class(shell)
    assert maker is not None
    root = ctx.find_root().command
    click.echo(maker(root, {}, "minrisk", "_MINRISK_COMPLETE").source())


@click.group(invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]...")
@click.pass_context
def comet(ctx: click.Context) -> None:
    """Convert COMET checkpoints."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(MISUSE)


@comet.command()
@click.argument("model")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--encoder", metavar="FOLDER",
              help="Folder with the encoder's configuration and tokenizer. [default: the model's]")
def convert(model: str, out: Path, encoder: str | None) -> None:
    """Convert a checkpoint to safetensors.

    MODEL is a hub name, a folder or a .ckpt file; OUT is a new folder. It contains safetensors,
    JSON and the encoder's own files, so it loads faster, needs no network and has no pickle. Use it
    with --metric comet --metric.model OUT.
    """
    with needs_extra("COMET", "comet"):
        from minrisk.metrics.comet import checkpoint
        from minrisk.metrics.comet.encoder import encoder_files
    found = checkpoint.load(model)
    checkpoint.save(found, encoder_files(found, encoder), out)
    click.echo(f"minrisk: wrote {out}", err=True)

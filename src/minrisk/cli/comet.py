"""`minrisk comet convert`: a published checkpoint without its pickle."""

from __future__ import annotations

from pathlib import Path

import click

from minrisk._core.errors import needs_extra
from minrisk.cli.exit_codes import MISUSE


@click.group(invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]...")
@click.pass_context
def comet(ctx: click.Context) -> None:
    """COMET checkpoints."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(MISUSE)


@comet.command()
@click.argument("model")
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--encoder", metavar="FOLDER",
              help="Where the encoder's configuration and tokenizer are, if not with the model.")
def convert(model: str, out: Path, encoder: str | None) -> None:
    """Write MODEL (a hub name, a folder or a .ckpt file) to the new folder OUT.

    As safetensors and JSON, with the encoder's own files beside them: it loads faster, needs no
    network, and has no pickle. Use it with --metric comet --metric.model OUT.
    """
    with needs_extra("COMET", "comet"):
        from minrisk.metrics.comet import checkpoint
        from minrisk.metrics.comet.encoder import encoder_files
    found = checkpoint.load(model)
    checkpoint.save(found, encoder_files(found, encoder), out)
    click.echo(f"minrisk: wrote {out}", err=True)

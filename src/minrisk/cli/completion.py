"""`minrisk completion`: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": "mkdir -p ~/.local/share/bash-completion/completions && "
            "minrisk completion bash > ~/.local/share/bash-completion/completions/minrisk",
    "zsh": 'minrisk completion zsh > "${fpath[1]}/_minrisk"',
    "fish": "mkdir -p ~/.config/fish/completions && "
            "minrisk completion fish > ~/.config/fish/completions/minrisk.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_HOW)), required=False)
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print a shell's completion script, or how to install it."""
    if shell is None:
        click.echo("Run the line of your shell, then start a new one:\n")
        for line in _HOW.values():
            click.echo(f"  {line}")
        return
    maker = get_completion_class(shell)
    assert maker is not None
    root = ctx.find_root().command
    click.echo(maker(root, {}, "minrisk", "_MINRISK_COMPLETE").source())

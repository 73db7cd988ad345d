"""`barnabas completion`: the script by which a shell completes commands, topics and keys."""

from __future__ import annotations

import click

from client.commands.careful_command import CarefulCommand

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=CarefulCommand)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    bash: eval "$(barnabas completion bash)" in ~/.bashrc, the same for zsh in ~/.zshrc.
    fish: barnabas completion fish > ~/.config/fish/completions/barnabas.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    root = context.find_root()
    click.echo(made(root.command, {}, "barnabas", "_BARNABAS_COMPLETE").source())

"""`bayplan completion`: what makes a shell complete commands, options and names."""

from __future__ import annotations

import click


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print a script that makes your shell complete commands, options and names of clusters.

    \b
    bash:  bayplan completion bash > ~/.local/share/bash-completion/completions/bayplan
    zsh:   bayplan completion zsh > "${fpath[1]}/_bayplan"
    fish:  bayplan completion fish > ~/.config/fish/completions/bayplan.fish
    """
    from click.shell_completion import get_completion_class

    from bayplan.cli.main import COMPLETE_VARIABLE, main

    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(main, {}, "bayplan", COMPLETE_VARIABLE).source())

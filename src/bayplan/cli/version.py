"""`bayplan version`."""

from __future__ import annotations

import platform

import click

from bayplan import KUBERNETES_VERSION, __version__
from bayplan.cli.output import output_option, print_data


@click.command()
@output_option
def command(output: str) -> None:
    """Print versions."""
    data = {"bayplan": __version__, "kubernetes": KUBERNETES_VERSION, "python": platform.python_version()}
    if output:
        print_data(data, output)
    else:
        click.echo(f"bayplan {__version__} (Kubernetes {KUBERNETES_VERSION}, Python {data['python']})")

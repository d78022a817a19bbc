"""`bayplan controller-manager`: the controllers against any cluster, with kube-controller-manager's flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayplan.cli import component


@click.command()
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help="Controllers to run: '*' for all, 'name' to enable, '-name' to disable.",
)
@click.option(
    "--root-ca-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Authority that is published in every namespace.",
)
@component.component_options(10257)
def command(controllers: str, root_ca_file: Path | None, **options: Any) -> None:
    """Run the controllers against any cluster, Bayplan's or a real one.

    Without --root-ca-file the config map kube-root-ca.crt is not published.
    """

    def make(client: Any, clock: Any, randomness: Any, metrics: Any) -> Any:
        from bayplan.controllers.manager import ControllerManager, controller_filter
        from bayplan.controllers.serviceaccount import RootCaPublisher

        names = [name.strip() for name in controllers.split(",") if name.strip()]
        if root_ca_file is None:
            names.append(f"-{RootCaPublisher.name}")
        root_ca = root_ca_file.read_text() if root_ca_file else ""
        return ControllerManager(
            client, clock=clock, randomness=randomness, root_ca=root_ca, enabled=controller_filter(names)
        )

    component.run("kube-controller-manager", make, **options)

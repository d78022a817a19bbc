"""`bayplan scheduler`: the scheduler against any cluster, with kube-scheduler's flags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.components import component
from bayplan.cli.flags.feature_gates import own_gates
from bayplan.cli.flags.kube_command import KubeCommand
from bayplan.cli.flags.kube_flag_tables import SCHEDULER
from bayplan.cli.output import Failure, plugin_option, plugins_in

if TYPE_CHECKING:
    from bayplan.scheduler.configuration.settings import SchedulerSettings
    from bayplan.scheduler.development.plugin_files import PluginFiles


@click.command(cls=KubeCommand, table=SCHEDULER)
@click.option(
    "--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="KubeSchedulerConfiguration."
)
@click.option("--feature-gates", default="", help="Feature gates A=true,B=false; those of pod groups have an effect.")
@click.option(
    "--answers-only",
    is_flag=True,
    help="Place no pods and take no lock: follow the cluster, and answer questions (`bayplan what-if --scheduler`).",
)
@plugin_option(", taken anew whenever it changes; for development")
@component.component_options(10259)
def command(
    config: Path | None,
    feature_gates: str,
    answers_only: bool,
    plugin_files: tuple[Path, ...],
    kubeconfig: Path | None,
    **options: Any,
) -> None:
    """Run the scheduler against any cluster, Bayplan's or a real one.

    `bayplan scheduler plugin new NAME` begins a plugin of your own, `bayplan scheduler plugin check NAME` checks one.
    """

    plugins = plugins_in(plugin_files)
    gates, settings = own_gates(feature_gates), _settings_in(config, plugins)
    configured = settings.client_connection.get("kubeconfig")
    if kubeconfig is None and configured:
        kubeconfig = Path(configured)
    if answers_only:
        options["leader_elect"] = False

    def make(client: Any, clock: Any, randomness: Any, metrics: Any) -> Any:
        from bayplan.scheduler.service import SchedulerService

        return SchedulerService(
            client,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            config=config,
            feature_gates=gates,
            plugins=plugins,
            schedules=not answers_only,
        )

    def pages(scheduler: Any, client: Any, clock: Any) -> Mapping[str, Any]:
        from bayplan.client.reviews import AccessReviews
        from bayplan.cluster.questions.what_if_page import PATH, WhatIfPage

        return {PATH: WhatIfPage(scheduler, AccessReviews(client, clock)).handle}

    component.run(
        "kube-scheduler", make, configured=settings.leader_election, pages=pages, kubeconfig=kubeconfig, **options
    )


def _settings_in(config: Path | None, plugins: PluginFiles | None) -> SchedulerSettings:
    """What a configuration says, which may name these plugins. Raises Failure."""
    from bayplan.scheduler.configuration.settings import load
    from bayplan.scheduler.development.plugin_reload import PluginReload
    from bayplan.scheduler.errors import SettingsError

    try:
        if plugins is None:
            return load(config)
        reload = PluginReload(plugins, config)
        try:
            return reload.settings()
        finally:
            reload.close()
    except (SettingsError, OSError) as error:
        raise Failure(str(error)) from error

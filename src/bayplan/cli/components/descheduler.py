"""`bayplan descheduler`: the descheduler against any cluster, with the flags of kubernetes-sigs/descheduler."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.components import component
from bayplan.cli.flags.controller_flags import DURATION
from bayplan.cli.output import FILE, Unanswerable

if TYPE_CHECKING:
    from bayplan.descheduler.report import PassReport
    from bayplan.descheduler.settings import DeschedulerSettings

NAME: Final = "descheduler"
_ELECTION: Final = {
    "leaderElect": False,
    "leaseDuration": "137s",
    "renewDeadline": "107s",
    "retryPeriod": "26s",
}
"""Upstream's defaults, for passes that are minutes apart."""


@click.command()
@click.option("--policy-config-file", type=FILE, required=True, help="DeschedulerPolicy, descheduler/v1alpha2.")
@click.option(
    "--descheduling-interval",
    type=DURATION,
    default="0s",
    show_default=True,
    help="Time between two passes; 0: make one pass and end.",
)
@click.option(
    "--dry-run",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    show_default=True,
    help="Decide, count and log, but evict nothing.",
)
@click.option(
    "--node-selector", default="", help="Labels of the nodes that are looked at, in place of the policy's nodeSelector."
)
@click.option(
    "--disable-metrics",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=False,
    show_default=True,
    help="Serve no metrics.",
)
@click.option(
    "--client-connection-kubeconfig",
    type=click.Path(path_type=Path),
    help="The same as --kubeconfig, and goes before it.",
)
@click.option(
    "--client-connection-qps",
    type=float,
    expose_value=False,
    default=0.0,
    help="Taken as upstream does; this client does not limit itself.",
)
@click.option(
    "--client-connection-burst", type=int, expose_value=False, default=0, help="Taken as upstream does, see above."
)
@component.component_options(10258, _ELECTION)
def command(
    policy_config_file: Path,
    descheduling_interval: float,
    dry_run: bool,
    node_selector: str,
    disable_metrics: bool,
    client_connection_kubeconfig: Path | None,
    kubeconfig: Path | None,
    **options: Any,
) -> None:
    """Evict pods that should not stay where they are, from any cluster, Bayplan's or a real one, as a policy says.

    The scheduler places their successors. Disruption budgets hold, and so do the limits of the policy.
    """
    from bayplan.api.selectors.labels import SelectorError
    from bayplan.api.selectors.syntax import parse_labels
    from bayplan.descheduler.policy_reader import load_policy
    from bayplan.descheduler.settings import DeschedulerSettings

    policy = load_policy(policy_config_file)
    try:
        parse_labels(node_selector)
    except SelectorError as error:
        raise Unanswerable(f"--node-selector: {error}") from error
    settings = DeschedulerSettings(
        descheduling_interval=descheduling_interval, dry_run=dry_run, node_selector=node_selector
    )

    def make(client: Any, clock: Any, randomness: Any, metrics: Any) -> Any:
        from bayplan.descheduler.service import DeschedulerService

        return DeschedulerService(
            client,
            policy,
            settings,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            on_pass=partial(_print_pass, settings),
        )

    component.run(
        NAME,
        make,
        kubeconfig=client_connection_kubeconfig or kubeconfig,
        configured=_ELECTION,
        serves_metrics=not disable_metrics,
        **options,
    )


def _print_pass(settings: DeschedulerSettings, report: PassReport) -> None:
    """Say what a pass did: of a single one everything, of one of many how many evictions there were."""
    done = "would evict" if settings.dry_run else "evicted"
    if settings.descheduling_interval <= 0:
        for one in report.evicted:
            click.echo(f"{done} {one.pod} from {one.node} ({one.strategy}): {one.reason}")
        for one in report.refused:
            click.echo(f"left {one.pod} on {one.node} ({one.strategy}): {one.objection}")
    for error in report.errors:
        click.echo(f"failed: {error}")
    if report.skipped:
        click.echo(f"no pod was looked at: {report.skipped}")
    click.echo(f"{done} {len(report.evicted)} pods, left {len(report.refused)}")

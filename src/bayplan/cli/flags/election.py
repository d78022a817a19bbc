"""The flags of leader election that all components share, and what they and a configuration file make of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.client.leader_election import ElectionSettings
    from bayplan.cluster.standalone import Election

F = TypeVar("F", bound=Callable[..., Any])

_TIMES = {
    "leaseDuration": ("lease-duration", "15s", "After which others take a lease that is not renewed."),
    "renewDeadline": ("renew-deadline", "10s", "After which a leader that cannot renew gives up."),
    "retryPeriod": ("retry-period", "2s", "Between two tries."),
}
"""Field of `leaderElection` in a configuration -> flag, default, help."""


def election_options(defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """The flags of leader election; those that are not given are None. defaults: as in `leaderElection` of a configuration."""

    def decorate(function: F) -> F:
        for field, (flag, usual, text) in reversed(_TIMES.items()):
            default = defaults.get(field, usual)
            option = click.option(f"--leader-elect-{flag}", metavar="TIME", help=f"{text}  [default: {default}]")
            function = option(function)
        function = click.option(
            "--leader-elect-resource-lock",
            help="What the lock is: leases or endpoints (an annotation, as clusters before 1.14 had it).  [default: leases]",
        )(function)
        function = click.option("--leader-elect-resource-namespace", help="Its namespace.  [default: kube-system]")(
            function
        )
        function = click.option(
            "--leader-elect-resource-name", help="Name of the lock.  [default: the name of the component]"
        )(function)
        return click.option(
            "--leader-elect",
            type=bool,
            is_flag=False,
            flag_value=True,
            help=f"Work only while holding the lock.  [default: {defaults.get('leaderElect', True)}]",
        )(function)

    return decorate


def election_times(lease_duration: float, renew_deadline: float, retry_period: float) -> ElectionSettings:
    """The times of an election, in seconds. Raises Failure where they make no sense together."""
    from bayplan.client.leader_election import ElectionSettings

    try:
        return ElectionSettings(lease_duration=lease_duration, renew_deadline=renew_deadline, retry_period=retry_period)
    except ValueError as error:
        raise Failure(f"leader election: {error}") from error


def election_of(component: str, flags: Mapping[str, Any], configured: Mapping[str, Any]) -> Election | None:
    """What the flags say, else `leaderElection` of the configuration, else the defaults. None: work without a lease. Raises Failure."""
    from bayplan.cluster.standalone import ELECTION_RESOURCES, Election
    from bayplan.support.durations import go_seconds

    def said(flag: str, field: str, default: Any) -> Any:
        given = flags.get(flag)
        return configured.get(field, default) if given is None else given

    if not said("leader_elect", "leaderElect", True):
        return None
    seconds = {}
    for field, (flag, default, _) in _TIMES.items():
        time = said(f"leader_elect_{flag.replace('-', '_')}", field, default) or default
        try:
            seconds[field] = go_seconds(time) if isinstance(time, str) else time / 1e9  # as in Go: nanoseconds
        except ValueError as error:
            raise Failure(f"--leader-elect-{flag}: {error}") from error
    times = election_times(seconds["leaseDuration"], seconds["renewDeadline"], seconds["retryPeriod"])
    resource = said("leader_elect_resource_lock", "resourceLock", "") or "leases"
    if resource not in ELECTION_RESOURCES:
        raise Failure(f"--leader-elect-resource-lock: {resource!r} is none of {', '.join(ELECTION_RESOURCES)}")
    return Election(
        resource=resource,
        name=said("leader_elect_resource_name", "resourceName", component) or component,
        namespace=said("leader_elect_resource_namespace", "resourceNamespace", "") or "kube-system",
        times=times,
    )

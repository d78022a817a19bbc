"""What the verbs about clusters in the background share."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from bayplan.cli.clusters.data_directory import default_data_directory
from bayplan.cli.flags.controller_flags import DURATION
from bayplan.cli.output import Failure
from bayplan.support.loop import run_loop

if TYPE_CHECKING:
    from bayplan.cluster.named.records import NamedCluster

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_NAME: Final = "local"


def clusters_directory() -> Path:
    """Where clusters in the background are kept."""
    return default_data_directory() / "clusters"


def cluster_argument(function: F) -> F:
    """The argument CLUSTER."""
    return click.argument("name", metavar="[CLUSTER]", default=DEFAULT_NAME, shell_complete=_complete)(function)


def clusters_argument(function: F) -> F:
    """The argument CLUSTER..., which several may be named for."""
    return click.argument("names", metavar="[CLUSTER]...", nargs=-1, shell_complete=_complete)(function)


def clusters_or_all(function: F) -> F:
    """The argument CLUSTER..., or the option `--all`."""
    return clusters_argument(
        click.option("--all", "all_of_them", is_flag=True, help="All clusters in the background.")(function)
    )


def wait_option(function: F) -> F:
    """The option `--wait`."""
    return click.option(
        "--wait",
        type=DURATION,
        default="60s",
        show_default=True,
        help="How long to wait until the cluster and its nodes are ready.",
    )(function)


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from bayplan.cluster.named.records import named_clusters

    return [each.name for each in named_clusters(clusters_directory()) if each.name.startswith(incomplete)]


def new_cluster(name: str) -> NamedCluster:
    """A cluster that is not there yet. Raises UsageError, Failure."""
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.named.records import NamedCluster

    try:
        found = NamedCluster(clusters_directory(), name)
    except ClusterError as error:
        raise click.UsageError(str(error)) from error
    if found.exists:
        raise Failure(f"cluster {name!r} exists: `bayplan start {name}` starts it, `bayplan delete {name}` removes it")
    return found


def existing_clusters(names: Sequence[str], *, all_of_them: bool = False) -> list[NamedCluster]:
    """The clusters that are named, or the one that has the default name. Raises UsageError."""
    from bayplan.cluster.errors import ClusterError
    from bayplan.cluster.named.records import NamedCluster, named_clusters

    base = clusters_directory()
    if all_of_them:
        if names:
            raise click.UsageError("--all and names exclude each other")
        return list(named_clusters(base))
    found = []
    for name in dict.fromkeys(names or (DEFAULT_NAME,)):
        try:
            found.append(NamedCluster(base, name))
        except ClusterError as error:
            raise click.UsageError(str(error)) from error
        if not found[-1].exists:
            known = ", ".join(each.name for each in named_clusters(base))
            raise click.UsageError(f"there is no cluster {name!r}; there are: {known or 'none, see `bayplan create`'}")
    return found


def carried_out(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of work on clusters. Raises Failure."""
    from bayplan.client.errors import KubeconfigError
    from bayplan.cluster.errors import ClusterError

    found: list[Any] = []

    async def main() -> None:
        found.append(await work)

    try:
        run_loop(main())
    except (ClusterError, KubeconfigError) as error:
        raise Failure(str(error)) from error
    return found[0]


def add_context(cluster: NamedCluster, path: Path, *, switch: bool) -> None:
    """Let kubectl know of a cluster. Raises KubeconfigError."""
    from bayplan.client.user_kubeconfig import put_context

    put_context(path, cluster.context, cluster.directory, cluster.kubeconfig, switch=switch)


def default_kubeconfig() -> Path:
    """The user's kubeconfig."""
    from bayplan.client.user_kubeconfig import user_kubeconfig

    return user_kubeconfig(os.environ)

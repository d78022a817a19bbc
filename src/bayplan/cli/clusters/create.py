"""`bayplan create`: a new cluster that runs in the background."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.clusters.named_clusters import (
    add_context,
    carried_out,
    cluster_argument,
    default_kubeconfig,
    new_cluster,
    wait_option,
)
from bayplan.cli.clusters.up import command as up

if TYPE_CHECKING:
    from bayplan.cluster.named.records import NamedCluster

_NOT_TAKEN: Final = ("data_dir", "store", "kubeconfig")
"""Options of `bayplan up` that say where things are kept, which follows from the name."""
_FIRST: Final = ("source", "apply")
"""Those that say what a cluster begins with."""


@click.command()
@cluster_argument
@wait_option
@click.option(
    "--kubeconfig",
    "user_kubeconfig",
    type=click.Path(path_type=Path),
    help="Kubeconfig that gets the cluster's context.  [default: $KUBECONFIG, then ~/.kube/config]",
)
@click.option(
    "--switch/--no-switch", default=True, show_default=True, help="Whether that context becomes the current one."
)
@click.pass_context
def command(
    ctx: click.Context, /, name: str, wait: float, user_kubeconfig: Path | None, switch: bool, **_: object
) -> None:
    """Create a cluster that runs in the background, and wait until it is ready.

    CLUSTER is its name, `local` if none is given. Its context is called bayplan-CLUSTER and put into your kubeconfig.
    All options of `bayplan up` say what the cluster is like, now and whenever it is started again; --from and --apply say
    what it begins with. Its port is a free one, and stays, unless --port names one.
    """
    from bayplan.cluster.named.records import ClusterRecord
    from bayplan.support.clock import SystemClock

    cluster = new_cluster(name)
    path = (user_kubeconfig or default_kubeconfig()).absolute()
    record = ClusterRecord(
        created=SystemClock().now(),
        options=tuple(_given(ctx, first=False)),
        first_options=tuple(_given(ctx, first=True)),
        user_kubeconfig=str(path),
    )
    said = carried_out(_create(cluster, record, wait, path, switch=switch))
    click.echo(f"ready: {said}")
    click.echo(f"context {cluster.context} of {path}" + (", the current one now" if switch else ""))


async def _create(cluster: NamedCluster, record: Any, wait: float, path: Path, *, switch: bool) -> str:
    from bayplan.cluster.named.running import create
    from bayplan.support.clock import SystemClock

    said = await create(cluster, record, SystemClock(), wait)
    add_context(cluster, path, switch=switch)
    return said


def _given(ctx: click.Context, *, first: bool) -> Iterator[str]:
    """The options of `bayplan up` that the command line has, as one can give them from any directory. Raises UsageError."""
    for parameter in up.params:
        name = parameter.name or ""
        if not isinstance(parameter, click.Option) or name in _NOT_TAKEN or (name in _FIRST) is not first:
            continue
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.COMMANDLINE:
            continue
        value = ctx.params[name]
        for each in value if parameter.multiple else (value,):
            if parameter.is_flag:
                yield parameter.opts[0] if each else parameter.secondary_opts[0]
            else:
                yield f"{parameter.opts[0]}={_anywhere(name, each)}"


def _anywhere(name: str, value: object) -> str:
    """A value that means the same in every directory. Raises UsageError."""
    if name == "source" and value == "-":
        raise click.UsageError("--from: a cluster in the background cannot read standard input; name a file")
    if isinstance(value, Path) or name == "source":
        return str(Path(str(value)).absolute())
    return str(value)


command.params.extend(each for each in up.params if each.name not in _NOT_TAKEN)

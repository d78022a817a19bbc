"""Which cluster is asked about: a live one, or with `--cluster` a copy, or anything else that shows one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Unanswerable
from bayplan.support.memory.garbage import collect_seldom

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.cluster.manifests.unserved import UnservedKind
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

F = TypeVar("F", bound=Callable[..., Any])
HELP = (
    "Copy of a cluster (bayplan snapshot), manifests, kubectl get -o yaml|json, must-gather, cluster-info dump, "
    "each also in an archive (tar, tgz, zip), or -."
)


def cluster_options(function: F) -> F:
    """The options that say which cluster is asked about: `--cluster FILE`, else a live one by `--kubeconfig` and `--context`."""
    return connection_options(
        click.option("--cluster", metavar="FILE|DIR|-", help=f"Take this instead of a live cluster. {HELP}")(function)
    )


def cluster_asked(
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    *,
    whole: bool = False,
    include: tuple[str, ...] = (),
    namespaces: tuple[str, ...] = (),
    needs_nodes: bool = True,
) -> ClusterSnapshot:
    """The cluster that is meant: a file, or the live one. whole, include, namespaces: as in `read_live`. needs_nodes: whether there is no answer for those who may
    not read nodes. Raises SnapshotError, KubeconfigError, TransportError, Unanswerable."""
    if cluster is not None:
        if kubeconfig is not None or context:
            raise click.UsageError("--cluster is asked instead of a live cluster; leave out --kubeconfig and --context")
        return read_cluster(cluster)
    copy = asyncio.run(_read_live(connect(kubeconfig, context), whole, include, namespaces))
    if needs_nodes and (why := copy.why_unread("Node")):
        raise Unanswerable(f"the cluster cannot be read: {why}")
    warn_left_out(copy)
    return copy


async def _read_live(
    client: Client, whole: bool, include: tuple[str, ...], namespaces: tuple[str, ...]
) -> ClusterSnapshot:
    """All of a live cluster that bears on placement. Raises SnapshotError, TransportError, Unanswerable."""
    from bayplan.api.errors import ApiError
    from bayplan.simulation.readers.live import read_live
    from bayplan.support.progress import Progress

    try:
        with Progress("reading") as progress:
            return await read_live(
                client,
                taken_at="",
                whole=whole,
                include=include,
                namespaces=namespaces,
                progress=progress.tell_part,
            )
    except ApiError as error:
        raise Unanswerable(f"the cluster cannot be read: {error.message}") from error
    finally:
        await client.close()


def read_cluster(path: str) -> ClusterSnapshot:
    """The cluster that a file shows. What a dump left out is said on standard error. Raises SnapshotError."""
    from bayplan.simulation.readers.reading import read
    from bayplan.support.progress import Progress

    gc.disable()  # what is read is acyclic and stays; looking through it again and again costs more than reading
    try:
        with Progress("reading files") as progress:
            copy = read(path, told=progress.tell_part)
    finally:
        gc.enable()
        collect_seldom()
    warn_left_out(copy)
    warn_unserved(copy.unserved)
    return copy


def warn_left_out(copy: ClusterSnapshot, limit: int = 5) -> None:
    """Say what is missing, on standard error."""
    for one in copy.left_out[:limit]:
        click.echo(f"bayplan: warning: left out {one.what}: {one.why}", err=True)
    if len(copy.left_out) > limit:
        click.echo(f"bayplan: warning: left out {len(copy.left_out) - limit} more", err=True)


def warn_unserved(unserved: Iterable[UnservedKind]) -> None:
    """Name the custom kinds that nothing here serves, on standard error."""
    for one in unserved:
        click.echo(f"bayplan: warning: {one}", err=True)


def amounts_in(text: str) -> dict[str, str]:
    """`cpu=4,memory=16Gi` by name; nothing for an empty text. Raises UsageError."""
    amounts = {}
    for entry in text.split(",") if text else ():
        name, equals, amount = entry.strip().partition("=")
        if not name or not equals or not amount:
            raise click.UsageError(f"{entry!r}: expected NAME=AMOUNT, such as cpu=4 or memory=16Gi")
        amounts[name] = amount
    return amounts

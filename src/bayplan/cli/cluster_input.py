"""The option `--cluster`: a copy of a cluster, or anything else that shows one."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.cli.output import Failure
from bayplan.support.garbage import collect_seldom

if TYPE_CHECKING:
    from bayplan.cluster.unserved import UnservedKind
    from bayplan.simulation.copies import ClusterCopy

F = TypeVar("F", bound=Callable[..., Any])
HELP = (
    "Copy of a cluster (bayplan snapshot), manifests, kubectl get -o yaml|json, must-gather, cluster-info dump, "
    "each also in an archive (tar, tgz, zip), or -."
)


def cluster_option(function: F) -> F:
    """The required option `--cluster FILE`."""
    return click.option("--cluster", required=True, metavar="FILE|DIR|-", help=HELP)(function)


def read_cluster(path: str) -> ClusterCopy:
    """The cluster that is meant. What a dump left out is said on standard error. Raises Failure."""
    from bayplan.simulation.copies import CopyError
    from bayplan.simulation.readers import read
    from bayplan.support.progress import Progress

    gc.disable()  # what is read is acyclic and stays; looking through it again and again costs more than reading
    try:
        with Progress("reading files") as progress:
            copy = read(path, told=progress.tell_part)
    except CopyError as error:
        raise Failure(str(error)) from error
    finally:
        gc.enable()
        collect_seldom()
    warn_left_out(copy)
    warn_unserved(copy.unserved)
    return copy


def warn_left_out(copy: ClusterCopy, limit: int = 5) -> None:
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

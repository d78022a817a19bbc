"""`bayplan snapshot`: a copy of a cluster in one file."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, Unanswerable, print_data
from bayplan.cli.questions.cluster_input import HELP, warn_left_out, warn_unserved

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_STREAM = Path("/dev/stdout")


@click.command()
@connection_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("cluster.bayplan"),
    show_default=True,
    help="File to write; - is standard output.",
)
@click.option("--from", "source", metavar="FILE|DIR|-", help=f"Take this instead of a live cluster. {HELP}")
@click.option("--include", multiple=True, metavar="KIND", help="A further kind to copy, whole; may be repeated.")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    multiple=True,
    help="Where to look if namespaces may not be listed; may be repeated.",
)
@click.option("--anonymize", is_flag=True, help="Rename all that could tell whose cluster it is.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option(
    "--format", "summary", type=click.Choice(["text", "json", "yaml"]), default="text", help="Form of the summary."
)
def command(
    kubeconfig: Path | None,
    context: str,
    output: Path,
    source: str | None,
    include: tuple[str, ...],
    namespaces: tuple[str, ...],
    anonymize: bool,
    force: bool,
    summary: str,
) -> None:
    """Copy a cluster into one file, to ask questions of it later or to start it again.

    Nodes, pods and all else that bears on placement are copied; never Secrets, and of pods neither environment nor commands. What may not be read is
    left out and named. Other verbs take the file with --cluster, and `bayplan up` with --from.
    """
    kinds = _kinds(include)
    output = _STREAM if str(output) == "-" else output
    if output.exists() and not force and output != _STREAM:
        raise Failure(f"{output} exists; name another file with --output, or overwrite it with --force")
    copy = (
        _of_file(source, kinds) if source else asyncio.run(_of_cluster(connect(kubeconfig, context), kinds, namespaces))
    )
    if anonymize:
        from bayplan.simulation.snapshots.anonymize import anonymized

        copy = anonymized(copy)
    size = _write(copy, output)
    with contextlib.redirect_stdout(sys.stderr) if output == _STREAM else contextlib.nullcontext():
        _report(copy, output, size, summary)


def _kinds(include: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds that are meant. Raises UsageError."""
    from bayplan.simulation.readers.live import kind_named
    from bayplan.simulation.snapshots.snapshot import NEVER_COPIED, SnapshotError

    try:
        kinds = tuple(kind_named(name).kind for name in include)
    except SnapshotError as error:
        raise click.UsageError(f"--include {error}") from error
    for kind in kinds:
        if kind in NEVER_COPIED:
            raise click.UsageError(f"--include {kind}: objects of this kind are never copied; leave it out")
    return kinds


def _of_file(source: str, kinds: tuple[str, ...]) -> ClusterSnapshot:
    from bayplan.simulation.readers.reading import read
    from bayplan.simulation.snapshots.snapshot import COPIED
    from bayplan.simulation.snapshots.thinning import thin, without_managed_fields
    from bayplan.support.progress import Progress

    with Progress("reading files") as progress:
        copy = read(source, kinds, told=progress.tell_part)
    for name, found in copy.objects.items():
        shorten = thin if name in COPIED else without_managed_fields
        copy.objects[name] = [shorten(obj) for obj in found]
    return copy


async def _of_cluster(client: Client, kinds: tuple[str, ...], namespaces: tuple[str, ...]) -> ClusterSnapshot:
    from bayplan.api.errors import ApiError
    from bayplan.simulation.readers.live import read_live
    from bayplan.simulation.snapshots.snapshot import SnapshotError
    from bayplan.support.clock import SystemClock
    from bayplan.support.progress import Progress
    from bayplan.support.timestamps import rfc3339

    try:
        with Progress("reading") as progress:
            return await read_live(
                client,
                taken_at=rfc3339(SystemClock().now()),
                include=kinds,
                namespaces=namespaces,
                progress=progress.tell_part,
            )
    except (ApiError, SnapshotError) as error:
        raise Unanswerable(f"the cluster cannot be copied: {error}") from error
    finally:
        await client.close()


def _write(copy: ClusterSnapshot, output: Path) -> int:
    """Write the file, a new one readable by its owner alone. Returns its size in bytes. Raises Failure."""
    from bayplan.simulation.snapshots.snapshot import to_bytes
    from bayplan.support.system.private_files import create_private

    data = to_bytes(copy)
    try:
        create_private(output)
        output.write_bytes(data)
    except OSError as error:
        raise Failure(f"the copy cannot be written to {output}: {error.strerror or error}") from error
    return len(data)


def _report(copy: ClusterSnapshot, output: Path, size: int, summary: str) -> None:
    if summary != "text":
        left_out = [{"what": one.what, "why": one.why} for one in copy.left_out]
        data = {"file": str(output), "bytes": size, "takenAt": copy.taken_at, "serverVersion": copy.server_version}
        print_data(
            {
                **data,
                "anonymized": copy.anonymized,
                "counts": copy.counts(),
                "leftOut": left_out,
                "unserved": copy.unserved.to_list(),
            },
            summary,
        )
        return
    warn_left_out(copy, limit=20)
    warn_unserved(copy.unserved)
    counts = copy.counts()
    shown = ", ".join(f"{counts[kind]} {kind}" for kind in ("Node", "Pod") if kind in counts)
    others = sum(counts.values()) - counts.get("Node", 0) - counts.get("Pod", 0)
    click.echo(f"{output}: {shown or 'no nodes, no pods'}, {others} other objects, {size / 1024:,.0f} KiB")

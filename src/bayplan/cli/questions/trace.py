"""`bayplan trace`: everything that is written in a cluster while virtual time passes."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.output import Failure, output_option, print_data, scheduler_config_option
from bayplan.cli.questions.cluster_input import read_cluster, warn_unserved
from bayplan.cli.questions.simulate import seconds_in

_FIELDS = ("seconds", "revision", "actor", "verb", "key", "digest")


@click.command()
@click.option("--cluster", metavar="FILE|DIR|-", help="Begin with a copy of a cluster (bayplan snapshot) or a dump.")
@click.option("--nodes", type=click.IntRange(0), help="Simulated nodes.  [default: 3; with --cluster: none of its own]")
@click.option("--apply", "files", multiple=True, metavar="FILE|DIR", help="Manifests to apply; may be repeated.")
@click.option("--for", "duration", default="1m", show_default=True, metavar="TIME", help="How long, such as 24h.")
@click.option("--seed", type=int, default=0, show_default=True, help="Other seeds, other timing.")
@click.option("--restless", is_flag=True, help="Leases and events, too.")
@scheduler_config_option("of the cluster")
@output_option
def command(
    cluster: str | None,
    nodes: int | None,
    files: tuple[str, ...],
    duration: str,
    seed: int,
    restless: bool,
    scheduler_config: Path | None,
    output: str,
) -> None:
    """Let a cluster run in virtual time and print every write: when, the revision, who, what was done, to which object, and
    a digest of what it is then.

    Equal seeds give equal traces; the digest of the whole, leases and events included, is told on standard error.
    """
    from bayplan.api.errors import ApiError
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.trace import is_restless
    from bayplan.simulation.traced import traced

    copy = read_cluster(cluster) if cluster else None
    own_nodes = nodes if nodes is not None else 0 if copy is not None else 3
    rows: list[dict[str, str]] = []
    unserved = UnservedKinds()

    def take(line: str) -> None:
        row = dict(zip(_FIELDS, line.split(), strict=True))
        if restless or not is_restless(row["key"]):
            if output:
                rows.append(row)
            else:
                click.echo(line, nl=False)

    try:
        writes, digest = traced(
            copy,
            nodes=own_nodes,
            files=files,
            seconds=seconds_in(duration),
            seed=seed,
            config=scheduler_config,
            sink=take,
            unserved=unserved,
        )
    except ApiError as error:
        raise Failure(str(error)) from error
    warn_unserved(unserved)
    if output:
        print_data(rows, output)
    click.echo(f"{writes} writes, digest {digest}", err=True)

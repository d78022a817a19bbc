"""`bayplan list`: the clusters in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.named_clusters import carried_out, clusters_directory
from bayplan.cli.output import print_data

if TYPE_CHECKING:
    from bayplan.cluster.named.state import ClusterState

_HEADS = ("NAME", "STATUS", "NODES", "AGE", "MEMORY", "SERVER")


@click.command()
@click.option("-o", "--output", type=click.Choice(["json", "yaml", "name"]), help="Print data, or names alone.")
def command(output: str | None) -> None:
    """List the clusters in the background: whether they run, nodes that are ready of all, age, memory, address."""
    states = carried_out(_states())
    if output == "name":
        for each in states:
            click.echo(each.name)
    elif output:
        print_data({"clusters": [_data(each) for each in states]}, output)
    elif states:
        _print(states)
    else:
        click.echo("no clusters; `bayplan create` makes one", err=True)


async def _states() -> list[ClusterState]:
    from bayplan.cluster.named.records import named_clusters
    from bayplan.cluster.named.state import state_of

    return list(await asyncio.gather(*map(state_of, named_clusters(clusters_directory()))))


def _data(state: ClusterState) -> dict[str, object]:
    from bayplan.support.timestamps import rfc3339

    shown = {**asdict(state), "created": rfc3339(state.created)}
    return {name: value for name, value in shown.items() if value not in (None, "")}


def _print(states: Sequence[ClusterState]) -> None:
    from bayplan.api.printing.base import human_duration
    from bayplan.support.clock import SystemClock

    now = SystemClock().now()
    rows = [
        (
            each.name,
            each.status,
            "-" if each.nodes is None else f"{each.ready}/{each.nodes}",
            human_duration(now - each.created),
            "-" if each.memory is None else f"{each.memory / (1 << 20):.0f}Mi",
            each.server or "-",
        )
        for each in states
    ]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    for row in (_HEADS, *rows):
        click.echo("   ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())

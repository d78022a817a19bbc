"""`bayplan explain POD`: why a pod is where it is, or why it is pending."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.cluster_input import HELP, amounts_in, read_cluster
from bayplan.cli.connect import connect, connection_options
from bayplan.cli.output import Failure, give, html_option, output_option, print_data, scheduler_config_option

if TYPE_CHECKING:
    from bayplan.client import Client
    from bayplan.scheduler import Decision
    from bayplan.simulation.copies import ClusterCopy

_ROWS = 20


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the pod.")
@click.option("--cluster", metavar="FILE|DIR|-", help=f"Take this instead of a live cluster. {HELP}")
@scheduler_config_option("to judge by")
@click.option("--fix", is_flag=True, help="Say what would place the pod: the smallest changes, each tried.")
@click.option(
    "--like-node", default="", metavar="NODE", help="With --fix: nodes that could be added are like this one."
)
@click.option(
    "--shape", default="", metavar="NAME=AMOUNT,...", help="With --fix: what nodes that could be added offer."
)
@html_option("With --fix: write a report to this file.")
@click.option("--all", "show_all", is_flag=True, help=f"Show every node, not only {_ROWS}.")
@connection_options
@output_option
def command(
    pod: str,
    namespace: str,
    cluster: str | None,
    scheduler_config: Path | None,
    fix: bool,
    like_node: str,
    shape: str,
    html: Path | None,
    show_all: bool,
    kubeconfig: Path | None,
    context: str,
    output: str,
) -> None:
    """Say why a pod is where it is, or why it is pending. POD is a name, pod/NAME or NAMESPACE/NAME.

    Every node is judged as the scheduler would judge it now: which plugin refuses it and why, or what each plugin scores. Exit code 1 if no node fits; with
    --fix, if nothing that was tried helps.
    """
    name = _full_name(pod, namespace)
    if (html is not None or like_node or shape) and not fix:
        raise click.UsageError("--html, --like-node and --shape go with --fix")
    if fix:
        copy = read_cluster(cluster) if cluster else asyncio.run(_copied(connect(kubeconfig, context)))
        _fix(copy, name, scheduler_config, (like_node, amounts_in(shape)), html, output)
        return
    given = read_cluster(cluster) if cluster else None
    objects = _objects_of(given) if given is not None else asyncio.run(_from_cluster(connect(kubeconfig, context)))
    from bayplan.scheduler.errors import SchedulerError
    from bayplan.simulation.copies import ClusterCopy
    from bayplan.simulation.copies_planner import QuestionError, pod_named

    try:
        found = pod_named(ClusterCopy(objects), name)
        decision = judge(objects, found, scheduler_config)
    except (QuestionError, SchedulerError) as error:
        raise Failure(str(error)) from error
    node = found.spec.node_name
    if output:
        unserved = {"unserved": given.unserved.to_list()} if given is not None else {}
        print_data({"pod": name, "node": node, **decision.to_dict(), **unserved}, output)
    else:
        _print(decision, node, show_all)
    if decision.gate is not None or not (decision.scheduled or node):
        raise SystemExit(1)


def _full_name(pod: str, namespace: str) -> str:
    """`NAMESPACE/NAME` of a pod that may be given in this form, by its name alone or as kubectl prints it."""
    first, slash, rest = pod.partition("/")
    if slash and first not in ("pod", "pods", "po"):
        return pod
    return f"{namespace}/{rest or first}"


def judge(objects: dict[str, list[Any]], pod: Any, config: Path | None) -> Decision:
    """The decision about a pod as if it had no node yet."""
    from bayplan.api.strategies.base import clone
    from bayplan.scheduler import Planner
    from bayplan.scheduler.library import over_http

    pending = clone(pod)
    pending.spec.node_name = ""
    rest = {kind: [one for one in found if one is not pod] for kind, found in objects.items()}
    planner = Planner(_flat(rest), str(config) if config else None, ask=over_http)
    return planner.decide(pending, explain=True)


def _flat(objects: dict[str, list[Any]]) -> list[Any]:
    return [one for found in objects.values() for one in found]


async def _from_cluster(client: Client) -> dict[str, list[Any]]:
    """What `collect` finds, over a connection that is closed afterwards. Raises Failure."""
    from bayplan.client.errors import TransportError

    try:
        return await collect(client)
    except TransportError as error:
        raise Failure(f"{error}; is the cluster running?") from error
    finally:
        await client.close()


async def collect(client: Client) -> dict[str, list[Any]]:
    """Everything that bears on scheduling, by kind. Kinds that the server does not have, or that we may not read, are left out. Raises Failure."""
    from bayplan.api.errors import ApiError
    from bayplan.scheduler.snapshot.catalog import KINDS

    objects: dict[str, list[Any]] = {}
    for name in ("Node", "Pod", *KINDS):
        cls = next((row.type for row in client.kinds if row.kind == name and row.is_stored), None)
        if cls is None:
            objects[name] = []
            continue
        try:
            objects[name] = (await client.list(cls, page_size=5000)).items
        except ApiError as error:
            if name in ("Node", "Pod") or error.code not in (403, 404):
                raise Failure(f"cannot list {name}: {error.message}") from error
            objects[name] = []
    return objects


def _objects_of(copy: ClusterCopy) -> dict[str, list[Any]]:
    """The objects of a copy, a dump or manifests."""
    return {"Node": [], "Pod": [], **copy.objects}


async def _copied(client: Client) -> ClusterCopy:
    """All of a live cluster that bears on placement. Raises Failure."""
    from bayplan.api.errors import ApiError
    from bayplan.client.errors import TransportError
    from bayplan.simulation.copies import CopyError
    from bayplan.simulation.readers_live import read_live

    try:
        return await read_live(client, taken_at="")
    except TransportError as error:
        raise Failure(f"{error}; is the cluster running?") from error
    except (ApiError, CopyError) as error:
        raise Failure(f"the cluster cannot be read: {error}") from error
    finally:
        await client.close()


def _fix(
    copy: ClusterCopy,
    pod: str,
    config: Path | None,
    nodes: tuple[str, dict[str, str]],
    html: Path | None,
    output: str,
) -> None:
    """Say what would place a pod. Raises Failure."""
    from bayplan.simulation.copies_planner import QuestionError, pod_named
    from bayplan.simulation.fixes import fixes_for
    from bayplan.simulation.tables import print_fixes

    try:
        answer = fixes_for(copy, pod_named(copy, pod), config=config, shape=nodes[0], amounts=nodes[1])
    except QuestionError as error:
        raise Failure(str(error)) from error

    def page() -> str:
        from bayplan.simulation.report import fixes_page

        return fixes_page(copy, answer)

    give(
        answer.to_dict,
        page,
        lambda: print_fixes(answer),
        output=output,
        html=html,
        unserved=copy.unserved,
    )
    if not answer.placed and not answer.fixes:
        raise SystemExit(1)


def _print(decision: Decision, node: str, show_all: bool) -> None:
    from bayplan.simulation.tables import console

    out = console()
    if node:
        out.print(f"[bold]{decision.pod}[/bold] runs on [green]{node}[/green]. If it were to be placed now:")
    out.print(decision.summary(), markup=False)
    table = _table(decision, show_all)
    if table is not None:
        out.print(table)


def _table(decision: Decision, show_all: bool) -> Any:
    """Nodes: those that fit, best first, then those that do not."""
    from rich.table import Table

    nodes = decision.to_dict().get("nodes") or {}
    if not nodes:
        return None
    ordered = sorted(nodes.items(), key=lambda item: (-item[1].get("total", -1), item[0]))
    shown = ordered if show_all else ordered[:_ROWS]
    plugins = sorted({plugin for _, row in ordered for plugin, score in (row.get("scores") or {}).items() if score})
    table = Table("Node", "Total", *plugins, "Refused by", "Because", header_style="bold", box=None)
    for name, row in shown:
        verdict = row["filter"]
        scores = row.get("scores") or {}
        fits = verdict.get("ok")
        table.add_row(
            name,
            str(row.get("total", "")) if fits else "",
            *(str(scores.get(plugin, "")) for plugin in plugins),
            "" if fits else verdict.get("plugin", ""),
            "" if fits else ", ".join(verdict.get("reasons", ())),
            style=None if fits else "dim",
        )
    if len(ordered) > len(shown):
        table.caption = f"{len(ordered) - len(shown)} more nodes; --all shows them"
    return table

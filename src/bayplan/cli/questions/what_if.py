"""`bayplan what-if`: where pods would go that are not there, asked of a running scheduler."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.connect import connect, connection_options, credentials_of
from bayplan.cli.output import output_option, print_data

if TYPE_CHECKING:
    from bayplan.cluster.questions.asking import Asked

_NODES_SHOWN: Final = 5
Tree = dict[str, Any]


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="What is asked about: manifests of pods, or of workloads that make pods. May be given several times.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Of objects that name none.")
@click.option("--replicas", type=click.IntRange(0, 5000), help="Ask about so many pods of each workload.")
@click.option(
    "--scheduler",
    default="",
    metavar="URL",
    help="Ask the `bayplan scheduler` here, such as http://127.0.0.1:10259.  [default: that of `bayplan up`, through its API server]",
)
@click.option("--token", default="", help="With --scheduler: the bearer token.  [default: that of the kubeconfig]")
@click.option(
    "--admission/--no-admission",
    default=True,
    show_default=True,
    help="Ask the API server first what it would make of the pods (a dry run): defaults, priorities, limits, webhooks.",
)
@click.option("--explain", is_flag=True, help="With -o: judge each pod node by node.")
@connection_options
@output_option
def command(
    files: Sequence[str],
    namespace: str,
    replicas: int | None,
    scheduler: str,
    token: str,
    admission: bool,
    explain: bool,
    kubeconfig: Path | None,
    context: str,
    output: str,
) -> None:
    """Ask a running scheduler where pods would go that are not there, and what keeps the others from every node.

    The scheduler decides as if they had just been created, with what it knows at this moment; nothing is changed. The pods of one question see one another.
    Exit code 0 if there is a node for every pod, 1 if not, 2 if the question makes no sense.
    """
    if explain and not output:
        raise click.UsageError("--explain goes with -o")
    if token and not scheduler:
        raise click.UsageError("--token goes with --scheduler")
    objects = _read(files)
    if replicas is not None:
        for one in objects:
            _resize(one, replicas)
    asked = asyncio.run(_ask(objects, kubeconfig, context, namespace, (scheduler, token), admission, explain))
    for note in asked.notes:
        click.echo(f"bayplan: note: {note}", err=True)
    if output:
        print_data({**asked.answer, "refused": asked.refused}, output)
    else:
        _print(asked)
    if asked.refused or asked.answer["pending"]:
        raise SystemExit(1)


async def _ask(
    objects: list[Tree],
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    scheduler: tuple[str, str],
    admission: bool,
    explain: bool,
) -> Asked:
    """Raises AskError, KubeconfigError, TransportError."""
    from bayplan.cluster.questions.asking import ask_scheduler, scheduler_at

    credentials = credentials_of(kubeconfig, context)
    client = connect(kubeconfig, context)
    url, token = scheduler
    try:
        return await ask_scheduler(
            client,
            objects,
            scheduler=scheduler_at(url, token, credentials) if url else None,
            namespace=namespace,
            explain=explain,
            admission=admission,
        )
    finally:
        await client.close()


def _read(files: Sequence[str]) -> list[Tree]:
    """The objects of all files. Raises ManifestError."""
    from bayplan.cluster.manifests.reading import objects_in, read_manifests

    found: list[Tree] = []
    for file in files:
        if file == "-":
            found += objects_in(sys.stdin.read(), "standard input")
        else:
            found += [obj for _, obj in read_manifests([Path(file)])]
    return found


def _resize(tree: Tree, replicas: int) -> None:
    """Let a workload want so many pods."""
    spec = tree.get("spec")
    if not isinstance(spec, dict):
        return
    if tree.get("kind") in ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"):
        spec["replicas"] = replicas
    elif tree.get("kind") == "Job":
        spec["parallelism"], spec["completions"] = replicas, None


def _print(asked: Asked) -> None:
    """For people."""
    for what, why in asked.refused.items():
        click.echo(f"{what}: the API server would not take its pods: {why}")
    by_workload: dict[str, list[Tree]] = {}
    for pod in asked.answer["pods"]:
        by_workload.setdefault(pod["workload"], []).append(pod)
    for workload, pods in by_workload.items():
        if "fits" in pods[0]:
            _print_everywhere(workload, pods[0], asked.answer["nodes"])
        elif len(pods) == 1:
            _print_one(workload, pods[0])
        else:
            _print_many(workload, pods)


def _print_one(workload: str, pod: Tree) -> None:
    if pod["scheduled"]:
        click.echo(f"{workload}: {pod['node']}{_how(pod)}")
        return
    click.echo(f"{workload}: pending")
    _print_reasons(pod)


def _how(pod: Tree) -> str:
    """Why this node."""
    if pod.get("decidedBy") == "onlyFeasibleNode":
        return ", the only node that fits"
    if pod.get("equallyGood", 1) > 1:
        return f", one of {pod['equallyGood']} equally good nodes of the {pod['feasible']} that fit"
    return f", the best of the {pod['feasible']} nodes that fit" if "feasible" in pod else ""


def _print_many(workload: str, pods: Sequence[Tree]) -> None:
    nodes = Counter(pod["node"] for pod in pods if pod["scheduled"])
    click.echo(f"{workload}: {sum(nodes.values())} of {len(pods)} pods find a node")
    most = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
    for node, count in most[:_NODES_SHOWN]:
        click.echo(f"  {count:>5}  {node}")
    others = most[_NODES_SHOWN:]
    if others:
        click.echo(f"  {sum(count for _, count in others):>5}  on {len(others)} other nodes")
    pending = [pod for pod in pods if not pod["scheduled"]]
    if pending:
        click.echo(f"  {len(pending):>5}  pending")
        _print_reasons(next((pod for pod in pending if "message" in pod), pending[0]))


def _print_everywhere(workload: str, pod: Tree, nodes: int) -> None:
    click.echo(f"{workload}: its pods fit on {pod['fits']} of {nodes} nodes")
    for one in pod["refusals"]:
        click.echo(f"  {one['nodes']:>5}  {one['reason']}")


def _print_reasons(pod: Tree) -> None:
    if "message" in pod:
        click.echo(f"    {pod['message']}")
    if "preemption" in pod:
        victims = pod["preemption"]["victims"]
        shown = ", ".join(victims[:_NODES_SHOWN]) + (
            f" and {len(victims) - _NODES_SHOWN} more" if len(victims) > _NODES_SHOWN else ""
        )
        click.echo(f"    room would be made on {pod['preemption']['node']} by evicting {shown}")

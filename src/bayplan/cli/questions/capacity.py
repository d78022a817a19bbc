"""`bayplan capacity`: how many more of a pod fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.output import give, html_option, output_option, scheduler_config_option
from bayplan.cli.questions.cluster_input import amounts_in, cluster_asked, cluster_options, warn_unserved

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod
    from bayplan.cluster.manifests.unserved import UnservedKinds
    from bayplan.simulation.questions.capacity import Capacity, MixCapacity
    from bayplan.simulation.snapshots.planner import NodeShape
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot


@click.command()
@cluster_options
@click.option("--pod", "pod_file", metavar="FILE", help="The pod, or a workload that makes it, in a manifest.")
@click.option("--like", metavar="NAMESPACE/POD", help="A pod like this one of the cluster.")
@click.option("--cpu", metavar="AMOUNT", help="A pod that asks for so much processor time.")
@click.option("--memory", metavar="AMOUNT", help="A pod that asks for so much memory.")
@click.option("--request", "further", multiple=True, metavar="NAME=AMOUNT", help="Further resources; may be repeated.")
@click.option(
    "--mix",
    multiple=True,
    metavar="POD=SHARE",
    help="A file or NAMESPACE/POD and its share of a mix; repeat it for each pod.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    help="Say whether so many fit (of a mix: so many sets), and what is missing for them.",
)
@click.option(
    "--shape",
    metavar="NAME=AMOUNT,...",
    help="What nodes that could be added offer, where they differ from the usual ones.",
)
@click.option("--like-node", default="", metavar="NODE", help="Nodes that could be added are like this one.")
@scheduler_config_option("to judge by")
@html_option()
@output_option
def command(
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    pod_file: str | None,
    like: str | None,
    cpu: str | None,
    memory: str | None,
    further: tuple[str, ...],
    mix: tuple[str, ...],
    replicas: int | None,
    shape: str | None,
    like_node: str,
    scheduler_config: Path | None,
    html: Path | None,
    output: str,
) -> None:
    """Say how many more of a pod fit, what limits them, and how many nodes are missing for more.

    Exit code 0 if at least one fits (with --replicas: as many), 1 if not.
    """
    named = {"cpu": cpu, "memory": memory}
    asked = {name: amount for name, amount in named.items() if amount} | amounts_in(",".join(further))
    given = sum(bool(one) for one in (pod_file, like, asked, mix))
    if given != 1:
        raise click.UsageError(
            "name one pod: by --pod FILE, --like NAMESPACE/POD, --cpu and --memory, or --mix POD=SHARE"
        )
    if (shape or like_node) and (replicas is None or mix):
        raise click.UsageError("--shape and --like-node say which nodes to add for --replicas of one pod")
    from bayplan.cluster.manifests.unserved import UnservedKinds

    copy = cluster_asked(cluster, kubeconfig, context)
    unserved = UnservedKinds()
    answer = _answer(copy, unserved, pod_file, like, asked, mix, replicas, (shape, like_node), scheduler_config)
    warn_unserved(unserved)
    unserved.add_all(copy.unserved)
    from bayplan.simulation.reports.tables import print_capacity

    def page() -> str:
        from bayplan.simulation.reports.page import capacity_page

        return capacity_page(copy, answer)

    give(
        answer.to_dict,
        page,
        lambda: print_capacity(answer),
        output=output,
        html=html,
        unserved=unserved,
    )
    if not answer.enough:
        raise SystemExit(1)


def _answer(
    copy: ClusterSnapshot,
    unserved: UnservedKinds,
    pod_file: str | None,
    like: str | None,
    asked: dict[str, str],
    mix: tuple[str, ...],
    replicas: int | None,
    nodes: tuple[str | None, str],
    config: Path | None,
) -> Capacity | MixCapacity:
    from bayplan.simulation.questions.capacity import capacity, mix_capacity
    from bayplan.simulation.snapshots.planner import fresh, pod_named, pod_of_file, pod_of_requests
    from bayplan.support.progress import Progress

    with Progress("placing pods", replicas) as progress:
        if mix:
            return mix_capacity(copy, _mix(copy, mix, unserved), wanted=replicas, config=config, told=progress.tell)
        pod = (
            pod_of_file(pod_file, copy, unserved)
            if pod_file
            else fresh(pod_named(copy, like))
            if like
            else pod_of_requests(asked)
        )
        return capacity(copy, pod, wanted=replicas, shape=_shape(copy, *nodes), config=config, told=progress.tell)


def _shape(copy: ClusterSnapshot, shape: str | None, like_node: str) -> Callable[[], NodeShape]:
    from bayplan.simulation.snapshots.planner import node_shape

    amounts = amounts_in(shape or "")
    return lambda: node_shape(copy, like_node, amounts)


def _mix(copy: ClusterSnapshot, mix: tuple[str, ...], unserved: UnservedKinds) -> list[tuple[Pod, int]]:
    """The pods of a mix and how many of each a set has. Raises UsageError, QuestionError."""
    from bayplan.simulation.snapshots.planner import fresh, pod_named, pod_of_file

    pods: list[tuple[Any, int]] = []
    for entry in mix:
        name, _, share = entry.rpartition("=")
        if not name or not share.isdecimal() or not int(share):
            raise click.UsageError(f"--mix {entry}: expected POD=SHARE with a whole number, such as default/web-0=3")
        pod = pod_of_file(name, copy, unserved) if Path(name).is_file() else fresh(pod_named(copy, name))
        pods.append((pod, int(share)))
    return pods

"""`bayplan simulate`: what happens to a cluster if something is done to it."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.output import FILE, Failure, give, html_option, output_option, plugin_option, scheduler_config_option
from bayplan.cli.questions.cluster_input import amounts_in, cluster_asked, cluster_options, warn_unserved

if TYPE_CHECKING:
    from bayplan.simulation.actions import Action
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@click.command()
@cluster_options
@click.option("--add-nodes", type=click.IntRange(1), metavar="N", help="Add nodes.")
@click.option("--like", "like_node", default="", metavar="NODE", help="Nodes that are added are like this one.")
@click.option("--shape", metavar="NAME=AMOUNT,...", help="What nodes that are added offer, where it is not the usual.")
@click.option("--taint", "taints", multiple=True, metavar="NODE=KEY[=VALUE]:EFFECT", help="Taint a node.")
@click.option("--cordon", "cordons", multiple=True, metavar="NODE", help="Let a node take no further pods.")
@click.option("--scale", "scales", multiple=True, metavar="KIND/NAMESPACE/NAME=N", help="Scale a workload.")
@click.option("--apply", "files", multiple=True, metavar="FILE|DIR|-", help="Apply manifests; - reads standard input.")
@click.option(
    "--deschedule", "policies", multiple=True, type=FILE, help="Make a pass of the descheduler by a DeschedulerPolicy."
)
@click.option("--drain", "drains", multiple=True, metavar="NODE", help="Cordon a node and evict what runs on it.")
@click.option("--delete-node", "deletes", multiple=True, metavar="NODE", help="Take a node away without a drain.")
@click.option("--fail-zone", "zones", multiple=True, metavar="ZONE", help="Let all nodes of a zone lose contact.")
@click.option(
    "--place-anew", is_flag=True, help="Delete the pods of workloads at once, so that the scheduler places them anew."
)
@click.option(
    "--upgrade",
    is_flag=False,
    flag_value="all",
    metavar="[SELECTOR]",
    help="Replace nodes by new ones like them, those with these labels or all.",
)
@click.option("--surge", type=click.IntRange(1), default=1, show_default=True, help="Nodes replaced at a time.")
@click.option("--drain-timeout", default="1h", show_default=True, metavar="TIME", help="After which a drain gives up.")
@click.option("--for", "duration", metavar="TIME", help="Watch for so long, such as 24h; else until all is at rest.")
@click.option("--seed", type=int, default=0, show_default=True, help="Other seeds, other timing.")
@scheduler_config_option("of the cluster")
@plugin_option()
@html_option()
@output_option
def command(
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    add_nodes: int | None,
    like_node: str,
    shape: str | None,
    place_anew: bool,
    upgrade: str | None,
    surge: int,
    drain_timeout: str,
    duration: str | None,
    seed: int,
    scheduler_config: Path | None,
    plugin_files: tuple[Path, ...],
    html: Path | None,
    output: str,
    **steps: tuple[Any, ...],
) -> None:
    """Do something to a copy of a cluster, in virtual time, and say what happens: who is placed where, evicted or preempted,
    who stays pending and why, and which workloads are short of pods for how long.

    Steps are done in the order of this help: nodes are added first, applied manifests come before drains. Exit code 0 if all
    of them worked and no further pod is pending, 1 if not.
    """
    from bayplan.simulation.actions import PlaceAnew

    patience = seconds_in(drain_timeout)
    lasting = seconds_in(duration) if duration else None
    if (like_node or shape) and add_nodes is None:
        raise click.UsageError("--like and --shape say which nodes --add-nodes adds")
    copy = cluster_asked(cluster, kubeconfig, context)
    actions = _actions(copy, (add_nodes, like_node, shape), steps, upgrade, surge, patience)
    actions += [PlaceAnew()] * place_anew
    if not actions and lasting is None:
        raise click.UsageError("nothing to simulate: name a step, such as --drain NODE, or a time with --for")
    outcome = _run(copy, actions, lasting, seed=seed, config=scheduler_config, plugins=plugin_files)
    from bayplan.cluster.manifests.unserved import UnservedKinds

    warn_unserved(outcome.unserved)
    unserved = UnservedKinds()
    for one in (*copy.unserved, *outcome.unserved):
        unserved.add(one.api_version, one.kind, one.objects)
    from bayplan.simulation.reports.outcome_page import outcome_page
    from bayplan.simulation.reports.outcome_tables import print_outcome

    give(
        outcome.to_dict,
        lambda: outcome_page(copy, outcome),
        lambda: print_outcome(outcome),
        output=output,
        html=html,
        unserved=unserved,
    )
    if not outcome.good:
        raise SystemExit(1)


def _run(copy: ClusterSnapshot, actions: list[Action], lasting: float | None, **options: Any) -> Any:
    from bayplan.api.errors import ApiError
    from bayplan.cluster.errors import ClusterError
    from bayplan.scheduler.development.plugin_files import PluginFileError
    from bayplan.simulation.questions.what_if import simulate

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what controllers try in vain is told by the outcome
    try:
        return simulate(copy, actions, seconds=lasting, **options)
    except (ClusterError, ApiError, PluginFileError) as error:  # what the simulated cluster refuses
        raise Failure(str(error)) from error
    finally:
        logging.disable(before)


def _actions(
    copy: ClusterSnapshot,
    nodes: tuple[int | None, str, str | None],
    steps: dict[str, tuple[Any, ...]],
    upgrade: str | None,
    surge: int,
    patience: float,
) -> list[Action]:
    """In the order in which they are done. Raises UsageError, QuestionError, ManifestError, PolicyError."""
    from bayplan.cluster.manifests.reading import objects_in, read_manifests
    from bayplan.descheduler.policy_reader import load_policy
    from bayplan.simulation.actions import AddNodes, Apply, Cordon, DeleteNode, Deschedule, Drain, FailZone, Upgrade
    from bayplan.simulation.snapshots.planner import node_shape

    actions: list[Action] = []
    count, like, shape = nodes
    if count is not None:
        actions.append(AddNodes(count, node_shape(copy, like, amounts_in(shape or ""))))
    actions.extend(_taint(text) for text in steps["taints"])
    actions.extend(Cordon(name) for name in steps["cordons"])
    actions.extend(_scale(text) for text in steps["scales"])
    objects: list[tuple[Path, dict[str, Any]]] = []
    for name in steps["files"]:
        if name == "-":
            objects.extend((Path("-"), obj) for obj in objects_in(sys.stdin.read(), "standard input"))
        else:
            objects.extend(read_manifests([Path(name)]))
    if objects:
        actions.append(Apply(tuple(objects)))
    actions.extend(Deschedule(load_policy(file), str(file)) for file in steps["policies"])
    if steps["drains"]:
        actions.append(Drain(steps["drains"], patience))
    actions.extend(DeleteNode(name) for name in steps["deletes"])
    actions.extend(FailZone(name) for name in steps["zones"])
    if upgrade is not None:
        actions.append(Upgrade("" if upgrade == "all" else upgrade, surge, patience))
    return actions


def _taint(text: str) -> Action:
    from bayplan.api.types.core_v1 import Taint as NodeTaint
    from bayplan.simulation.actions import Taint

    found = re.fullmatch(r"([^=]+)=([^=:]+)(?:=([^:]*))?:(\w+)", text)
    if found is None or found[4] not in _EFFECTS:
        raise click.UsageError(f"--taint {text}: expected NODE=KEY[=VALUE]:EFFECT with one of {', '.join(_EFFECTS)}")
    return Taint(found[1], NodeTaint(key=found[2], value=found[3] or "", effect=found[4]))


def _scale(text: str) -> Action:
    from bayplan.simulation.actions import Scale

    found = re.fullmatch(r"([^/=]+)/(?:([^/=]+)/)?([^/=]+)=(\d+)", text)
    if found is None:
        raise click.UsageError(f"--scale {text}: expected KIND/NAMESPACE/NAME=N, such as deployment/shop/web=5")
    return Scale(found[1], found[2] or "default", found[3], int(found[4]))


def seconds_in(text: str) -> float:
    """`90`, `90s`, `5m`, `24h`, `149d`, `1h30m` as seconds. Raises UsageError."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if not re.fullmatch(r"(\d+(\.\d+)?[smhd])+", text):
        raise click.UsageError(f"{text!r}: expected a time such as 90s, 5m, 24h or 1h30m")
    return sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(r"(\d+(?:\.\d+)?)([smhd])", text))

"""`bayplan explain`: why a pod, workload, claim or node is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bayplan.cli.output import give, html_option, output_option, print_data, scheduler_config_option
from bayplan.cli.questions.cluster_input import amounts_in, cluster_asked, cluster_options

if TYPE_CHECKING:
    from bayplan.scheduler import Decision
    from bayplan.scheduler.planning.reasons import Refusals
    from bayplan.simulation.explanations.base import Explanation
    from bayplan.simulation.snapshots.snapshot import ClusterSnapshot

_ROWS = 20


class Target(NamedTuple):
    """What is to be explained."""

    kind: str
    namespace: str
    name: str


@click.command()
@click.argument("target")
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of the object.")
@cluster_options
@scheduler_config_option("to judge by")
@click.option("--fix", is_flag=True, help="Say what would place the pod: the smallest changes, each tried.")
@click.option("--patch", is_flag=True, help="With --fix: show the patches and commands that make the changes.")
@click.option(
    "--like-node", default="", metavar="NODE", help="With --fix: nodes that could be added are like this one."
)
@click.option(
    "--shape", default="", metavar="NAME=AMOUNT,...", help="With --fix: what nodes that could be added offer."
)
@html_option("With --fix: write a report to this file.")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help=f"Show every node, not only {_ROWS}, and all that stands in the way there, not only what the scheduler met first.",
)
@output_option
def command(
    target: str,
    namespace: str,
    cluster: str | None,
    scheduler_config: Path | None,
    fix: bool,
    patch: bool,
    like_node: str,
    shape: str,
    html: Path | None,
    show_all: bool,
    kubeconfig: Path | None,
    context: str,
    output: str,
) -> None:
    """Say why a pod, workload, claim or node is as it is. TARGET is a pod's name or NAMESPACE/NAME, or KIND/NAME as kubectl takes it:
    deploy/web, job/x, sts/db, ds/x, cj/x, pvc/data, node/a.

    Of a pending pod every node is judged as the scheduler would judge it now: which plugin refuses it and why, or what each plugin scores. Of a pod that has
    a node and does not run, the answer says what keeps it from it; of a workload, why it has no pods or why these do not run. Rights in the object's namespace
    are enough; without those to read nodes, the answer about a pending pod is what the cluster's scheduler said of it.
    Exit code 0 if all is well, 1 if not (with --fix, if nothing that was tried helps), 2 if there is no such object or cluster.
    """
    found = target_of(target, namespace)
    if (html is not None or like_node or shape or patch) and not fix:
        raise click.UsageError("--html, --like-node, --shape and --patch go with --fix")
    if fix and found.kind != "Pod":
        raise click.UsageError(f"--fix says what would place a pod; {found.kind} {found.name} is none")
    copy = cluster_asked(
        cluster,
        kubeconfig,
        context,
        whole=True,
        include=("Event",),
        namespaces=(found.namespace,),
        needs_nodes=fix,
    )
    if fix:
        _fix(
            copy,
            f"{found.namespace}/{found.name}",
            scheduler_config,
            (like_node, amounts_in(shape)),
            patch,
            html,
            output,
        )
    elif found.kind == "Pod":
        _explain_pod(copy, found, scheduler_config, show_all, output)
    else:
        _explain_object(copy, found, scheduler_config, output)


def target_of(text: str, namespace: str) -> Target:
    """What is named by `KIND/NAME`, `NAMESPACE/NAME` (a pod) or the name of a pod alone."""
    from bayplan.simulation.explanations.question import kind_explained

    first, slash, rest = text.partition("/")
    if not slash:
        return Target("Pod", namespace, text)
    kind = kind_explained(first)
    return Target(kind, namespace, rest) if kind else Target("Pod", first, rest)


def _explain_object(copy: ClusterSnapshot, target: Target, config: Path | None, output: str) -> None:
    """Say why something is as it is that is no pod. Raises QuestionError."""
    from bayplan.simulation.explanations.question import explain

    answer = explain(copy, target.kind, target.name, target.namespace, config)
    if output:
        print_data({**answer.to_dict(), "unserved": copy.unserved.to_list()}, output)
    else:
        _print_explanation(answer)
    if not answer.good:
        raise SystemExit(1)


def _explain_pod(copy: ClusterSnapshot, target: Target, config: Path | None, show_all: bool, output: str) -> None:
    """Say why a pod is where it is, why it does not run there, or why it is pending. Raises QuestionError."""
    from bayplan.scheduler.errors import SchedulerError, SettingsError
    from bayplan.simulation.explanations.pods import told_by_scheduler, told_of_waiting
    from bayplan.simulation.explanations.question import explain
    from bayplan.simulation.snapshots.planner import pod_named

    key = f"{target.namespace}/{target.name}"
    pod = pod_named(copy, key)
    about = explain(copy, "Pod", pod.metadata.name, pod.metadata.namespace or "default")
    if copy.why_unread("Node"):
        if not pod.spec.node_name:
            about.because.insert(0, told_by_scheduler(pod))
        _give_undecided(copy, about, output, pod.spec.node_name)
        if not about.good:
            raise SystemExit(1)
        return
    refusals: Refusals = {}
    try:
        decision, refusals = judge(copy, pod, config, show_all)
    except SchedulerError as error:
        if pod.spec.node_name or isinstance(error, SettingsError):
            raise
        about.because.insert(0, str(error))
        _give_undecided(copy, about, output)
        raise SystemExit(1) from error
    node = pod.spec.node_name
    waits_for_more = told_of_waiting(copy, pod) if not node and decision.scheduled else []
    about.because += waits_for_more
    if output:
        data = {"pod": key, "node": node, **decision.to_dict(), "explanation": about.to_dict()}
        if show_all:
            data["refusals"] = {
                name: [{"plugin": one.plugin, "reasons": list(one.reasons)} for one in reasons]
                for name, reasons in refusals.items()
            }
        print_data({**data, "unserved": copy.unserved.to_list()}, output)
    else:
        _print_pod(about, decision, node, refusals, show_all)
    if decision.gate is not None or waits_for_more or not (about.good if node else decision.scheduled):
        raise SystemExit(1)


def _give_undecided(copy: ClusterSnapshot, about: Explanation, output: str, node: str = "") -> None:
    """Say of a pod about which nobody decides here what is known of it."""
    if output:
        print_data(
            {"pod": about.name, "node": node, "explanation": about.to_dict(), "unserved": copy.unserved.to_list()},
            output,
        )
    else:
        _print_explanation(about)


def judge(
    copy: ClusterSnapshot, pod: Any, config: Path | None, every_reason: bool = False
) -> tuple[Decision, Refusals]:
    """The decision about a pod as if it had no node yet, and if wanted every reason of every node. Raises SchedulerError."""
    from bayplan.api.strategies.base import clone
    from bayplan.scheduler import Planner
    from bayplan.scheduler.library import over_http
    from bayplan.scheduler.planning.reasons import every_refusal
    from bayplan.scheduler.snapshot.gangs import group_key

    pending = clone(pod)
    pending.spec.node_name = ""
    planner = Planner([one for one in copy.flat() if one is not pod], str(config) if config else None, ask=over_http)
    if group := group_key(pod):
        for one in copy.of("Pod"):  # the planner does not know those that wait, but the group has them
            if group_key(one) == group:
                planner.snapshot.gangs.add(group, f"{one.metadata.namespace}/{one.metadata.name}")
    return planner.decide(pending, explain=True), every_refusal(planner, pending) if every_reason else {}


def _fix(
    copy: ClusterSnapshot,
    pod: str,
    config: Path | None,
    nodes: tuple[str, dict[str, str]],
    patch: bool,
    html: Path | None,
    output: str,
) -> None:
    """Say what would place a pod. Raises QuestionError."""
    from bayplan.simulation.fixes.search import fixes_for
    from bayplan.simulation.reports.tables import print_fixes
    from bayplan.simulation.snapshots.planner import pod_named

    answer = fixes_for(copy, pod_named(copy, pod), config=config, shape=nodes[0], amounts=nodes[1])

    def page() -> str:
        from bayplan.simulation.reports.page import fixes_page

        return fixes_page(copy, answer)

    give(
        answer.to_dict,
        page,
        lambda: print_fixes(answer, patches=patch),
        output=output,
        html=html,
        unserved=copy.unserved,
    )
    if not answer.placed and not answer.fixes:
        raise SystemExit(1)


def _print_explanation(about: Explanation) -> None:
    from bayplan.simulation.reports.tables import console

    console().print(about.text(), markup=False)


def _print_pod(about: Explanation, decision: Decision, node: str, refusals: Refusals, show_all: bool) -> None:
    from bayplan.simulation.reports.tables import console

    out = console()
    if node and not about.good:
        _print_explanation(about)
        return
    if node:
        out.print(
            f"[bold]{decision.pod}[/bold] {about.answer}." + ("" if about.because else " If it were to be placed now:")
        )
        for line in about.text().splitlines()[1:]:
            out.print(line, markup=False)
        if about.because:
            out.print("If it were to be placed now:")
    waits_for_more = not node and decision.scheduled and bool(about.because)
    if waits_for_more:
        _print_explanation(about)
        out.print("If it were decided about by itself and now:")
    out.print(decision.summary(), markup=False)
    if not node and not waits_for_more:
        for line in about.text().splitlines()[1:]:
            out.print(line, markup=False)
    table = _table(decision, refusals, show_all)
    if table is not None:
        out.print(table)


def _table(decision: Decision, refusals: Refusals, show_all: bool) -> Any:
    """Nodes: those that fit, best first, then those that do not."""
    from rich.table import Table

    nodes = decision.to_dict().get("nodes") or {}
    if show_all:
        nodes = {**{name: {"filter": {"ok": not reasons}} for name, reasons in refusals.items()}, **nodes}
    if not nodes:
        return None
    ordered = sorted(nodes.items(), key=lambda item: (-item[1].get("total", -1), item[0]))
    shown = ordered if show_all else ordered[:_ROWS]
    plugins = sorted({plugin for _, row in ordered for plugin, score in (row.get("scores") or {}).items() if score})
    refuses = any(not row["filter"].get("ok") for _, row in shown)
    total = ("Total",) if any(row["filter"].get("ok") for _, row in shown) else ()
    table = Table(
        "Node", *total, *plugins, *(("Refused by", "Because") if refuses else ()), header_style="bold", box=None
    )
    for name, row in shown:
        verdict = row["filter"]
        scores = row.get("scores") or {}
        fits = verdict.get("ok")
        every = refusals.get(name, ())
        by = [one.plugin for one in every] or [verdict.get("plugin", "")]
        why = [", ".join(one.reasons) for one in every] or [", ".join(verdict.get("reasons", ()))]
        points = [str(row.get("total", "")) if fits else ""] if total else []
        refusal = ["", ""] if fits else ["\n".join(by), "\n".join(why)]
        table.add_row(
            name,
            *points,
            *(str(scores.get(plugin, "")) for plugin in plugins),
            *(refusal if refuses else ()),
            style=None if fits else "dim",
        )
    if len(ordered) > len(shown):
        table.caption = f"{len(ordered) - len(shown)} more nodes; --all shows them"
    return table

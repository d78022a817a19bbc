"""`bayplan consolidate`: which nodes can go."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli.output import give, html_option, output_option, scheduler_config_option
from bayplan.cli.questions.cluster_input import cluster_asked, cluster_options


@click.command()
@cluster_options
@click.option("-l", "--selector", default="", help="Look at nodes with these labels only.")
@click.option("--keep", type=click.IntRange(0), default=1, show_default=True, help="Nodes that have to remain.")
@click.option("--max", "most", type=click.IntRange(1), help="Remove no more nodes than this.")
@click.option("--allow-bare-pods", is_flag=True, help="Remove nodes with pods that nobody makes again.")
@click.option("--allow-local-storage", is_flag=True, help="Remove nodes with pods that keep data there.")
@click.option("--allow-system-pods", is_flag=True, help="Move pods of kube-system that no disruption budget covers.")
@click.option("--allow-control-plane", is_flag=True, help="Remove nodes of the control plane.")
@scheduler_config_option("to judge by")
@click.option("--moves", is_flag=True, help="Show where every pod goes.")
@html_option()
@output_option
def command(
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    selector: str,
    keep: int,
    most: int | None,
    allow_bare_pods: bool,
    allow_local_storage: bool,
    allow_system_pods: bool,
    allow_control_plane: bool,
    scheduler_config: Path | None,
    moves: bool,
    html: Path | None,
    output: str,
) -> None:
    """Say which nodes can go, in which order, and where everything on them moves.

    Pods move where the scheduler would put them; disruption budgets, owners, local storage and the annotation safe-to-evict are respected. Exit code 0 if a
    node can go, 1 if none can.
    """
    from bayplan.simulation.questions.consolidate import consolidate
    from bayplan.simulation.questions.consolidate_rules import Rules
    from bayplan.simulation.reports.tables import print_consolidation
    from bayplan.support.progress import Progress

    copy = cluster_asked(cluster, kubeconfig, context)
    rules = Rules(allow_bare_pods, allow_local_storage, allow_system_pods, allow_control_plane)
    with Progress("nodes", len(copy.of("Node"))) as progress:
        answer = consolidate(
            copy, rules=rules, selector=selector, keep=keep, most=most, config=scheduler_config, told=progress.tell
        )

    def page() -> str:
        from bayplan.simulation.reports.page import consolidation_page

        return consolidation_page(copy, answer)

    give(
        answer.to_dict,
        page,
        lambda: print_consolidation(answer, moves=moves),
        output=output,
        html=html,
        unserved=copy.unserved,
    )
    if not answer.steps:
        raise SystemExit(1)

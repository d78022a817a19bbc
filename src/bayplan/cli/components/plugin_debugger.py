"""`bayplan scheduler plugin debug`: a decision step by step in a terminal."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from bayplan.cli.output import FILE, scheduler_config_option
from bayplan.cli.questions.cluster_input import cluster_asked, cluster_options

if TYPE_CHECKING:
    from bayplan.scheduler.development.stepping import DecisionSteps

_HELP: Final = "step (s, or nothing): the next plugin; next (n): up to the next extension point; all: to the end; why NODE (w); cost (c); restart (r); quit (q)"


@click.command()
@click.argument("pod", metavar="NAMESPACE/NAME")
@cluster_options
@scheduler_config_option("to decide by")
@click.option(
    "--plugin", "plugins", type=FILE, multiple=True, help="A file of Python with plugins, enabled with weight 1."
)
def debug(
    pod: str,
    cluster: str | None,
    kubeconfig: Path | None,
    context: str,
    scheduler_config: Path | None,
    plugins: tuple[Path, ...],
) -> None:
    """Step through the decision about a pod, as if it were not placed yet: what each plugin says of each node.

    Commands are read from standard input: step, next, all, why NODE, cost, restart, quit.
    """
    from bayplan.scheduler.development.stepping import step_through
    from bayplan.scheduler.library import Planner
    from bayplan.simulation.rehearsal.setting import Setting
    from bayplan.simulation.snapshots.planner import fresh, pod_named

    copy = cluster_asked(cluster, kubeconfig, context)
    found = pod_named(copy, pod)
    others = [obj for objects in copy.objects.values() for obj in objects if obj is not found]
    with Setting(scheduler_config, plugins).settings() as settings:
        steps = step_through(Planner(others, settings), fresh(found))
    click.echo(f"{steps.pod}: {len(steps.steps)} steps; {_HELP}")
    _follow(steps)


def _follow(steps: DecisionSteps) -> None:
    """Do what is typed, until the end of the input; in a terminal, the arrow keys bring back earlier lines."""
    if sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401
    while True:
        try:
            line = click.prompt("(debug)", default="step", show_default=False, prompt_suffix=" ")
        except click.Abort:
            return
        name, _, node = line.strip().partition(" ")
        if name in ("q", "quit"):
            return
        _answer(steps, name, node.strip())


def _answer(steps: DecisionSteps, name: str, node: str) -> None:
    if name in ("s", "step"):
        step = steps.step()
        click.echo(step.text() if step is not None else "that was the last step; restart, or quit")
    elif name in ("n", "next", "all"):
        gone = steps.next()
        while name == "all" and not steps.is_over:
            gone += steps.next()
        click.echo("\n".join(step.text() for step in gone) or "that was the last step; restart, or quit")
    elif name in ("w", "why"):
        try:
            click.echo(steps.why(node).text())
        except KeyError:
            click.echo(
                f"there is no node {node!r}; the decision is about {', '.join(sorted(filter(None, steps.decision.names))[:10])}"
            )
    elif name in ("c", "cost"):
        click.echo(steps.cost().text())
    elif name in ("r", "restart"):
        steps.restart()
        click.echo("before the first step")
    else:
        click.echo(_HELP)

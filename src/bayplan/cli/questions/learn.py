"""`bayplan learn`: small scenarios that show how Kubernetes works, step by step."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from bayplan.cli.output import output_option, print_data

if TYPE_CHECKING:
    from bayplan.simulation.lessons.player import RecordedStep, Recording
    from bayplan.simulation.lessons.recorder import Change

_WIDTH = 100
_MOST_FIELDS = 8


@click.command()
@click.argument("scenario", required=False)
@output_option
def command(scenario: str | None, output: str) -> None:
    """Play a small scenario that shows how Kubernetes works; without SCENARIO, list them.

    The components are those of `bayplan up`, in virtual time: each step says who wrote what, why, and where the code is. `bayplan ui --learn` plays the same on
    a web page.
    """
    from bayplan.simulation.lessons.lesson import ORDER, read_lesson

    if scenario is None:
        lessons = [(name, read_lesson(name)) for name in ORDER]
        if output:
            print_data([{"name": name, "title": one.title, "summary": one.summary} for name, one in lessons], output)
        for name, one in lessons if not output else ():
            click.echo(f"{name:14} {one.summary}")
        return
    import msgspec

    from bayplan.simulation.lessons.player import play

    recording = play(scenario, read_lesson(scenario))
    if output:
        print_data(msgspec.to_builtins(recording), output)
        return
    click.echo(f"{recording.title}\n{textwrap.fill(recording.goal, _WIDTH)}")
    for number, step in enumerate(recording.steps, 1):
        click.echo(_told(number, step, recording))


def _told(number: int, step: RecordedStep, recording: Recording) -> str:
    """A step for people."""
    lines = [f"\n{number}. {step.title}  (after {step.at:g} s)"]
    if step.command:
        lines.append(f"   $ {step.command}")
    lines.append(textwrap.indent(textwrap.fill(step.text, _WIDTH), "   "))
    if step.change >= 0:
        lines.append(f"   {_written(recording.changes[step.change])}")
    lines += [f"   code: {one.file}:{one.line} {one.symbol}" for one in step.code]
    return "\n".join(lines)


def _written(change: Change) -> str:
    """Who wrote what."""
    name = f"{change.namespace}/{change.name}" if change.namespace else change.name
    fields = [one.path for one in change.difference] if change.verb == "update" else []
    shown = ", ".join(fields[:_MOST_FIELDS]) + (", ..." if len(fields) > _MOST_FIELDS else "")
    return f"{change.actor}: {change.verb} {change.kind} {name}{': ' + shown if shown else ''}"

"""`bayplan doctor`: what this machine has for clusters, and what it lacks."""

from __future__ import annotations

import click

from bayplan.cli.clusters.data_directory import default_data_directory
from bayplan.cli.output import Failure, output_option, print_data


@click.command()
@output_option
def command(output: str) -> None:
    """Say what this machine has for clusters and what it lacks, with the next step for each.

    The exit code is 1 if no cluster can run here. Nothing is changed.
    """
    from bayplan.cluster.machine_checks import Verdict, check_machine

    findings = list(check_machine(default_data_directory()))
    if output:
        rows = [{"subject": each.subject, "verdict": each.verdict.value, "text": each.text} for each in findings]
        print_data({"findings": rows}, output)
    else:
        for each in findings:
            click.echo(f"{each.verdict.value:8} {each.text}")
    if any(each.verdict is Verdict.MISSING for each in findings):
        raise Failure("no cluster can run on this machine as it is")

"""`bayplan faults`: a workload lives through faults, from a plan or from seeds."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.output import Failure, output_option, print_data
from bayplan.cli.questions.cluster_input import warn_unserved

if TYPE_CHECKING:
    from bayplan.simulation.faults.plan import Plan
    from bayplan.simulation.faults.trial import Trial


@click.command()
@click.argument("plan", required=False, type=click.Path(path_type=Path))
@click.option("--seed", type=int, help="Run with this seed only, and tell what happens.")
@click.option("--seeds", type=click.IntRange(1), default=20, show_default=True, help="How many seeds to run.")
@click.option("--first", type=int, default=0, show_default=True, help="The first of them.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes to use.")
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="With --seed: write every change here.")
@output_option
def command(
    plan: Path | None, seed: int | None, seeds: int, first: int, jobs: int, trace: Path | None, output: str
) -> None:
    """Let a workload live through node crashes, lost zones, restarts, killed pods and an unreliable API, in virtual time, and check
    that nothing is ever bound twice, over-committed or lost, and that all is well in the end.

    What goes wrong is said by PLAN (a YAML file, see docs/virtual-time.md) or else drawn from each seed. Exit code 0 if all held, 1 if
    not; the command that replays a failing seed is printed.
    """
    if trace is not None and seed is None:
        raise click.UsageError("--trace is written for one --seed")
    read = _read(plan)
    with _quiet():
        if seed is not None:
            trials = [_traced(read, seed, trace)]
        else:
            trials = list(_shown(_run_all(plan, range(first, first + seeds), jobs), seeds))
    warn_unserved(trials[0].unserved)
    failed = [trial for trial in trials if trial.problems]
    if output:
        print_data([_data(trial) for trial in trials], output)
    else:
        _tell(plan, trials, failed, whole=seed is not None)
    if failed:
        raise SystemExit(1)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """No log: what goes wrong on purpose would fill the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _read(path: Path | None) -> Plan | None:
    """The plan of a file, if one is named. Raises PlanError, ManifestError."""
    from bayplan.cluster.manifests import read_manifests
    from bayplan.simulation.faults.plan import read_plan

    if path is None:
        return None
    plan = read_plan(path)
    read_manifests(plan.workload)
    return plan


def _traced(plan: Plan | None, seed: int, trace: Path | None) -> Trial:
    from bayplan.simulation.faults.plan import drawn_plan
    from bayplan.simulation.faults.trial import run_trial

    plan = plan if plan is not None else drawn_plan(seed)
    if trace is None:
        return run_trial(plan, seed)
    try:
        with trace.open("w") as file:
            return run_trial(plan, seed, file.write)
    except OSError as error:
        raise Failure(f"{trace}: {error.strerror or error}") from error


def _run_one(job: tuple[Path | None, int]) -> Trial:
    path, seed = job
    with _quiet():
        return _traced(_read(path), seed, None)


def _run_all(path: Path | None, seeds: Iterable[int], jobs: int) -> Iterator[Trial]:
    work = [(path, seed) for seed in seeds]
    if jobs == 1:
        yield from map(_run_one, work)
        return
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_run_one, work, chunksize=4)


def _shown(trials: Iterator[Trial], count: int) -> Iterator[Trial]:
    from bayplan.support.progress import Progress

    with Progress("seeds", count) as progress:
        for number, trial in enumerate(trials, 1):
            progress.tell(number)
            yield trial


def _data(trial: Trial) -> dict[str, object]:
    return {
        "seed": trial.seed,
        "problems": list(trial.problems),
        "faults": list(trial.happened),
        "apiFaults": trial.injected,
        "writes": trial.writes,
        "virtualSeconds": trial.seconds,
        "trace": trial.trace,
        "unserved": [one.to_dict() for one in trial.unserved],
    }


def _tell(path: Path | None, trials: list[Trial], failed: list[Trial], *, whole: bool) -> None:
    if whole:
        for line in trials[0].happened:
            click.echo(f"  {line}")
    for trial in failed:
        click.echo(f"seed {trial.seed}:")
        for problem in trial.problems:
            click.echo(f"  ✗ {problem}")
        click.echo(f"  replay it: bayplan faults {f'{path} ' if path else ''}--seed {trial.seed}")
    faults = sum(len(trial.happened) for trial in trials)
    api = sum(trial.injected for trial in trials)
    hours = sum(trial.seconds for trial in trials) / 3600
    click.echo(
        f"{len(trials)} runs, {faults} faults and {api} of the API in {hours:.1f} virtual hours: "
        + (f"{len(failed)} failed" if failed else "all held")
    )

"""A run with faults as a unit of a sweep: plain data in and out."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from bayplan.cluster.manifests.unserved import UnservedKind
from bayplan.simulation.faults.plan import drawn_plan, read_plan
from bayplan.simulation.faults.trial import Trial, run_trial
from bayplan.simulation.sweeps.results import Result, digest_of_files
from bayplan.simulation.sweeps.sweep import Unit


def units_of(path: Path | None, seeds: Iterable[int]) -> list[Unit]:
    """A unit for each seed. path: the file of the plan; None for plans that are drawn. What decides a result is the content of the plan and
    its workload, not where they lie. Raises PlanError, OSError."""
    content = "" if path is None else digest_of_files([path, *read_plan(path).workload])
    return [
        Unit(
            f"seed {seed}",
            {"faults": content, "seed": seed},
            {"plan": str(path) if path is not None else "", "seed": seed},
        )
        for seed in seeds
    ]


def run_unit(inputs: Result) -> Result:
    """Play a seed. Raises PlanError, ManifestError."""
    seed = int(inputs["seed"])
    plan = read_plan(Path(inputs["plan"])) if inputs["plan"] else drawn_plan(seed)
    with quiet():
        return data_of(run_trial(plan, seed))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No log: what goes wrong on purpose would fill the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def data_of(trial: Trial) -> Result:
    """What came of a run as plain data."""
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


def trial_of(data: Result) -> Trial:
    """What `data_of` was made of."""
    return Trial(
        data["seed"],
        tuple(data["problems"]),
        tuple(data["faults"]),
        data["apiFaults"],
        data["writes"],
        data["virtualSeconds"],
        data["trace"],
        tuple(UnservedKind(one["apiVersion"], one["kind"], one["objects"]) for one in data["unserved"]),
    )

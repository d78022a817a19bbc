"""A workload played under one configuration and seed as a unit of a sweep: plain data in and out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from bayplan.simulation.replay import workload_file
from bayplan.simulation.replay.result import Replay
from bayplan.simulation.replay.run import replay
from bayplan.simulation.sweeps.results import Result, digest_of_files
from bayplan.simulation.sweeps.sweep import Unit

_NOT_KEPT: Final = "records"
"""What became of each pod would be as large as the workload."""


def units_of(workload: Path, configs: Iterable[Path | None], seeds: Iterable[int]) -> list[Unit]:
    """A unit for each seed and configuration, in this order. workload: as `workload_file` saves it. A result is decided by the content of
    the workload and of the configuration, not by where they lie. Raises OSError."""
    files = [(config, digest_of_files([config]) if config is not None else "") for config in configs]
    return [
        Unit(
            f"seed {seed} under {config if config is not None else 'the defaults'}",
            {"replay": workload.stem, "config": digest, "seed": seed},
            {"workload": str(workload), "config": str(config) if config is not None else "", "seed": seed},
        )
        for seed in seeds
        for config, digest in files
    ]


def run_unit(inputs: Result) -> Result:
    """Play the workload. Raises TraceError, and what `replay` raises."""
    workload = workload_file.load(Path(inputs["workload"]))
    return data_of(replay(workload, inputs["config"] or None, seed=int(inputs["seed"])))


def data_of(result: Replay) -> Result:
    """What became of a workload as plain data."""
    found: Result = {name: getattr(result, name) for name in Replay.__dataclass_fields__ if name != _NOT_KEPT}
    return dict(msgspec.to_builtins(found))


def replay_of(data: Result) -> Replay:
    """What `data_of` was made of, but for the records of pods."""
    return msgspec.convert(data, Replay)

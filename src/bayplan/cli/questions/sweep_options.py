"""The options of commands that run many independent units: how many at a time and where, which part of them, and where results are kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from bayplan.simulation.sweeps.results import Result
    from bayplan.simulation.sweeps.sweep import Function, Unit

F = TypeVar("F", bound=Callable[..., Any])


def sweep_options(what: str) -> Callable[[F], F]:
    """`--jobs`, `--on`, `--shard` and `--results`. what: the units, as in `seeds`."""

    def decorate(function: F) -> F:
        for option in (
            click.option(
                "--results",
                type=click.Path(path_type=Path, file_okay=False),
                help=f"Keep the results of {what} in this directory, and run only what is not there yet.",
            ),
            click.option("--shard", metavar="I/N", help=f"Run the I-th of N parts of the {what} only, such as 2/5."),
            click.option(
                "--on",
                "engine",
                metavar="URL",
                help="Run on the workers of dask://HOST:PORT or ray://HOST:PORT instead.",
            ),
            click.option(
                "-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes to use."
            ),
        ):
            function = option(function)
        return function

    return decorate


@dataclass(frozen=True, slots=True)
class Sweep:
    """What these options say."""

    jobs: int
    engine: str | None
    shard: str | None
    results: Path | None

    @property
    def is_plain(self) -> bool:
        """Whether all is run here, one after the other, and nothing is kept."""
        return self.jobs == 1 and self.engine is None and self.shard is None and self.results is None

    def run(self, function: Function, units: Sequence[Unit], what: str) -> list[Result]:
        """The results of the units that are in the shard, in order. Raises EngineError, ShardError, and what `sweep` raises."""
        from bayplan.simulation.sweeps.engines import Engine, open_engine
        from bayplan.simulation.sweeps.executors import executor_of
        from bayplan.simulation.sweeps.results import DirectoryResults, MemoryResults, shard_in
        from bayplan.simulation.sweeps.sweep import shard_of, sweep
        from bayplan.support.progress import Progress

        engine = open_engine(self.engine) if self.engine is not None else Engine(executor_of(self.jobs), self.jobs)
        units = shard_of(units, shard_in(self.shard) if self.shard is not None else (1, 1))
        results = DirectoryResults(self.results) if self.results is not None else MemoryResults()
        with Progress(what, len(units)) as progress:
            return list(sweep(function, units, engine.executor, results, workers=engine.workers, told=progress.tell))

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """Where files are put that units need: beside the results, or for as long as the sweep takes."""
        if self.results is not None:
            yield self.results
            return
        with tempfile.TemporaryDirectory() as directory:
            yield Path(directory)

    def check_shard(self) -> None:
        """A part of what is to be reported as a whole has to be kept. Raises UsageError."""
        if self.shard is not None and self.results is None:
            raise click.UsageError("--shard needs --results DIR: a report is made of all parts together")

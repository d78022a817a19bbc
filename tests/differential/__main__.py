"""See the package."""

from __future__ import annotations

import argparse
import asyncio
import random
import shlex
import sys
import tempfile
import time
from pathlib import Path

from tests.differential.clusters import Tree, clusters
from tests.differential.comparing import Report, compare
from tests.differential.running import running


async def run(
    program: list[str],
    decisions: int,
    seed: int,
    largest: int,
    keep: Path | None,
    directory: Path,
    configuration: Tree | None = None,
) -> Report:
    """Compare so many decisions; differences are printed as they are found."""
    report, shown, began, chance = Report(), 0, time.monotonic(), random.Random(seed)
    async with running(program, directory, configuration or {}) as site:
        for cluster in clusters(seed, largest):
            await compare(site, cluster, report, decisions - report.decisions, keep, chance)
            print(*report.differences[shown:], sep="\n", end="\n" if report.differences[shown:] else "", flush=True)
            shown = len(report.differences)
            if report.decisions >= decisions:
                break
    seconds = time.monotonic() - began
    print(
        f"{report.decisions} decisions in {seconds:.0f} s, {len(report.differences)} differ; {dict(report.outcomes.most_common())}; "
        f"{report.passing} differed only until the scheduler had heard of everything"
    )
    return report


def main() -> int:
    """See the package. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="tests.differential", description=sys.modules["tests.differential"].__doc__)
    parser.add_argument("scheduler", help="program, with its first words if there are several")
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=200, help="most nodes of a cluster")
    parser.add_argument("--keep", type=Path, help="directory for the cases that differ")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bayplan-differential-") as directory:
        words = shlex.split(given.scheduler)
        report = asyncio.run(run(words, given.decisions, given.seed, given.largest, given.keep, Path(directory)))
        if report.differences and given.keep is not None:
            (given.keep / "log").write_bytes((Path(directory) / "log").read_bytes())
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())

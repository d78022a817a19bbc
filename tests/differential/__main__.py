"""See the package."""

from __future__ import annotations

import argparse
import asyncio
import random
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bayplan.scheduler.scoring.sampling import FEWEST
from tests.differential import gangs
from tests.differential.clusters import Tree, clusters
from tests.differential.comparing import Report, compare
from tests.differential.extender import extending
from tests.differential.running import running


async def run(
    program: list[str],
    decisions: int,
    seed: int,
    largest: int,
    keep: Path | None,
    directory: Path,
    configuration: Tree | None = None,
    percentage: int = 100,
    extenders: Tree | None = None,
) -> Report:
    """Compare so many decisions; differences are printed as they are found. percentage: of the nodes that the scheduler looks at."""
    report, shown, began, chance = Report(), 0, time.monotonic(), random.Random(seed)
    # One node at a time: otherwise chance decides which nodes are looked at beyond the last one.
    sampling = {"percentageOfNodesToScore": percentage, "parallelism": 1} if percentage < 100 else {}
    async with running(program, directory, {**sampling, **(extenders or {}), **(configuration or {})}) as site:
        for cluster in clusters(seed, largest):
            if percentage < 100 and sum(kind == "Node" for kind, _ in cluster.objects) <= FEWEST:
                continue
            await compare(site, cluster, report, decisions - report.decisions, keep, chance, percentage, extenders)
            print(*report.differences[shown:], sep="\n", end="\n" if report.differences[shown:] else "", flush=True)
            shown = len(report.differences)
            if report.decisions >= decisions:
                break
    seconds = time.monotonic() - began
    print(
        f"{report.decisions} decisions in {seconds:.0f} s, {len(report.differences)} differ; {dict(report.outcomes.most_common())}; "
        f"{report.passing} differed only until the scheduler had heard of everything"
    )
    if report.places:
        print(
            f"after a decision {statistics.median(report.places):.0f} places in the turns of nodes were possible in the middle"
        )
    return report


def main() -> int:
    """See the package. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="tests.differential", description=sys.modules["tests.differential"].__doc__)
    parser.add_argument("scheduler", help="program, with its first words if there are several")
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=200, help="most nodes of a cluster")
    parser.add_argument(
        "--percentage", type=int, default=100, help="percentageOfNodesToScore: of clusters above 100 nodes"
    )
    parser.add_argument(
        "--extender", choices=("names", "nodes"), help="with an extender that gets names of nodes, or whole nodes"
    )
    parser.add_argument("--gangs", action="store_true", help="pods of gangs, which are placed as a whole or not at all")
    parser.add_argument("--keep", type=Path, help="directory for the cases that differ")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bayplan-differential-") as directory,
        extending(by_name=given.extender == "names") as extenders,
    ):
        words = shlex.split(given.scheduler)
        if given.gangs:
            found = asyncio.run(gangs.run(words, given.decisions, given.seed, given.largest, Path(directory)))
            print(f"{found.decisions} decisions, {len(found.differences)} differ; {dict(found.outcomes.most_common())}")
            return 1 if found.differences else 0
        report = asyncio.run(
            run(
                words,
                given.decisions,
                given.seed,
                given.largest,
                given.keep,
                Path(directory),
                percentage=given.percentage,
                extenders=extenders if given.extender is not None else {},
            )
        )
        if report.differences and given.keep is not None:
            (given.keep / "log").write_bytes((Path(directory) / "log").read_bytes())
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())

"""See the package."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.differential.api.comparing import TOPICS, Comparison, Report, scenarios
from tests.differential.api.servers import running, running_reference

_BAYPLAN = f"{Path(sys.executable).parent / 'bayplan'} apiserver --store memory:"


async def run(
    reference: Sequence[str],
    tested: Sequence[str],
    directory: Path,
    steps: int,
    seed: int,
    topics: tuple[str, ...],
    kinds: tuple[str, ...],
    keep: Path | None,
) -> Report:
    """Compare at least so many steps; classes of differences are printed as they are found."""
    words = [*tested, f"--kubeconfig={directory / 'kubeconfig'}"]
    async with (
        running_reference(reference, directory / "reference") as one,
        running(words, directory / "tested") as other,
    ):
        comparison = Comparison(one, other, keep)
        for wanted in scenarios(seed, topics, kinds):
            await comparison.play(wanted)
            if comparison.report.steps >= steps:
                return comparison.report
    raise AssertionError("scenarios have no end")


def main() -> int:
    """See the package. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests.differential.api", description=sys.modules["tests.differential.api"].__doc__
    )
    parser.add_argument("apiserver", help="kube-apiserver, with its first words if there are several")
    parser.add_argument(
        "--bayplan", default=_BAYPLAN, help="the server under test, with its first words (default: %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--topic", action="append", choices=TOPICS, help="only this; repeatable")
    parser.add_argument("--kind", action="append", default=[], help="only this resource, such as pods; repeatable")
    parser.add_argument(
        "--keep", type=Path, help="directory for one transcript of each class, with the answers of kube-apiserver"
    )
    given = parser.parse_args()
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where etcd need not wait for a disk
    with tempfile.TemporaryDirectory(prefix="bayplan-differential-", dir=memory) as directory:
        report = asyncio.run(
            run(
                shlex.split(given.apiserver), shlex.split(given.bayplan), Path(directory), given.steps, given.seed,
                tuple(given.topic or TOPICS), tuple(given.kind), given.keep,
            )
        )  # fmt: skip
    print(f"\n{report.shown()}, {time.monotonic() - began:.0f} s")
    return 1 if report.differing else 0


if __name__ == "__main__":
    sys.exit(main())

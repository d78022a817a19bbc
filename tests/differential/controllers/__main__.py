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

from tests.differential.controllers.comparing import Report, compare
from tests.differential.controllers.scenarios import TOPICS
from tests.differential.controllers.servers import side

_BAYPLAN = f"{Path(sys.executable).parent / 'bayplan'} controller-manager"


async def run(
    reference: Sequence[str], tested: Sequence[str], directory: Path, topics: Sequence[str], only: str = ""
) -> Report:
    """Compare all scenarios of these topics. only: part of the names of those that are wanted."""
    wanted = [scenario for topic in topics for scenario in TOPICS[topic] if only in scenario.name]
    async with (
        side("reference", reference, directory / "reference") as one,
        side("tested", tested, directory / "tested") as other,
    ):
        return await compare((one, other), wanted)


def main() -> int:
    """See the package. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests.differential.controllers", description=sys.modules["tests.differential.controllers"].__doc__
    )
    parser.add_argument("controllers", help="kube-controller-manager, with its first words if there are several")
    parser.add_argument(
        "--bayplan", default=_BAYPLAN, help="the program under test, with its first words (default: %(default)s)"
    )
    parser.add_argument("--topic", action="append", choices=TOPICS, help="only this; repeatable")
    parser.add_argument("--only", default="", help="only scenarios whose names contain this")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bayplan-controllers-") as directory:
        report = asyncio.run(
            run(
                shlex.split(given.controllers),
                shlex.split(given.bayplan),
                Path(directory),
                given.topic or tuple(TOPICS),
                given.only,
            )
        )
    print(f"\n{report.shown()}, {time.monotonic() - began:.0f} s")
    return 1 if report.differing else 0


if __name__ == "__main__":
    sys.exit(main())

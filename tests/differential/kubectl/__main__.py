"""See the package."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.differential.api.servers import running, running_reference
from tests.differential.kubectl.commands import TOPICS, commands
from tests.differential.kubectl.comparing import Desk, Report, compare

_BAYPLAN = f"{Path(sys.executable).parent / 'bayplan'} apiserver --store memory:"


async def run(
    reference: Sequence[str], tested: Sequence[str], kubectl: str, directory: Path, topics: Sequence[str]
) -> Report:
    """Compare all commands of these topics; `setup` always comes first."""
    words = [*tested, f"--kubeconfig={directory / 'kubeconfig'}"]
    async with (
        running_reference(reference, directory / "reference") as one,
        running(words, directory / "tested") as other,
    ):
        reference_desk = Desk(directory / "desks" / "reference", one.server, kubectl)
        tested_desk = Desk(directory / "desks" / "tested", other.server, kubectl)
        wanted = [(topic, line) for topic, line in commands() if topic in ("setup", *topics)]
        return await compare(reference_desk, tested_desk, wanted)


def main() -> int:
    """See the package. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests.differential.kubectl", description=sys.modules["tests.differential.kubectl"].__doc__
    )
    parser.add_argument("apiserver", help="kube-apiserver, with its first words if there are several")
    parser.add_argument("--kubectl", default=shutil.which("kubectl"), help="the client (default: %(default)s)")
    parser.add_argument(
        "--bayplan", default=_BAYPLAN, help="the server under test, with its first words (default: %(default)s)"
    )
    parser.add_argument("--topic", action="append", choices=TOPICS, help="only this; repeatable")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bayplan-kubectl-") as directory:
        report = asyncio.run(
            run(
                shlex.split(given.apiserver), shlex.split(given.bayplan), given.kubectl, Path(directory),
                given.topic or tuple(TOPICS),
            )
        )  # fmt: skip
    print(f"\n{report.shown()}, {time.monotonic() - began:.0f} s")
    return 1 if report.differing else 0


if __name__ == "__main__":
    sys.exit(main())

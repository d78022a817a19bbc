"""See the package."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.namespaces import why_not
from tests.robustness.real.faults import KINDS
from tests.robustness.real.machines import command
from tests.robustness.real.rounds import run_rounds
from tests.store.etcd.server import PROGRAM

_INSIDE = "BAYPLAN_ROBUSTNESS"
"""Names the directory in the environment of the process that has the namespaces."""
_OWN = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_PROGRAMS = ("etcdctl", "unshare", "ip", "nft", "mkfs.ext4", "fsfreeze", "mount")


def missing() -> str:
    """What this machine lacks; "" if nothing."""
    programs = [name for name in _PROGRAMS if shutil.which(name) is None] + ["etcd"] * (PROGRAM is None)
    if programs:
        return f"programs are missing: {', '.join(programs)}"
    return why_not() or ("" if Path("/dev/loop-control").exists() else "there are no loop devices")


def main() -> int:
    """See the package. Returns the exit code: 1 if something was wrong, 2 if it cannot run here."""
    parser = argparse.ArgumentParser(
        prog="tests.robustness.real", description=sys.modules["tests.robustness.real"].__doc__
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=10.0, help="of load and faults per round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds of faults (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="directory in which the logs stay if something was wrong")
    given = parser.parse_args()
    kinds = tuple(given.only.split(","))
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown kinds of faults: {', '.join(sorted(unknown))}")
    if reason := missing():
        print(reason, file=sys.stderr)
        return 2
    if _INSIDE not in os.environ:
        place = tempfile.mkdtemp(prefix="bayplan-robustness-")
        words = (*_OWN, sys.executable, "-m", "tests.robustness.real", *sys.argv[1:])
        try:
            child = subprocess.Popen(words, env={**os.environ, _INSIDE: place})
            signal.signal(signal.SIGTERM, lambda *_: child.kill())
            return child.wait()
        finally:
            os.rmdir(place)
    directory = Path(os.environ[_INSIDE])
    command("mount", "-t", "tmpfs", "bayplan", str(directory))
    total = asyncio.run(run_rounds(given.rounds, given.seconds, given.seed, kinds, directory))
    if total.problems and given.keep is not None:
        for log in directory.glob("*/log"):
            given.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(log, given.keep / f"{log.parent.name}.log")
    return 1 if total.problems else 0


if __name__ == "__main__":
    sys.exit(main())

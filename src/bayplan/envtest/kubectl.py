"""`kubectl` for envtest: the one that is installed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

MARK: Final = b"# Written by `bayplan envtest-assets`."
"""A line of the programs for envtest."""


def main() -> int:
    """The program: become the kubectl that is installed. Returns the exit code if there is none."""
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [path for each in directories if (path := shutil.which("kubectl", path=each)) and not _is_own(Path(path))]
    if found:
        os.execv(found[0], ["kubectl", *sys.argv[1:]])
    print("kubectl: not installed; Bayplan brings none: https://kubernetes.io/docs/tasks/tools/", file=sys.stderr)
    return 1


def _is_own(path: Path) -> bool:
    with path.open("rb") as stream:
        return MARK in stream.read(200)


if __name__ == "__main__":
    raise SystemExit(main())

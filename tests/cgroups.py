"""The control groups of the machine, in which other tests make and remove some at the same time."""

from __future__ import annotations

import os
import re
from pathlib import Path


def cgroups_with(pattern: str) -> list[Path]:
    """Those whose path has a match, in order of their paths. What vanishes meanwhile is left out, which `glob` stumbles over."""
    found = re.compile(pattern)
    paths = [f"{top}/{name}" for top, names, _ in os.walk("/sys/fs/cgroup") for name in names]
    return [Path(path) for path in sorted(paths) if found.search(path)]

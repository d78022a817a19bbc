"""Settings of the kernel's connection tracking, as configured."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

DIRECTORY: Final = Path("/proc/sys/net/netfilter")
HASH_SIZE: Final = Path("/sys/module/nf_conntrack/parameters/hashsize")
MAXIMUM: Final = "nf_conntrack_max"


def set_sysctls(wanted: Mapping[str, int], *, directory: Path = DIRECTORY, hash_size: Path = HASH_SIZE) -> list[str]:
    """Set what differs. Returns why something stays as it is: in a container /proc/sys is read-only, and the rest of the proxy needs none of it."""
    refused = []
    for name, value in wanted.items():
        targets = [(directory / name, value)]
        if name == MAXIMUM:
            targets.append((hash_size, value // 4))
        for path, number in targets:
            try:
                _set(path, number, at_least=path == hash_size)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
                refused.append(f"{path} cannot be set to {number}: {reason}")
    return refused


def _set(path: Path, value: int, *, at_least: bool) -> None:
    """at_least: a larger number stays."""
    now = int(path.read_text())
    if now != value and not (at_least and now > value):
        path.write_text(str(value))
        logger.info("%s was %d, is %d now", path, now, value)

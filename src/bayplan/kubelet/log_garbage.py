"""Removes logs of pods that are gone, and links to logs that are (pkg/kubelet/kuberuntime/kuberuntime_gc.go)."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path


def remove_logs(logs: Path, links: Path, keep: Collection[str]) -> None:
    """Remove the directories of all pods but those with these uids, and links below `links` that lead to nothing in `logs`."""
    for directory in logs.iterdir() if logs.is_dir() else ():
        parts = directory.name.rsplit("_", 1)
        if len(parts) == 2 and parts[1] not in keep:
            shutil.rmtree(directory, ignore_errors=True)
    for link in links.iterdir() if links.is_dir() else ():
        if link.is_symlink() and link.readlink().is_relative_to(logs) and not link.exists():
            link.unlink(missing_ok=True)

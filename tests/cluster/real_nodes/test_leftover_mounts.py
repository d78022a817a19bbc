"""Mounts of real nodes are removed, whatever they are mounted on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.csi_local.machine import needs_root

_REMOVE = """
import asyncio, sys
from pathlib import Path
from bayplan.cluster.real_nodes.leftovers import unmount_all
asyncio.run(unmount_all(Path(sys.argv[1])))
"""


@needs_root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
def test_copies_of_shared_mounts_go_with_them(tmp_path: Path) -> None:
    kubelet = tmp_path / "data" / "real-nodes" / "kubelet"
    (kubelet / "volume").mkdir(parents=True)
    script = """
set -e
mount --bind "$1/data" "$1/data"; mount --make-shared "$1/data"
mount --bind "$1/data/real-nodes/kubelet" "$1/data/real-nodes/kubelet"
mount -t tmpfs tmpfs "$1/data/real-nodes/kubelet/volume"
grep -c "$1/data/real-nodes/kubelet/volume" /proc/self/mountinfo
"$2" -c "$3" "$1/data/real-nodes"
! grep "$1/data/real-nodes" /proc/self/mountinfo
"""
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(tmp_path)]
    done = subprocess.run([*command, sys.executable, _REMOVE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")

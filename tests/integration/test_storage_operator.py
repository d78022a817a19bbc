"""The storage operator of the examples with real containers: a node is lost, its pod finds its data elsewhere, and its replica is rebuilt."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.csi_local.machine import needs_images
from tests.kubelet.runtime.real_containerd import needs_containerd

_NEEDED = ("kubectl", "unshare", "blkid", "mount")
_NAMESPACES = 'ip link set lo up && mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns && exec "$@"'


@needs_containerd
@needs_images
@pytest.mark.xdist_group("real nodes")
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="this machine has no FUSE")
@pytest.mark.skipif(any(shutil.which(one) is None for one in _NEEDED), reason=f"needs {', '.join(_NEEDED)}")
def test_volume_outlives_its_node() -> None:
    with tempfile.TemporaryDirectory(prefix="so-") as directory:  # short: sockets are in it
        command = ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", _NAMESPACES, "sh"]
        scenario = [sys.executable, "-m", "tests.integration.storage_operator_scenario", directory]
        done = subprocess.run([*command, *scenario], capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

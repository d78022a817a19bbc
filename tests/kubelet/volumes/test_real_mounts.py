"""Real mounts, each case in a mount namespace of its own: see `real_mounts`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubelet.volumes.real_mounts import CASES


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(not _may_mount(), reason="needs root, to make a mount namespace")
@pytest.mark.parametrize("case", list(CASES))
def test_with_real_mounts(tmp_path: Path, case: str) -> None:
    command = [sys.executable, "-m", "tests.kubelet.volumes.real_mounts", case, str(tmp_path)]
    done = subprocess.run(
        ["unshare", "-m", "--propagation", "private", *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(), "a mount was left"

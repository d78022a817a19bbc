"""The way out of real nodes and their hostnames, in a network namespace that stands for the machine."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubelet.runtime.real_containerd import needs_containerd

pytestmark = [needs_containerd, pytest.mark.skipif(shutil.which("nft") is None, reason="needs nftables")]


@pytest.mark.parametrize(
    ("mode", "answered", "forwards"),
    [("outbound", "True True", "1 1 2"), ("closed", "False False", "0 0 1")],
    ids=["open", "closed"],
)
def test_nodes_get_out_with_the_machines_address_if_they_may(
    tmp_path: Path, mode: str, answered: str, forwards: str
) -> None:
    command = ["unshare", "--net", sys.executable, "-m", "tests.cluster.real_nodes.outside", str(tmp_path), mode]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[3]
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line != "hi"]
    names = ["node real-1", f"machine {socket.gethostname()}"]
    during = [f"answered {answered}", *names, f"forwards {forwards}", "bridge learns 0"]
    assert said == [*during, "forwards 0 0 1", "rules none"]

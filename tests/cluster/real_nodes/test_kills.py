"""The node survives kills of kubelet and containerd: a small share of what `make node-kills` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.real_nodes.kills import run
from tests.kubelet.runtime.real_containerd import needs_containerd

pytestmark = [needs_containerd, pytest.mark.xdist_group("real nodes")]


def test_ends_of_containers_are_told_once_whatever_is_killed(tmp_path: Path) -> None:
    tally = run(tmp_path, 40, seed=7, seconds=(1.0, 3.0))
    assert len(tally.wanted) == 40
    assert tally.kills.total() >= 2

"""What `make node-kills` takes for right and for wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.api.types import core_v1, meta_v1
from tests.cluster.real_nodes.kills import Tally


def ended(code: int, reason: str) -> core_v1.Pod:
    state = core_v1.ContainerState(terminated=core_v1.ContainerStateTerminated(exit_code=code, reason=reason))
    status = core_v1.PodStatus(container_statuses=(core_v1.ContainerStatus(name="main", state=state),))
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p"), status=status)


@pytest.mark.parametrize(
    ("runs", "told", "is_right"),
    [
        (1, [(7, "Error")], True),
        (1, [(7, "Error"), (7, "Error")], True),
        (0, [(128, "StartError")], True),
        (1, [(255, "Unknown")], True),
        (1, [(137, "ContainerStatusUnknown"), (7, "Error")], True),
        (0, [(1, "Error")], True),
        (1, [], False),
        (1, [(8, "Error")], False),
        (2, [(7, "Error")], False),
        (1, [(7, "Error"), (255, "Unknown")], False),
        (1, [(7, "Error"), (8, "Error")], False),
        (0, [(7, "Error")], False),
    ],
)
def test_ends_are_told_once_and_right(tmp_path: Path, runs: int, told: list[tuple[int, str]], is_right: bool) -> None:
    tally = Tally({"p": 7})
    for code, reason in told:
        tally.see("MODIFIED", ended(code, reason))
    if runs:
        (tmp_path / "p").write_text("run\n" * runs)
    assert (tally.problems(tmp_path) == []) is is_right

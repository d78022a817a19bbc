"""Decisions of kube-scheduler 1.36.2, replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.testing.golden import cases, differences
from tests.scheduler.kernels.loaded import use

FILES = sorted((Path(__file__).parent.parent / "golden" / "scheduler").glob("*.jsonl.gz"))


def test_there_is_a_file_for_every_topic() -> None:
    assert len(FILES) == 13


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_decides_as_kube_scheduler_does(path: Path) -> None:
    wrong = {case["id"]: differences(case)[:5] for case in cases(path) if differences(case)}
    assert wrong == {}


@pytest.mark.xdist_group("compiled")
def test_compiled_loops_decide_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "compiled")
    for path in FILES:
        if path.name.startswith(("mixed", "resources")):
            assert {case["id"]: wrong for case in cases(path) if (wrong := differences(case))} == {}


def test_a_wrong_decision_is_noticed() -> None:
    case = next(cases(FILES[-1]))
    expect = dict(case["expect"])
    expect["preEnqueue"] = {"code": "Unschedulable", "plugin": "SchedulingGates", "reasons": ["waiting"]}
    assert differences({**case, "expect": expect})

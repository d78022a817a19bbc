"""Connection tracking of the kernel is set as configured, where that is possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.proxy.system import machine
from bayplan.proxy.system.sysctls import set_sysctls
from tests.proxy.test_configuration import configured


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, value in (("nf_conntrack_max", 100), ("nf_conntrack_udp_timeout", 30), ("hashsize", 1000)):
        (tmp_path / name).write_text(f"{value}\n")
    return tmp_path


def test_what_differs_is_set(files: Path) -> None:
    wanted = {"nf_conntrack_max": 8000, "nf_conntrack_udp_timeout": 30}
    before = (files / "nf_conntrack_udp_timeout").stat().st_mtime_ns
    assert set_sysctls(wanted, directory=files, hash_size=files / "hashsize") == []
    assert (files / "nf_conntrack_max").read_text() == "8000"
    assert (files / "hashsize").read_text() == "2000"
    assert (files / "nf_conntrack_udp_timeout").stat().st_mtime_ns == before


def test_the_table_of_connections_is_never_made_smaller(files: Path) -> None:
    assert set_sysctls({"nf_conntrack_max": 50}, directory=files, hash_size=files / "hashsize") == []
    assert (files / "nf_conntrack_max").read_text() == "50"
    assert (files / "hashsize").read_text() == "1000\n"


def test_what_cannot_be_set_is_told_and_the_rest_is_set(files: Path) -> None:
    (files / "nf_conntrack_max").unlink()
    (files / "nf_conntrack_max").mkdir()
    (files / "hashsize").write_text("nonsense")
    wanted = {"nf_conntrack_max": 8000, "nf_conntrack_udp_timeout": 31}
    first, second = set_sysctls(wanted, directory=files, hash_size=files / "hashsize")
    assert first == f"{files}/nf_conntrack_max cannot be set to 8000: Is a directory"
    assert second.startswith(f"{files}/hashsize cannot be set to 2000: invalid literal")
    assert (files / "nf_conntrack_udp_timeout").read_text() == "31"


@pytest.mark.parametrize(("adjustment", "expected"), [(-5, "-5"), (0, "0")])
def test_the_process_gets_its_oom_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adjustment: int, expected: str
) -> None:
    score = tmp_path / "score"
    monkeypatch.setattr(machine, "OOM_SCORE", score)
    monkeypatch.setattr(machine, "set_sysctls", lambda _: ["refused"])
    machine.prepare_machine(configured(oomScoreAdj=adjustment))
    assert score.read_text() == expected
    monkeypatch.setattr(machine, "OOM_SCORE", tmp_path)
    machine.prepare_machine(configured())

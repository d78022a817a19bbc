"""A group gets a volume, and nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bayplan.kubelet.volumes.ownership import ON_ROOT_MISMATCH, set_ownership

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
GROUP = 4321


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    top = tmp_path / "volume"
    (top / "sub").mkdir(parents=True)
    top.chmod(0o700)
    (top / "sub").chmod(0o755)
    for name, bits in (("file", 0o600), ("sub/run", 0o755)):
        (top / name).touch()
        (top / name).chmod(bits)
    (tmp_path / "outside").touch()
    (tmp_path / "outside").chmod(0o600)
    (top / "link").symlink_to("../outside")
    (top / "sub" / "up").symlink_to("../..")
    return top


def test_everything_in_a_volume_is_the_groups(volume: Path) -> None:
    assert set_ownership(volume, GROUP, read_only=False)
    for name in ("", "sub", "file", "sub/run", "link", "sub/up"):
        assert os.lstat(volume / name).st_gid == GROUP, name
    assert [oct(mode(volume / name)) for name in ("", "sub", "file", "sub/run")] == [
        "0o2770",
        "0o2775",
        "0o660",
        "0o775",
    ]


def test_volumes_that_are_only_read_stay_so(volume: Path) -> None:
    assert set_ownership(volume, GROUP, read_only=True)
    assert [oct(mode(volume / name)) for name in ("", "file")] == ["0o2750", "0o640"]


def test_links_are_not_followed(volume: Path) -> None:
    set_ownership(volume, GROUP, read_only=False)
    outside = volume.parent / "outside"
    assert (outside.stat().st_gid, mode(outside)) == (os.getegid(), 0o600)
    assert volume.parent.stat().st_gid != GROUP


def test_without_a_group_nothing_changes(volume: Path) -> None:
    assert not set_ownership(volume, None, read_only=False)
    assert mode(volume) == 0o700


@pytest.mark.parametrize(
    ("group", "bits", "changed"),
    [
        (GROUP, 0o2770, False),
        (GROUP, 0o2775, False),
        (GROUP, 0o770, True),
        (GROUP, 0o2750, True),
        (1, 0o2770, True),
    ],
    ids=["right", "more than right", "no setgid", "not writable", "another group"],
)
def test_a_volume_whose_top_is_right_may_be_left_alone(volume: Path, group: int, bits: int, changed: bool) -> None:
    os.chown(volume, -1, group)
    volume.chmod(bits)
    assert set_ownership(volume, GROUP, read_only=False, policy=ON_ROOT_MISMATCH) == changed
    assert (mode(volume / "file") == 0o660) == changed
    assert set_ownership(volume, GROUP, read_only=False, policy="Always")
    assert mode(volume / "file") == 0o660


def test_a_file_that_refuses_does_not_keep_the_others_from_being_changed(
    volume: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.chmod

    def refuse(path: str, bits: int) -> None:
        if os.readlink(path).endswith("/file"):
            raise PermissionError(1, "Operation not permitted")
        real(path, bits)

    monkeypatch.setattr(os, "chmod", refuse)
    set_ownership(volume, GROUP, read_only=False)
    assert mode(volume / "sub" / "run") == 0o775
    assert "Operation not permitted" in caplog.text

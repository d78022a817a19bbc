"""Files that only their owner may use, under every umask and beside symbolic links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bayplan.support.system.private_files import (
    create_private,
    make_contents_private,
    make_file_private,
    make_private_directory,
    open_private,
    replacing,
    temporary_private_file,
    write_private,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777, 0o277])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_no_umask_changes_the_mode(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    make_private_directory(directory)
    assert create_private(directory / "created")
    os.close(open_private(directory / "opened", os.O_RDWR))
    write_private(directory / "written", b"1")
    with temporary_private_file(b"secret") as file:
        assert (file.read_bytes(), mode(file)) == (b"secret", 0o600)
    assert not file.exists()
    assert {mode(directory), mode(directory.parent)} == {0o700}
    assert {one.name: mode(one) for one in directory.iterdir()} == dict.fromkeys(
        ("created", "opened", "written"), 0o600
    )


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_private(file, b"old")

    def fail() -> None:
        with replacing(file) as unfinished:
            unfinished.write_bytes(b"new")
            assert mode(unfinished) == 0o600
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_links_are_replaced_or_refused_and_never_followed(tmp_path: Path) -> None:
    outside, link = tmp_path / "outside", tmp_path / "link"
    outside.write_bytes(b"mine")
    outside.chmod(0o644)
    link.symlink_to(outside)
    assert not create_private(link)
    with pytest.raises(OSError, match="symbolic links"):
        open_private(link, os.O_RDWR)
    with pytest.raises(OSError, match="symbolic links"):
        make_file_private(link)
    write_private(link, b"new")
    assert not link.is_symlink()
    assert (outside.read_bytes(), mode(outside)) == (b"mine", 0o644)


def test_an_open_directory_is_corrected_without_following_links(tmp_path: Path) -> None:
    directory, outside = tmp_path / "data", tmp_path / "outside"
    (directory / "pki").mkdir(parents=True)
    for name in ("store.db", "pki/ca.key", "notes"):
        (directory / name).write_text(name)
        (directory / name).chmod(0o644)
    outside.write_text("")
    outside.chmod(0o644)
    (directory / "link").symlink_to(outside)
    directory.chmod(0o755)
    (directory / "pki").chmod(0o755)
    changed = make_contents_private(directory, lambda name: name in ("store.db", "pki"))
    assert [Path(one).name for one in changed] == ["data", "notes", "pki", "ca.key", "store.db"]
    assert {mode(one) for one in (directory, directory / "pki")} == {0o700}
    assert {mode(directory / name) for name in ("store.db", "pki/ca.key", "notes")} == {0o600}
    assert mode(outside) == 0o644
    assert make_contents_private(directory, lambda name: name in ("store.db", "pki")) == []


def test_a_directory_of_other_things_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "projects").mkdir()
    for name in ("store.db", "letter"):
        (tmp_path / "home" / name).write_text("")
        (tmp_path / "home" / name).chmod(0o644)
    (tmp_path / "home").chmod(0o755)
    make_contents_private(tmp_path / "home", lambda name: name == "store.db")
    assert mode(tmp_path / "home") == 0o755
    assert mode(tmp_path / "home" / "letter") == 0o644
    assert mode(tmp_path / "home" / "store.db") == 0o600


def test_subdirectories_that_are_left_alone_keep_their_modes(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir(mode=0o755)
    for file in (tmp_path / "left" / "image", tmp_path / "store.db", tmp_path / "notes"):
        file.write_text("")
        file.chmod(0o644)
    tmp_path.chmod(0o755)
    make_contents_private(tmp_path, lambda name: name in ("store.db", "left"), lambda name: name == "left")
    assert [mode(tmp_path / name) for name in ("left", "left/image", "store.db", "notes", ".")] == [
        0o755,
        0o644,
        0o600,
        0o600,
        0o700,
    ]


def test_a_shared_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    assert make_contents_private(tmp_path, lambda _: True) == []
    assert mode(tmp_path) == 0o1777


@pytest.mark.parametrize(("durable", "synced"), [(True, 2), (False, 0)])
def test_a_file_waits_for_the_disk_unless_it_may_be_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, synced: int
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(os, "fsync", calls.append)
    write_private(tmp_path / "file", b"1", durable=durable)
    assert (tmp_path / "file").read_bytes() == b"1"
    assert len(calls) == synced

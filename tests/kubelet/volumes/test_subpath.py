"""A subPath never leads out of its volume, with the kernel's help and without."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.kubelet.volumes import subpath
from bayplan.kubelet.volumes.errors import SubPathError
from bayplan.kubelet.volumes.subpath import SubPath, check_sub_path, make_part, open_part, prepare_sub_path
from bayplan.support.blocking import at_once
from bayplan.support.virtual_time import run
from bayplan.testing.mounts import RememberedMounts


@pytest.fixture(params=["openat2", "step by step"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open a path."""
    if request.param == "openat2" and not subpath._has_openat2():
        pytest.skip("this kernel has no openat2")
    monkeypatch.setattr(subpath, "_has_openat2", lambda: request.param == "openat2")


def opened(volume: Path, path: str) -> Path:
    """Where a path of a volume leads to."""
    descriptor = open_part(str(volume), path)
    try:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    finally:
        os.close(descriptor)


def made(volume: Path, path: str) -> None:
    os.close(make_part(str(volume), path))


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A volume with links of all kinds; the node's own directory beside it."""
    (tmp_path / "node" / "etc").mkdir(parents=True)
    top = tmp_path / "volume"
    (top / "dir" / "deep").mkdir(parents=True)
    (top / "inside").symlink_to("dir/deep")
    (top / "dir" / "up").symlink_to("../dir")
    (top / "outside").symlink_to("../node")
    (top / "absolute").symlink_to("/etc")
    (top / "dir" / "chain").symlink_to("../outside")
    (top / "dangling").symlink_to("nothing")
    (top / "loop").symlink_to("loop")
    return top


@pytest.mark.parametrize(
    ("path", "place"),
    [("dir", "dir"), ("inside", "dir/deep"), ("dir/up/deep", "dir/deep"), (".", ""), ("dir//deep/.", "dir/deep")],
)
def test_paths_within_a_volume_are_opened(volume: Path, path: str, place: str) -> None:
    assert opened(volume, path) == volume / place


@pytest.mark.parametrize("path", ["outside", "outside/etc", "absolute", "dir/chain", "dir/chain/etc", "loop"])
def test_links_out_of_a_volume_are_not_followed(volume: Path, path: str) -> None:
    with pytest.raises(OSError, match=r"Invalid cross-device link|Too many levels"):
        opened(volume, path)


@pytest.mark.parametrize("path", ["outside/new", "dir/chain/new", "dangling", "absolute/bayplan-new"])
def test_nothing_is_made_behind_links(volume: Path, path: str) -> None:
    with pytest.raises(OSError, match=r"cross-device|File exists|Too many levels"):
        made(volume, path)
    assert [each.name for each in (volume.parent / "node").iterdir()] == ["etc"]
    assert not (volume / "nothing").exists()


def test_directories_are_made_with_the_mode_of_the_volume(volume: Path) -> None:
    volume.chmod(0o2775)
    before = os.umask(0o077)
    try:
        made(volume, "inside/a/b")
    finally:
        os.umask(before)
    assert oct((volume / "dir" / "deep" / "a" / "b").stat().st_mode & 0o7777) == "0o2775"
    assert oct((volume / "dir" / "deep" / "a").stat().st_mode & 0o7777) == "0o2775"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/etc", "error SubPath `/etc` must not be an absolute path"),
        ("a/../../b", "unable to provision SubPath `a/../../b`: must not contain '..'"),
    ],
)
def test_paths_that_lead_up_are_refused_as_they_stand(path: str, message: str) -> None:
    with pytest.raises(SubPathError) as error:
        check_sub_path(path)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("outside", 'failed to prepare subPath for volumeMount "m" of container "main"'),
        ("dangling", 'failed to create subPath directory for volumeMount "m" of container "main"'),
    ],
)
def test_errors_do_not_show_the_node(volume: Path, path: str, message: str) -> None:
    wanted = SubPath(volume.parent / "pod", "v", str(volume), path, "m", "main", 0)
    mounts = RememberedMounts()
    with pytest.raises(SubPathError) as error:
        run(prepare_sub_path(mounts, at_once, wanted))
    assert str(error.value) == message
    assert mounts.mounted == []


_NAMES = ["a", "b", "c"]
_PARTS = st.sampled_from([*_NAMES, "..", "."])
_PATHS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3).map("/".join)
_TARGETS = st.one_of(st.lists(_PARTS, min_size=1, max_size=4).map("/".join), st.just("/"), st.just("/etc"))


@given(st.lists(st.tuples(_PATHS, _TARGETS | st.none()), max_size=6), _PATHS, st.booleans())
def test_whatever_links_there_are_what_is_opened_or_made_is_in_the_volume(
    entries: list[tuple[str, str | None]], path: str, makes: bool
) -> None:
    with TemporaryDirectory() as outer:
        top = Path(outer).resolve() / "x" / "volume"
        top.mkdir(parents=True)
        (top.parent / "a").mkdir()
        (Path(outer) / "a").mkdir()
        for place, target in entries:
            spot = top / place
            try:
                spot.parent.resolve().relative_to(top)
                spot.parent.mkdir(parents=True, exist_ok=True)
                spot.mkdir() if target is None else spot.symlink_to(target)
            except (OSError, ValueError, RuntimeError):
                continue
        before = {each for each in Path(outer).rglob("*") if not each.is_relative_to(top)}
        try:
            descriptor = make_part(str(top), path) if makes else open_part(str(top), path)
        except OSError:
            pass
        else:
            place_found = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            os.close(descriptor)
            assert place_found.is_relative_to(top), f"{path} led to {place_found}"
        assert {each for each in Path(outer).rglob("*") if not each.is_relative_to(top)} == before

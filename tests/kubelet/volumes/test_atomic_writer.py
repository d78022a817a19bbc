"""Files of a volume change all at once, and only when they have changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.kubelet.volumes.atomic_writer import FileProjection, write_payload
from bayplan.kubelet.volumes.errors import SetUpError
from tests.kubelet.volumes.node import shown

Texts = dict[str, str]


def payload(files: Texts, mode: int = 0o644) -> dict[str, FileProjection]:
    return {path: FileProjection(text.encode(), mode) for path, text in files.items()}


def test_files_are_links_into_a_directory_that_one_link_names(tmp_path: Path) -> None:
    assert write_payload(tmp_path, payload({"a": "1", "d/b": "2"}), "..v1")
    assert os.readlink(tmp_path / "..data") == "..v1"
    assert os.readlink(tmp_path / "a") == "..data/a"
    assert os.readlink(tmp_path / "d") == "..data/d"
    assert (tmp_path / "d" / "b").read_text() == "2"
    assert stat.S_IMODE((tmp_path / "..v1").stat().st_mode) == 0o755


def test_modes_hold_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_payload(tmp_path, {"a": FileProjection(b"", 0o646), "b": FileProjection(b"", 0o400)}, "..v1")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"] == [0o646, 0o400]


def test_files_that_have_not_changed_stay_the_same_files(tmp_path: Path) -> None:
    write_payload(tmp_path, payload({"a": "1"}), "..v1")
    inode = (tmp_path / "a").stat().st_ino
    assert not write_payload(tmp_path, payload({"a": "1"}), "..v2")
    assert (tmp_path / "a").stat().st_ino == inode
    assert not (tmp_path / "..v2").exists()


@pytest.mark.parametrize(
    "after", [{"a": "2"}, {"a": "1", "b": "2"}, {"b": "1"}, {"a/b": "1"}, {}], ids=lambda each: f"to {each}"
)
def test_a_change_leaves_nothing_of_what_was_before(tmp_path: Path, after: Texts) -> None:
    write_payload(tmp_path, payload({"a": "1"}), "..v1")
    assert write_payload(tmp_path, payload(after), "..v2")
    assert shown(tmp_path) == after
    assert not (tmp_path / "..v1").exists()


def test_who_reads_through_the_data_link_sees_old_or_new_but_no_mixture(tmp_path: Path) -> None:
    write_payload(tmp_path, payload({"a": "1", "b": "1"}), "..v1")
    opened = os.open(tmp_path / "..data", os.O_RDONLY | os.O_DIRECTORY)
    seen = []

    def look(version: Path) -> None:
        seen.append(shown(tmp_path))

    write_payload(tmp_path, payload({"a": "2", "b": "2"}), "..v2", look)
    os.close(opened)
    assert seen == [{"a": "1", "b": "1"}], "the new files were seen before all of them were there"
    assert shown(tmp_path) == {"a": "2", "b": "2"}


def test_what_a_killed_kubelet_left_is_removed(tmp_path: Path) -> None:
    write_payload(tmp_path, payload({"a": "1"}), "..v1")
    (tmp_path / "..half").mkdir()
    (tmp_path / "..half" / "a").write_text("half")
    (tmp_path / "..data_tmp").symlink_to("..half")
    write_payload(tmp_path, payload({"a": "2"}), "..v2")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["..data", "..v2", "a"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_payload(tmp_path, payload({"a": "1"}), "..v1")

    def fail(_: Path) -> None:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        write_payload(tmp_path, payload({"a": "2"}), "..v2", fail)
    assert shown(tmp_path) == {"a": "1"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["..data", "..v1", "a"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", 'invalid path: must not be empty: ""'),
        ("/a", "invalid path: must be relative path: /a"),
        ("a/../b", "invalid path: must not contain '..': a/../b"),
        ("..", "invalid path: must not contain '..': .."),
        ("..a", "invalid path: must not start with '..': ..a"),
        ("./..data", "invalid path: must not start with '..': ..data"),
        ("x" * 256, "invalid path: filenames must be less than or equal to 255 characters"),
        ("x/" * 2049, "invalid path: must be less than or equal to 4096 characters"),
    ],
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(SetUpError) as error:
        write_payload(tmp_path, payload({path: "1"}), "..v1")
    assert str(error.value) == message
    assert list(tmp_path.iterdir()) == []


_NAME = st.sampled_from(["a", "b", "c.d", "..e", ".", "..", "", "f" * 300])
_PATH = st.lists(_NAME, min_size=1, max_size=3).map("/".join)
_FILES = st.dictionaries(_PATH, st.sampled_from(["1", "2", "3"]), max_size=4)


@given(st.lists(_FILES, min_size=1, max_size=4))
def test_after_any_changes_exactly_the_last_files_are_there_or_an_error_was_raised(versions: list[Texts]) -> None:
    with TemporaryDirectory() as outer:
        top = Path(outer) / "volume"
        top.mkdir()
        expected: Texts = {}
        for number, files in enumerate(versions):
            try:
                write_payload(top, payload(files), f"..v{number}")
            except (SetUpError, OSError):
                continue
            expected = {os.path.normpath(path): text for path, text in files.items()}
            found = shown(top)
            assert found.keys() == expected.keys()
            assert set(found.values()) <= set(files.values())
        assert [each.name for each in Path(outer).iterdir()] == ["volume"], "something was written outside"
        assert sum(each.is_dir() and not each.is_symlink() for each in top.iterdir()) <= 1

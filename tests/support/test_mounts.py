"""What mountinfo says."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.support.system.mounts import MountPoint, mount_at, mount_info_below, mounts_below, parse_mount_info

TEXT = r"""36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 35 0:21 / /a\040b\134c rw shared:7 propagate_from:2 - tmpfs tmpfs rw,size=4k
38 35 0:22 / /mnt2/deep rw - nfs4 server:/x rw
39 35 0:23 / /mnt2 ro - tmpfs over rw
40 35 0:24 / /mnt22 rw - tmpfs beside rw
nonsense
"""


def test_a_line_is_read_as_proc_5_says() -> None:
    first, second, *_ = parse_mount_info(TEXT)
    options = ("rw", "noatime", "rw", "errors=continue")
    assert first == MountPoint("/mnt2", "/dev/root", "ext3", "/mnt1", options, "98:0")
    assert (second.path, second.type, second.options) == ("/a b\\c", "tmpfs", ("rw", "rw", "size=4k"))
    assert len(parse_mount_info(TEXT)) == 5


def test_the_last_mount_at_a_path_is_the_one_that_is_seen() -> None:
    found = mount_at(parse_mount_info(TEXT), Path("/mnt2"))
    assert found is not None
    assert found.source == "over"
    assert mount_at(parse_mount_info(TEXT), Path("/mnt")) is None


def test_mounts_are_undone_in_the_order_opposite_to_that_in_which_they_were_made() -> None:
    below = mounts_below(parse_mount_info(TEXT), Path("/mnt2"))
    assert [each.source for each in below] == ["over", "server:/x", "/dev/root"]


@pytest.mark.parametrize("path", ["/mnt2", "/mnt", "/a b\\c", "/mnt2/deep", "/mnt1", "/elsewhere"])
def test_mounts_below_a_directory_are_found_without_reading_all_others(path: str) -> None:
    every = [each for each in parse_mount_info(TEXT) if each.path == path or each.path.startswith(f"{path}/")]
    assert mount_info_below(TEXT, Path(path)) == every
    assert len(every) == {"/mnt2": 3, "/a b\\c": 1, "/mnt2/deep": 1}.get(path, 0)

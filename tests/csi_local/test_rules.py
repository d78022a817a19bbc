"""What the local driver does with requests, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument
from bayplan.csi_local import rules
from bayplan.csi_local.records import DIRECTORY, IMAGE, VolumeRecord
from bayplan.csi_local.settings import TOPOLOGY_KEY

MI, GI = 1 << 20, 1 << 30


def mount(mode: int = csi.Access.SINGLE_NODE_WRITER, **fields: Any) -> csi.VolumeCapability:
    return csi.VolumeCapability(mount=csi.MountVolume(**fields), access_mode=csi.AccessMode(mode))


BLOCK = csi.VolumeCapability(block=csi.Empty(), access_mode=csi.AccessMode(csi.Access.SINGLE_NODE_WRITER))


@pytest.mark.parametrize(
    ("capability", "kind", "problem"),
    [
        pytest.param(mount(), DIRECTORY, "", id="a file system in a directory"),
        pytest.param(mount(), IMAGE, "", id="a file system in an image"),
        pytest.param(mount(fs_type="xfs"), IMAGE, "", id="xfs"),
        pytest.param(mount(fs_type="xfs"), DIRECTORY, "", id="a directory has the file system that it has"),
        pytest.param(BLOCK, IMAGE, "", id="a block device"),
        pytest.param(mount(csi.Access.SINGLE_NODE_SINGLE_WRITER), IMAGE, "", id="one pod"),
        pytest.param(BLOCK, DIRECTORY, "a directory is no block device", id="no block device in a directory"),
        pytest.param(mount(fs_type="btrfs"), IMAGE, "file system 'btrfs' is not supported", id="btrfs"),
        pytest.param(mount(mount_flags=("noatime",)), IMAGE, "", id="mount options of an image"),
        pytest.param(mount(mount_flags=("noatime",)), DIRECTORY, "takes no mount options", id="of a directory"),
        pytest.param(
            mount(csi.Access.MULTI_NODE_MULTI_WRITER), IMAGE, "MULTI_NODE_MULTI_WRITER is not", id="many nodes"
        ),
        pytest.param(mount(0), IMAGE, "access mode 0 is not supported", id="no mode"),
        pytest.param(mount(99), IMAGE, "access mode 99 is not supported", id="an unknown mode"),
        pytest.param(csi.VolumeCapability(), IMAGE, "no access type", id="no type"),
        pytest.param(None, IMAGE, "volume_capability is missing", id="none"),
    ],
)
def test_capabilities(capability: csi.VolumeCapability | None, kind: str, problem: str) -> None:
    found = rules.unsupported(capability, kind)
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("required", "limit", "kind", "at_least", "size"),
    [
        pytest.param(0, 0, IMAGE, 0, GI, id="a gibibyte if nobody says"),
        pytest.param(0, 5 * MI, IMAGE, 0, 5 * MI, id="not above the limit"),
        pytest.param(1, 0, IMAGE, 0, MI, id="images are rounded up"),
        pytest.param(MI + 1, 0, IMAGE, 0, 2 * MI, id="to whole mebibytes"),
        pytest.param(1, 0, DIRECTORY, 0, 1, id="directories are not"),
        pytest.param(0, 0, IMAGE, 3 * GI, 3 * GI, id="as large as the source"),
        pytest.param(4 * MI, 4 * MI, IMAGE, 4 * MI, 4 * MI, id="exactly"),
    ],
)
def test_sizes(required: int, limit: int, kind: str, at_least: int, size: int) -> None:
    assert rules.size_for(csi.CapacityRange(required, limit), kind, at_least=at_least) == size


@pytest.mark.parametrize(
    ("required", "limit", "at_least", "code"),
    [
        pytest.param(2 * MI, MI, 0, "INVALID_ARGUMENT", id="limit below what is required"),
        pytest.param(-1, 0, 0, "INVALID_ARGUMENT", id="negative"),
        pytest.param(1, 2, 0, "OUT_OF_RANGE", id="no whole mebibyte fits"),
        pytest.param(MI, 0, 2 * MI, "OUT_OF_RANGE", id="smaller than the source"),
        pytest.param(0, MI, 2 * MI, "OUT_OF_RANGE", id="limit below the source"),
    ],
)
def test_sizes_that_cannot_be(required: int, limit: int, at_least: int, code: str) -> None:
    with pytest.raises(DriverError) as caught:
        rules.size_for(csi.CapacityRange(required, limit), IMAGE, at_least=at_least)
    assert caught.value.code == code


def test_xfs_needs_300_mebibytes() -> None:
    assert rules.size_for(csi.CapacityRange(MI), IMAGE, file_systems=("xfs", "ext4")) == 300 * MI
    assert rules.size_for(csi.CapacityRange(MI), DIRECTORY, file_systems=("xfs",)) == MI


KNOWN = VolumeRecord(id="pvc-1", kind=IMAGE, size=5 * MI, source="snapshot/s")
SOURCE = csi.VolumeContentSource(snapshot=csi.SnapshotSource("s"))


@pytest.mark.parametrize(
    ("wanted", "kind", "source", "problem"),
    [
        pytest.param(csi.CapacityRange(5 * MI), IMAGE, SOURCE, "", id="the same"),
        pytest.param(csi.CapacityRange(4 * MI), IMAGE, SOURCE, "", id="smaller, as after rounding"),
        pytest.param(csi.CapacityRange(4 * MI, 5 * MI), IMAGE, SOURCE, "", id="within the limit"),
        pytest.param(None, IMAGE, SOURCE, "", id="any size"),
        pytest.param(csi.CapacityRange(6 * MI), IMAGE, SOURCE, "exists with 5242880 bytes", id="larger"),
        pytest.param(csi.CapacityRange(1, 4 * MI), IMAGE, SOURCE, "exists with 5242880 bytes", id="above the limit"),
        pytest.param(None, DIRECTORY, SOURCE, "exists as image", id="another type"),
        pytest.param(None, IMAGE, None, "another content source", id="no source"),
        pytest.param(
            None, IMAGE, csi.VolumeContentSource(volume=csi.VolumeSource("s")), "another content source", id="a volume"
        ),
    ],
)
def test_a_volume_of_the_same_name(
    wanted: csi.CapacityRange | None, kind: str, source: csi.VolumeContentSource | None, problem: str
) -> None:
    found = rules.conflict(KNOWN, csi.CreateVolumeRequest("pvc-1", wanted, volume_content_source=source), kind)
    assert problem in found
    assert bool(found) == bool(problem)


def test_names_become_ids_that_are_file_names() -> None:
    assert rules.id_of("pvc-123_a.b") == "pvc-123_a.b"
    for name in ("../etc", ".hidden", "a/b", "x" * 101, "ü"):
        made = rules.id_of(name)
        assert made.startswith("sha256-")
        assert len(made) == 71
    assert rules.id_of("a/b") != rules.id_of("a/c")
    with pytest.raises(InvalidArgument, match="name is missing"):
        rules.id_of("")


def test_parameters_that_nobody_knows_are_refused() -> None:
    assert rules.type_of({}) == DIRECTORY
    assert rules.type_of({"type": "image", "csi.storage.k8s.io/pvc/name": "data"}) == IMAGE
    with pytest.raises(InvalidArgument, match="'compression' is not known"):
        rules.type_of({"compression": "lz4"})
    with pytest.raises(InvalidArgument, match="neither directory nor image"):
        rules.type_of({"type": "tape"})


@pytest.mark.parametrize(
    ("text", "size"), [("", GI), ("7", 7), ("64Mi", 64 * MI), ("2Gi", 2 * GI), ("1Ki", 1024), ("1Ti", 1 << 40)]
)
def test_sizes_of_inline_volumes(text: str, size: int) -> None:
    assert rules.ephemeral_size({"size": text}) == size


@pytest.mark.parametrize("text", ["0", "-1", "5MB", "5 Mi", "Mi", "1.5Gi", "٣"])
def test_sizes_of_inline_volumes_that_are_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no size such as 64Mi"):
        rules.ephemeral_size({"size": text})


def test_a_volume_is_made_only_where_it_is_usable() -> None:
    def topology(*nodes: str) -> csi.TopologyRequirement:
        return csi.TopologyRequirement(tuple(csi.Topology({TOPOLOGY_KEY: one}) for one in nodes))

    assert rules.is_here(None, "n1")
    assert rules.is_here(topology(), "n1")
    assert rules.is_here(topology("n2", "n1"), "n1")
    assert not rules.is_here(topology("n2"), "n1")


def test_pages_follow_each_other() -> None:
    assert rules.page("dbca", "", 2) == (["a", "b"], "b")
    assert rules.page("dbca", "b", 2) == (["c", "d"], "")
    assert rules.page("dbca", "b", 1) == (["c"], "c")
    assert rules.page("dbca", "", 0) == (["a", "b", "c", "d"], "")
    with pytest.raises(InvalidArgument):
        rules.page("a", "", -1)

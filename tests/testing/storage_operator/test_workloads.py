"""What the storage operator creates, what it finds on nodes, and which claims it serves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.csi import messages as csi
from bayplan.csi.errors import DriverError, InvalidArgument
from examples.operators.storage import discover, objects, provisioning, workloads
from examples.operators.storage.rules import Disk, Replica

OPERATOR = yaml.safe_load_all(Path(objects.__file__).with_name("operator.yaml").read_text())
POD: dict[str, Any] = {"spec": list(OPERATOR)[-1]["spec"]["template"]["spec"]}
SPEC = {"replicas": 3, "minInSync": 2, "lostAfterSeconds": 20, "kubeletDirectory": "/var/lib/kubelet"}
AGENT = f"/apis/apps/v1/namespaces/{objects.NAMESPACE}/daemonsets/storage-agent"


def desired(**spec: Any) -> dict[str, dict[str, Any]]:
    return workloads.desired({"metadata": {"name": "storage", "uid": "1"}, "spec": {**SPEC, **spec}}, POD)


def test_class_has_the_numbers_of_the_cluster() -> None:
    found = desired()["/apis/storage.k8s.io/v1/storageclasses/replicated"]
    assert found["parameters"] == {"replicas": "3", "minInSync": "2"}
    assert found["metadata"]["ownerReferences"][0]["kind"] == "StorageCluster"


def test_agents_run_what_the_operator_runs_and_share_their_mounts_with_the_kubelet() -> None:
    pod = desired(disks={"directory": "/disks/$(NODE_NAME)"}, kubeletDirectory="/data/$(NODE_NAME)/kubelet")[AGENT]
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "bayplan.examples.operators.storage.agent"]
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["KUBELET_DIRECTORY"] == "/data/$(NODE_NAME)/kubelet"
    assert environment["LOST_AFTER_SECONDS"] == "20"
    names = [one["name"] for one in container["env"]]
    assert names.index("NODE_NAME") < names.index("KUBELET_DIRECTORY"), "or else it is not replaced"
    mounts = {one["mountPath"]: one.get("mountPropagation") for one in container["volumeMounts"]}
    assert mounts == {"/dev": None, "/disks": None, "/data": "Bidirectional"}
    assert container["securityContext"] == {"privileged": True}


@pytest.mark.parametrize(
    ("directory", "part"),
    [("/a/b", "/a/b"), ("/a/$(NODE_NAME)/b", "/a"), ("/a/x-$(NODE_NAME)", "/a"), ("/$(NODE_NAME)", "/")],
)
def test_part_of_a_directory_that_all_nodes_have(directory: str, part: str) -> None:
    assert workloads.same_everywhere(directory) == part


def block_device(
    sys_block: Path, name: str, *, size: str = "2048", partition: bool = False, holder: bool = False
) -> None:
    device = sys_block / name
    (device / "holders").mkdir(parents=True)
    (device / "size").write_text(f"{size}\n")
    if partition:
        (device / f"{name}1").mkdir()
        (device / f"{name}1" / "partition").write_text("1\n")
    if holder:
        (device / "holders" / "dm-0").mkdir()


def test_disks_are_whole_devices_on_which_nothing_is_built(tmp_path: Path) -> None:
    block_device(tmp_path, "sda", partition=True)
    block_device(tmp_path, "sdb")
    block_device(tmp_path, "sdc", holder=True)
    block_device(tmp_path, "sdd", size="0")
    block_device(tmp_path, "loop0")
    block_device(tmp_path, "nvme0n1")
    assert discover.candidates(None, tmp_path) == [Path("/dev/nvme0n1"), Path("/dev/sdb")]


@pytest.mark.skipif(shutil.which("blkid") is None or shutil.which("mkfs.ext4") is None, reason="needs blkid, mkfs.ext4")
def test_disks_with_something_else_on_them_are_left_alone(tmp_path: Path) -> None:
    for name, label in (("empty", ""), ("own", discover.LABEL), ("other", "other"), ("nameless", None)):
        with (tmp_path / f"{name}.img").open("wb") as file:
            file.truncate(8 << 20)
        if label != "":
            label_options = () if label is None else ("-L", label)
            subprocess.run(["mkfs.ext4", "-q", *label_options, str(tmp_path / f"{name}.img")], check=True)
    (tmp_path / "notes.txt").write_text("no disk")
    found = discover.report(tmp_path)
    assert found == [{"path": str(tmp_path / f"{name}.img"), "size": 8 << 20} for name in ("empty", "own")]


def capability(mode: int = csi.Access.SINGLE_NODE_WRITER, fs_type: str = "ext4") -> csi.VolumeCapability:
    return csi.VolumeCapability(mount=csi.MountVolume(fs_type), access_mode=csi.AccessMode(mode))


def test_volumes_are_file_systems_of_one_node() -> None:
    provisioning.check_capabilities((capability(), capability(csi.Access.SINGLE_NODE_SINGLE_WRITER, "")))
    for wrong in (
        capability(csi.Access.MULTI_NODE_MULTI_WRITER),
        capability(fs_type="xfs"),
        csi.VolumeCapability(block=csi.Empty(), access_mode=csi.AccessMode(1)),
    ):
        with pytest.raises(InvalidArgument):
            provisioning.check_capabilities((wrong,))


def test_sizes_are_whole_blocks_within_the_limits() -> None:
    assert provisioning.size_for(None) == 16 << 20
    assert provisioning.size_for(csi.CapacityRange((20 << 20) + 1)) == (20 << 20) + 4096
    with pytest.raises(DriverError, match="smallest"):
        provisioning.size_for(csi.CapacityRange(0, 1 << 20))


def test_parameters_of_a_class_are_numbers_that_fit() -> None:
    assert provisioning.numbers_of({"csi.storage.k8s.io/fstype": "ext4"}) == {"replicas": 2, "minInSync": 1}
    assert provisioning.numbers_of({"replicas": "3", "minInSync": "3"}) == {"replicas": 3, "minInSync": 3}
    for wrong in ({"replicas": "4"}, {"replicas": "two"}, {"minInSync": "3"}, {"minInSync": "0"}, {"size": "1"}):
        with pytest.raises(InvalidArgument):
            provisioning.numbers_of(wrong)


def test_objects_are_read_as_they_are_written() -> None:
    tree = {
        "metadata": {"name": "v"},
        "spec": {"size": 7, "replicas": 2, "placement": [{"node": "a", "disk": "/d"}]},
        "status": {"epoch": 3, "holder": "a", "inSync": []},
    }
    volume = objects.volume_from(tree)
    assert (volume.placement, volume.epoch, volume.in_sync) == ((Replica("a", "/d"),), 3, ())
    assert objects.volume_from({**tree, "status": {}}).in_sync is None
    status = {"address": "10.0.0.1", "heartbeatTime": objects.time_text(1000.0), "ready": [{"path": "/d", "size": 9}]}
    node = objects.node_from({"metadata": {"name": "a"}, "status": status})
    assert (node.heartbeat, node.disks) == (1000.0, (Disk("/d", 9),))

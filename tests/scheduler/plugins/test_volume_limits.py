"""How many volumes a node can attach through CSI."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.scheduler import evaluate
from tests.scheduler.objects import Tree, node, pod
from tests.scheduler.plugins.test_volume_binding import claim, storage_class, user

DRIVER = "csi.example.com"


def csi_node(count: int, driver: str = DRIVER, name: str = "a") -> Tree:
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}


def bound(name: str, **source: Any) -> tuple[Tree, Tree]:
    """A claim and its volume."""
    held = claim(name) | {"status": {"phase": "Bound"}}
    held["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    held["spec"]["volumeName"] = f"pv-{name}"
    volume = {
        "kind": "PersistentVolume",
        "metadata": {"name": f"pv-{name}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "claimRef": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            **(source or {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{name}"}}),
        },
        "status": {"phase": "Bound"},
    }
    return held, volume


def attachment(name: str, attacher: str = DRIVER) -> Tree:
    source = {"persistentVolumeName": f"pv-{name}"}
    return {
        "kind": "VolumeAttachment",
        "metadata": {"name": f"attached-{name}"},
        "spec": {"attacher": attacher, "nodeName": "a", "source": source},
        "status": {"attached": True},
    }


def verdict(*objects: Tree, new: Tree) -> Any:
    return evaluate([node("a"), storage_class(), *objects], new).to_dict()["nodes"]["a"]["filter"]


FULL = ["node(s) exceed max volume count"]


def test_a_volume_that_pods_use_there_is_counted_once() -> None:
    one, other = bound("c"), bound("d")
    there = user("there", "c")
    there["spec"]["nodeName"] = "a"
    assert verdict(csi_node(1), *one, there, new=user("p", "c")) == {"ok": True}
    assert verdict(csi_node(1), *one, *other, there, new=user("p", "d"))["reasons"] == FULL
    assert verdict(csi_node(2), *one, *other, there, new=user("p", "d")) == {"ok": True}


def test_a_volume_that_is_merely_attached_counts_beside_the_new_one() -> None:
    assert verdict(csi_node(1), *bound("c"), attachment("c"), new=user("p", "c"))["reasons"] == FULL
    assert verdict(csi_node(2), *bound("c"), attachment("c"), new=user("p", "c")) == {"ok": True}
    assert verdict(csi_node(1), *bound("c"), attachment("c", "other.example.com"), new=user("p", "c")) == {"ok": True}


def test_what_is_attached_and_no_csi_volume_does_not_count() -> None:
    here = bound("c")
    assert verdict(csi_node(1), *here, attachment("gone"), new=user("p", "c")) == {"ok": True}
    other = bound("d", hostPath={"path": "/data"})
    assert verdict(csi_node(1), *here, *other, attachment("d"), new=user("p", "c")) == {"ok": True}
    assert verdict(csi_node(1), *here, *bound("e"), attachment("e"), new=user("p", "c"))["reasons"] == FULL


def test_in_tree_disks_count_for_their_csi_driver() -> None:
    limit = csi_node(1, "pd.csi.storage.gke.io")
    disk = {"name": "d", "gcePersistentDisk": {"pdName": "one", "readOnly": True}}
    there = pod("there", on="a", volumes=[disk])
    assert verdict(limit, there, new=pod("p", volumes=[disk])) == {"ok": True}
    second = {"name": "d", "gcePersistentDisk": {"pdName": "two", "readOnly": True}}
    assert verdict(limit, there, new=pod("p", volumes=[second]))["reasons"] == FULL
    assert verdict(there, new=pod("p", volumes=[second])) == {"ok": True}


def test_an_inline_disk_that_cannot_be_translated_is_an_error() -> None:
    bad = {"name": "d", "awsElasticBlockStore": {"volumeID": "aws://zone/disk"}}
    found = verdict(csi_node(1), new=pod("p", volumes=[bad]))
    assert (found["code"], found["reasons"]) == (
        "Error",
        [
            'running "NodeVolumeLimits" filter plugin: converting volume(d) from inline to csi: failed to translate '
            "Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://zone/disk)"
        ],
    )


def ephemeral(name: str, owner: str) -> tuple[Tree, Tree]:
    """A pod with an ephemeral volume, and the claim made for it, which some pod owns."""
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    made = claim(f"{name}-v")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{owner}", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return pod(name, on="a", volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]), made


def test_a_claim_that_was_not_made_for_its_pod_is_an_error() -> None:
    there, made = ephemeral("there", "other")
    found = verdict(csi_node(5), *bound("c"), there, made, new=user("p", "c"))
    assert found["reasons"] == [
        'running "NodeVolumeLimits" filter plugin: PVC default/there-v was not created for pod default/there '
        "(pod is not owner)"
    ]
    there, made = ephemeral("there", "there")
    assert verdict(csi_node(5), *bound("c"), there, made, new=user("p", "c")) == {"ok": True}


def test_a_missing_claim_is_noticed_where_nobody_else_looks() -> None:
    names = ("VolumeRestrictions", "VolumeBinding", "VolumeZone")
    off = {"disabled": [{"name": name} for name in names]}
    plugins = {"preFilter": off, "filter": off, "score": off, "preScore": off, "reserve": off, "preBind": off}
    config = {"profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}]}
    found = evaluate([node("a"), csi_node(1)], user("p", "gone"), config).to_dict()["nodes"]["a"]["filter"]
    assert found["reasons"] == ['looking up PVC default/gone: persistentvolumeclaim "gone" not found']
    assert found["code"] == "UnschedulableAndUnresolvable"


def test_a_bound_volume_that_cannot_be_translated_is_an_error_on_nodes_that_have_migrated() -> None:
    migrated = csi_node(5, "pd.csi.storage.gke.io")
    migrated["metadata"]["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
    held, volume = bound("c", gcePersistentDisk={"pdName": "d"})
    volume["metadata"]["labels"] = {"topology.kubernetes.io/zone": "x__y"}
    there = node("a", labels={"topology.kubernetes.io/zone": "x"})
    found = evaluate([there, migrated, storage_class(), held, volume], user("p", "c")).to_dict()["nodes"]["a"]
    assert found["filter"]["reasons"] == [
        'running "VolumeBinding" filter plugin: could not translate pv: failed to get region from zones: zone in '
        "unexpected format, expected: {locale}-{region}-{zone}, got: x"
    ]


def test_an_attachment_of_nothing_or_by_nobody_does_not_count() -> None:
    here = bound("c")
    inline = attachment("c")
    inline["spec"]["source"] = {"inlineVolumeSpec": {"csi": {"driver": DRIVER, "volumeHandle": "h"}}}
    assert verdict(csi_node(1), *here, inline, new=user("p", "c")) == {"ok": True}
    assert verdict(csi_node(1), *here, *bound("e"), attachment("e", ""), new=user("p", "c")) == {"ok": True}


OTHER = "vsphere.csi.vmware.com"


@pytest.mark.parametrize(
    ("source", "driver", "counts"),
    [
        ({"csi": {"driver": DRIVER, "volumeHandle": "h"}}, DRIVER, True),
        ({"csi": {"driver": DRIVER, "volumeHandle": ""}}, DRIVER, False),
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", True),
        ({"vsphereVolume": {"volumePath": "p"}}, OTHER, False),  # which nodes do not attach through CSI
        ({"hostPath": {"path": "/data"}}, DRIVER, False),
    ],
)
def test_volumes_count_that_nodes_attach_through_csi(source: Tree, driver: str, counts: bool) -> None:
    found = verdict(csi_node(0, driver), *bound("c", **source), new=user("p", "c"))
    assert found == ({"code": "Unschedulable", "reasons": FULL} | found if counts else {"ok": True})
    assert found.get("reasons") == (FULL if counts else None)


@pytest.mark.parametrize(
    ("source", "driver", "counts"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, "pd.csi.storage.gke.io", True),
        ({"vsphereVolume": {"volumePath": "p"}}, OTHER, False),
        ({"emptyDir": {}}, DRIVER, False),
    ],
)
def test_volumes_that_the_pod_describes_count_beside_its_claims(source: Tree, driver: str, counts: bool) -> None:
    asked = user("p", "c")
    asked["spec"]["volumes"].append({"name": "inline", **source})
    limits = csi_node(0, driver)
    found = verdict(limits, *bound("c", csi={"driver": "unlimited", "volumeHandle": "h"}), new=asked)
    assert found.get("reasons") == (FULL if counts else None)


@pytest.mark.parametrize(
    ("provisioner", "driver", "counts"),
    [
        (DRIVER, DRIVER, True),
        ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
        ("kubernetes.io/vsphere-volume", OTHER, False),
        ("other.example.com", DRIVER, False),
    ],
)
def test_a_claim_without_a_volume_counts_for_the_driver_of_its_class(
    provisioner: str, driver: str, counts: bool
) -> None:
    made = [storage_class("made", provisioner), claim("c", class_name="made")]
    assert verdict(csi_node(0, driver), *made, new=user("p", "c")).get("reasons") == (FULL if counts else None)


@pytest.mark.parametrize(
    ("allocatable", "fits"), [({"count": 0}, False), ({"count": 1}, True), ({}, True), (None, True)]
)
def test_a_driver_without_a_limit_attaches_any_number(allocatable: Tree | None, fits: bool) -> None:
    limits = csi_node(0)
    limits["spec"]["drivers"][0]["allocatable"] = allocatable
    limits["spec"]["drivers"].append({"name": "full", "nodeID": "a", "allocatable": {"count": 0}})
    assert verdict(limits, *bound("c"), new=user("p", "c")).get("reasons") == (None if fits else FULL)


@pytest.mark.parametrize(
    ("node_name", "attacher", "counts"), [("a", DRIVER, True), ("b", DRIVER, False), ("a", "", False)]
)
def test_what_is_attached_elsewhere_does_not_count(node_name: str, attacher: str, counts: bool) -> None:
    there = attachment("d", attacher)
    there["spec"]["nodeName"] = node_name
    found = verdict(csi_node(1), *bound("c"), *bound("d"), there, new=user("p", "c"))
    assert found.get("reasons") == (FULL if counts else None)
    assert verdict(csi_node(1), *bound("c"), *bound("d"), there, new=pod("q")) == {"ok": True}


def test_ephemeral_volumes_count() -> None:
    there, made = ephemeral("there", "there")
    made["spec"]["storageClassName"] = "made"
    classes = storage_class("made", DRIVER)
    assert verdict(csi_node(1), classes, *bound("c"), there, made, new=user("p", "c"))["reasons"] == FULL
    del there["spec"]["nodeName"]
    there["status"]["phase"] = "Pending"
    assert verdict(csi_node(0), classes, made, new=there)["reasons"] == FULL
    assert verdict(csi_node(1), classes, made, new=there) == {"ok": True}

"""Lives of objects as typed clients see them, in a cluster whose controllers are at work.

Conformance: CSINodes, StorageClasses, VolumeAttachment, VolumeAttributesClass, CSIInlineVolumes, PersistentVolumes, Node Lifecycle, Lease, Namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.integration.conformance.requests import MERGE_PATCH, STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import PAUSE, Space, Workloads, condition, revision

STORAGE = "/apis/storage.k8s.io/v1"
NAMESPACES = "/api/v1/namespaces"


@dataclass(frozen=True)
class Life:
    """An object of a kind whose label has its own name as key."""

    path: str
    body: Object
    generated: bool = True
    """Whether the server makes up the name."""
    media_type: str = STRATEGIC_PATCH


ATTACHMENT = {
    "spec": {"attacher": "boats.example.com", "source": {"persistentVolumeName": "some-volume"}, "nodeName": "node-1"},
    "status": {"attached": False},
}
NODE = {
    "spec": {"unschedulable": True},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "reason": "Said", "message": "by a client"}],
    },
}
LIVES = {
    "CSINode": Life(f"{STORAGE}/csinodes", {"spec": {"drivers": []}}, generated=False),
    "StorageClass": Life(f"{STORAGE}/storageclasses", {"kind": "StorageClass", "provisioner": "boats.example.com"}),
    "VolumeAttributesClass": Life(
        f"{STORAGE}/volumeattributesclasses",
        {"kind": "VolumeAttributesClass", "driverName": "boats.example.com", "parameters": {"speed": "slow"}},
    ),
    "VolumeAttachment": Life(f"{STORAGE}/volumeattachments", ATTACHMENT, generated=False, media_type=MERGE_PATCH),
    "CSIDriver": Life(
        f"{STORAGE}/csidrivers",
        {"spec": {"volumeLifecycleModes": ["Ephemeral"], "fsGroupPolicy": "ReadWriteOnceWithFSType"}},
        generated=False,
    ),
    "Node": Life("/api/v1/nodes", NODE, generated=False),
}


async def born(space: Space, life: Life, prefix: str) -> Object:
    """A new object, which can be read; whatever the client says, the server gives it its UID."""
    name = {"generateName": f"{prefix}-"} if life.generated else {"name": f"{prefix}-{space.name}", "uid": prefix}
    created = await space.api.create(life.path, {**life.body, "metadata": name})
    assert created["metadata"]["name"].startswith(f"{prefix}-")
    assert created["metadata"]["uid"] != prefix
    found = await space.api.get(f"{life.path}/{created['metadata']['name']}")
    assert found["metadata"]["uid"] == created["metadata"]["uid"]
    return created


@pytest.mark.parametrize("kind", LIVES)
def test_an_object_lives_and_so_does_its_replacement(workloads: Workloads, kind: str) -> None:
    """CSINodes / StorageClasses / VolumeAttributesClass / VolumeAttachment / CSIDriver / Node: should run through the lifecycle of a ..."""
    life = LIVES[kind]

    async def scenario(space: Space) -> None:
        api = space.api
        first = await born(space, life, "first")
        name = first["metadata"]["name"]
        own = f"{life.path}/{name}"
        if not life.generated:
            again = {**life.body, "metadata": {"name": name}}
            assert (await api.refused("POST", life.path, again)).reason == "AlreadyExists"
        patched = await api.patch(own, {"metadata": {"labels": {name: "patched"}}}, life.media_type)
        assert patched["metadata"]["labels"][name] == "patched"
        assert int(revision(patched)) > int(revision(first))
        assert await api.names(life.path, labelSelector=f"{name}=patched") == [name]
        await api.delete(own)
        await space.gone(own)
        assert await api.names(life.path, labelSelector=f"{name}=patched") == []
        second = (await born(space, life, "second"))["metadata"]["name"]

        def label(obj: Object) -> None:
            obj["metadata"].setdefault("labels", {})[second] = "updated"

        updated = await space.changed(f"{life.path}/{second}", label)
        assert updated["metadata"]["labels"][second] == "updated"
        query = {"labelSelector": f"{second}=updated"}
        assert await api.names(life.path, **query) == [second]
        await api.delete(life.path, **query)
        await space.gone(f"{life.path}/{second}")
        assert await api.names(life.path, **query) == []

    workloads.run(scenario)


def test_an_attachment_is_reported_by_its_status_alone(workloads: Workloads) -> None:
    """VolumeAttachment Conformance should apply changes to a volumeattachment status."""

    async def scenario(space: Space) -> None:
        name = (await born(space, LIVES["VolumeAttachment"], "tied"))["metadata"]["name"]
        own = f"{STORAGE}/volumeattachments/{name}"
        assert (await space.dynamic.get(f"{own}/status"))["status"]["attached"] is False
        assert (await space.api.patch(f"{own}/status", {"status": {"attached": True}}))["status"]["attached"] is True
        updated = await space.changed(f"{own}/status", lambda obj: obj["status"].update(attached=False))
        assert updated["status"]["attached"] is False
        await space.api.delete(own)
        await space.gone(own)

    workloads.run(scenario)


def test_a_pod_has_volumes_of_a_driver_that_is_not_there(workloads: Workloads) -> None:
    """CSIInlineVolumes should support CSIVolumeSource in Pod API."""

    async def scenario(space: Space) -> None:
        api, pods = space.api, space.core("pods")
        more = {"driver": "boats.example.com", "fsType": "ext4", "readOnly": True}
        volumes = [{"name": "bow", "csi": {"driver": "boats.example.com"}}, {"name": "stern", "csi": more}]
        mounts = [{"name": "bow", "mountPath": "/mnt/bow"}, {"name": "stern", "mountPath": "/mnt/stern"}]
        container = {"name": "main", "image": PAUSE, "volumeMounts": mounts}
        body = {"metadata": {"name": "boat"}, "spec": {"volumes": volumes, "containers": [container]}}
        created = await api.create(pods, body)
        assert created["spec"]["volumes"][:2] == volumes
        assert (await api.refused("POST", pods, body)).reason == "AlreadyExists"
        assert (await api.get(f"{pods}/boat"))["metadata"]["uid"] == created["metadata"]["uid"]
        assert await api.names(pods) == ["boat"]
        patched = await api.patch(f"{pods}/boat", {"metadata": {"annotations": {"patched": "true"}}}, MERGE_PATCH)
        assert patched["metadata"]["annotations"]["patched"] == "true"
        await api.delete(f"{pods}/boat")
        left = [one for one in (await api.get(pods))["items"] if "deletionTimestamp" not in one["metadata"]]
        assert left == []

    workloads.run(scenario)


def test_volumes_and_claims_keep_what_is_written_into_their_status(workloads: Workloads) -> None:
    """PersistentVolumes CSI Conformance should apply changes to a pv/pvc status."""

    async def scenario(space: Space) -> None:
        api, volumes, claims = space.api, "/api/v1/persistentvolumes", space.core("persistentvolumeclaims")
        common = {"accessModes": ["ReadWriteOnce"], "storageClassName": space.name}
        csi = {"driver": "boats.example.com", "volumeHandle": "hold"}
        label = {"labelSelector": f"pool={space.name}"}
        metadata = {"generateName": f"{space.name}-", "labels": {"pool": space.name}}
        await api.create(
            volumes,
            {
                "metadata": metadata,
                "spec": {**common, "capacity": {"storage": "2Gi"}, "csi": csi},
            },
        )
        resources = {"requests": {"storage": "2Gi"}}
        await api.create(claims, {"metadata": {"generateName": "pvc-"}, "spec": {**common, "resources": resources}})
        (volume,) = await api.names(volumes, **label)
        (claim,) = await api.names(claims)
        assert (await space.dynamic.get(f"{claims}/{claim}/status"))["status"]["phase"] in ("Pending", "Bound")
        assert (await space.dynamic.get(f"{volumes}/{volume}/status"))["status"]["phase"] in (
            "Available",
            "Bound",
            "Pending",
        )
        await write_claim_status(space, f"{claims}/{claim}")
        await write_volume_status(space, f"{volumes}/{volume}")
        for path in (f"{claims}/{claim}", f"{volumes}/{volume}"):
            await api.delete(path)
            await space.gone(path)

    workloads.run(scenario)


async def write_claim_status(space: Space, own: str) -> None:
    """Patch a condition, then add another one; neither says when it changed."""

    def said(kind: str) -> Object:
        return {"type": kind, "status": "True", "reason": f"Said{kind}", "message": "by a client"}

    patched = await space.api.patch(f"{own}/status", {"status": {"conditions": [said("Patched")]}}, MERGE_PATCH)
    assert said("Patched").items() <= condition(patched, "Patched").items()

    def add(obj: Object) -> None:
        obj["status"].setdefault("conditions", []).append(said("Updated"))

    updated = await space.changed(f"{own}/status", add)
    assert said("Updated").items() <= condition(updated, "Updated").items()


async def write_volume_status(space: Space, own: str) -> None:
    """The same of the reason and the message of a volume."""
    said = {"reason": "Patched", "message": "by a client"}
    patched = await space.api.patch(f"{own}/status", {"status": said}, MERGE_PATCH)
    assert said.items() <= patched["status"].items()
    said = {"reason": "Updated", "message": "by the same client"}
    updated = await space.changed(f"{own}/status", lambda obj: obj["status"].update(said))
    assert said.items() <= updated["status"].items()


def test_a_lease_keeps_times_of_the_first_year(workloads: Workloads) -> None:
    """Lease lease API should be available."""

    async def scenario(space: Space) -> None:
        api, everywhere = space.api, "/apis/coordination.k8s.io/v1/leases"
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{space.name}/leases"

        def spec(holder: str, duration: int, acquired: int, renewed: int, transitions: int) -> Object:
            return {
                "holderIdentity": holder,
                "leaseDurationSeconds": duration,
                "acquireTime": f"0001-01-01T00:00:{acquired:02}.000000Z",
                "renewTime": f"0001-01-01T00:01:{renewed:02}.000000Z",
                "leaseTransitions": transitions,
            }

        created = await api.create(leases, {"metadata": {"name": "berth"}, "spec": spec("first", 30, 2, 5, 0)})
        assert (await api.get(f"{leases}/berth"))["spec"] == created["spec"] == spec("first", 30, 2, 5, 0)
        created["spec"] = spec("second", 30, 20, 50, 1)
        await api.update(f"{leases}/berth", created)
        assert (await api.get(f"{leases}/berth"))["spec"] == spec("second", 30, 20, 50, 1)
        await api.patch(f"{leases}/berth", {"spec": spec("third", 60, 50, 10, 2)}, STRATEGIC_PATCH)
        assert (await api.get(f"{leases}/berth"))["spec"] == spec("third", 60, 50, 10, 2)
        labelled = {"name": "spare", "labels": {"temporary": "true"}}
        await api.create(leases, {"metadata": labelled, "spec": spec("first", 30, 2, 5, 0)})
        assert await api.names(leases) == ["berth", "spare"]
        await api.delete(leases, labelSelector="temporary=true")
        assert await api.names(leases) == ["berth"]
        await api.delete(f"{leases}/berth")
        assert await space.absent(f"{leases}/berth")
        assert await api.names(everywhere)

    workloads.run(scenario)


def test_a_namespace_is_patched_updated_and_keeps_conditions_and_finalizers(workloads: Workloads) -> None:
    """Namespaces should patch a Namespace; apply an update to a Namespace; apply changes to a namespace status; apply a finalizer to a Namespace."""

    async def scenario(space: Space) -> None:
        api, own = space.api, f"{NAMESPACES}/{space.name}"
        before = await api.get(own)
        patched = await api.patch(own, {"metadata": {"labels": {"deck": "upper"}}}, STRATEGIC_PATCH)
        assert int(revision(patched)) > int(revision(before))
        assert (await api.get(own))["metadata"]["labels"]["deck"] == "upper"
        updated = await space.changed(own, lambda obj: obj["metadata"]["labels"].update({space.name: "updated"}))
        assert updated["metadata"]["labels"][space.name] == "updated"
        await write_namespace_status(space, own)
        extra = "trial.example.com/extra"
        kept = await space.api.get(own)
        kept["spec"]["finalizers"].append(extra)
        assert (await api.update(f"{own}/finalize", kept))["spec"]["finalizers"] == ["kubernetes", extra]
        kept = await space.api.get(own)
        kept["spec"]["finalizers"].remove(extra)
        assert (await api.update(f"{own}/finalize", kept))["spec"]["finalizers"] == ["kubernetes"]

    workloads.run(scenario)


async def write_namespace_status(space: Space, own: str) -> None:
    """Conditions may come with no time, or with null."""
    assert (await space.dynamic.get(f"{own}/status"))["status"]["phase"] == "Active"
    said = {"type": "Patched", "status": "True", "reason": "Said", "message": "by a client"}
    body = {
        "metadata": {"annotations": {"patched-status": space.name}},
        "status": {"conditions": [{**said, "lastTransitionTime": None}]},
    }
    patched = await space.api.patch(f"{own}/status", body, MERGE_PATCH)
    assert patched["metadata"]["annotations"]["patched-status"] == space.name
    assert said.items() <= patched["status"]["conditions"][-1].items()
    shown = await space.dynamic.get(f"{own}/status")
    shown["status"]["conditions"].append({**said, "type": "Updated", "message": "by the same client"})
    updated = await space.api.update(f"{own}/status", shown)
    assert [one["type"] for one in updated["status"]["conditions"]] == ["Patched", "Updated"]
    assert updated["status"]["conditions"][-1]["message"] == "by the same client"

"""Volumes, claims and what storage drivers publish. Conformance: PersistentVolumes CSI, VolumeAttachment, CSIInlineVolumes."""

from __future__ import annotations

from tests.integration.conformance.requests import MERGE_PATCH, Object, Requests, conformance, pod

STORAGE = "/apis/storage.k8s.io/v1"


def _volume(name: str) -> Object:
    csi = {"driver": "e2e-driver", "volumeHandle": "e2e-status-conformance"}
    spec = {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "class", "csi": csi}
    return {"metadata": {"name": name, "labels": {"e2e-pv-pool": "pool"}}, "spec": spec}


def test_the_status_of_volumes_and_claims_is_written_on_its_own() -> None:
    """PersistentVolumes CSI Conformance should apply changes to a pv/pvc status."""

    async def scenario(api: Requests) -> None:
        core = await api.namespace()
        await api.create("/api/v1/persistentvolumes", _volume("pv"))
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
            "storageClassName": "class",
        }
        await api.create(f"{core}/persistentvolumeclaims", {"metadata": {"name": "pvc"}, "spec": spec})
        assert await api.names("/api/v1/persistentvolumes", labelSelector="e2e-pv-pool=pool") == ["pv"]
        claim, volume = f"{core}/persistentvolumeclaims/pvc/status", "/api/v1/persistentvolumes/pv/status"
        assert (await api.get(claim))["status"]["phase"] == "Pending"
        assert (await api.get(volume))["status"]["phase"] == "Pending"
        condition = {"type": "StatusPatched", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
        patched = await api.patch(claim, {"status": {"conditions": [condition]}}, MERGE_PATCH)
        assert patched["status"]["conditions"][0]["type"] == "StatusPatched"
        body = {"status": {"message": "StatusPatched", "reason": "E2E patchedStatus"}}
        patched_volume = await api.patch(volume, body, MERGE_PATCH)
        assert patched_volume["status"]["reason"] == "E2E patchedStatus"
        patched["status"]["conditions"].append({**condition, "type": "StatusUpdated"})
        assert len((await api.update(claim, patched))["status"]["conditions"]) == 2
        patched_volume["status"].update(message="StatusUpdated", reason="E2E updateStatus")
        assert (await api.update(volume, patched_volume))["status"]["message"] == "StatusUpdated"

    conformance(scenario)


def test_attachments_report_through_their_status() -> None:
    """VolumeAttachment Conformance should apply changes to a volumeattachment status; should run through the lifecycle of a VolumeAttachment."""

    async def scenario(api: Requests) -> None:
        attachments = f"{STORAGE}/volumeattachments"
        for name in ("va-1", "va-2"):
            spec = {"attacher": "e2e.example.com", "nodeName": "node", "source": {"persistentVolumeName": f"pv-{name}"}}
            await api.create(attachments, {"metadata": {"name": name, "labels": {"va": "yes"}}, "spec": spec})
        own = f"{attachments}/va-1/status"
        assert (await api.get(own))["status"] == {"attached": False}
        patched = await api.patch(own, {"status": {"attached": True}}, MERGE_PATCH)
        assert patched["status"]["attached"] is True
        patched["status"]["attached"] = False
        patched["metadata"]["labels"] = {"e2e": "updated"}
        assert (await api.update(own, patched))["status"]["attached"] is False
        await api.delete(f"{attachments}/va-1")
        await api.delete(attachments, labelSelector="va=yes")
        assert await api.names(attachments) == []

    conformance(scenario)


def test_pods_carry_inline_volumes_of_drivers() -> None:
    """CSIInlineVolumes should support CSIVolumeSource in Pod API; should run through the lifecycle of a CSIDriver."""

    async def scenario(api: Requests) -> None:
        pods = f"{await api.namespace()}/pods"
        drivers = f"{STORAGE}/csidrivers"
        spec = {"volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": True, "attachRequired": False}
        created = await api.create(drivers, {"metadata": {"name": "inline", "labels": {"d": "1"}}, "spec": spec})
        assert created["spec"]["fsGroupPolicy"] == "ReadWriteOnceWithFSType"
        source = {"driver": "inline", "readOnly": True, "fsType": "ext4", "volumeAttributes": {"a": "b"}}
        body = pod("inline", volumes=[{"name": "v", "csi": source}])
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/mnt"}]
        body["metadata"]["labels"] = {"e2e": "inline"}
        made = await api.create(pods, body)
        assert {"name": "v", "csi": source} in made["spec"]["volumes"]
        (found,) = (await api.get("/api/v1/pods", labelSelector="e2e=inline"))["items"]
        assert {"name": "v", "csi": source} in found["spec"]["volumes"]
        patched = await api.patch(f"{pods}/inline", {"metadata": {"labels": {"e2e": "patched"}}}, MERGE_PATCH)
        assert patched["metadata"]["labels"] == {"e2e": "patched"}
        await api.delete(f"{pods}/inline", {"gracePeriodSeconds": 0})
        await api.delete(drivers, labelSelector="d=1")
        assert await api.names(drivers) == []

    conformance(scenario)

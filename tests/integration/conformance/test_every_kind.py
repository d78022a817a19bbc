"""API operations of every built-in kind, as the tests named "should support ... API operations" and the lifecycle tests demand them.

Conformance: FlowSchema, PriorityLevelConfiguration, CronJob, CSR, EndpointSlice, Endpoints, Ingress, IngressClass, IPAddress, Lease, PodTemplates, RuntimeClass,
DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
Node, ServiceAccount, Secret, ConfigMap, LimitRange, ResourceQuota, policies and their bindings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bayplan.api.kinds import DEFAULT_KINDS, Kind
from tests.integration.conformance.requests import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Object,
    Requests,
    conformance,
)

_TRANSCRIPT = Path(__file__).parents[2] / "golden" / "api" / "02-crud.json"
_NAMESPACE = "conformance"
_PATCHES = {
    MERGE_PATCH: {"metadata": {"annotations": {"patched": "true"}}},
    STRATEGIC_PATCH: {"metadata": {"annotations": {"patched": "true"}}},
    JSON_PATCH: [{"op": "add", "path": "/metadata/annotations", "value": {"patched": "true"}}],
}


def _bodies() -> Iterator[tuple[str, Object]]:
    """A valid object for every resource: the first that the transcript creates there."""
    seen = set()
    for scenario in json.loads(_TRANSCRIPT.read_text())["scenarios"]:
        for step in scenario["steps"]:
            request = step.get("request") or {}
            path = request.get("path", "").replace("${ns}", _NAMESPACE)
            created = request.get("method") == "POST" and (step.get("expect") or {}).get("code") == 201
            if created and path not in seen and not path.endswith("reviews"):
                seen.add(path)
                yield path, json.loads(json.dumps(request["body"]).replace("${ns}", _NAMESPACE))


BODIES = dict(_bodies())


def kind_of_path(path: str) -> Kind:
    """The kind whose collection a path names."""
    parts = path.split("/")
    group, version = ("", parts[2]) if parts[1] == "api" else (parts[2], parts[3])
    kind = DEFAULT_KINDS.of_resource(group, version, parts[-1])
    assert kind is not None
    return kind


def _labelled(body: Object) -> Object:
    metadata = {**body["metadata"], "labels": {"e2e": "api"}}
    metadata.pop("annotations", None)
    metadata.pop("finalizers", None)
    return {**body, "metadata": metadata}


async def _start(api: Requests, path: str) -> tuple[Object, str]:
    """The namespace and the object of the test; returns what was created and its path."""
    await api.namespace(_NAMESPACE)
    created = await api.create(path, _labelled(BODIES[path]), fieldValidation="Strict")
    return created, f"{path}/{created['metadata']['name']}"


def _everywhere(path: str) -> str:
    return path.replace(f"/namespaces/{_NAMESPACE}", "")


@pytest.mark.parametrize("path", BODIES)
def test_a_kind_is_discovered_created_watched_patched_updated_and_deleted(path: str) -> None:
    async def scenario(api: Requests) -> None:
        kind = kind_of_path(path)
        found = await api.get(f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}")
        assert kind.plural in [one["name"] for one in found["resources"]]
        created, own = await _start(api, path)
        assert int(created["metadata"]["resourceVersion"]) > 0
        assert (await api.refused("POST", path, _labelled(BODIES[path]))).reason == "AlreadyExists"
        listed = await api.get(path, labelSelector="e2e=api")
        assert len(listed["items"]) == 1
        assert listed["kind"] == f"{kind.kind}List"
        assert len((await api.get(_everywhere(path), labelSelector="e2e=api"))["items"]) == 1
        version = listed["metadata"]["resourceVersion"]
        async with api.watch(_everywhere(path), labelSelector="e2e=api", resourceVersion=version) as watch:
            await _change(api, own, created)
            assert _has(await watch.until("MODIFIED"), "patched")
            await _remove(api, path, own)
            assert (await watch.until("DELETED"))["metadata"]["uid"] == created["metadata"]["uid"]

    conformance(scenario)


def _has(obj: Object, annotation: str) -> bool:
    return bool(obj["metadata"].get("annotations", {}).get(annotation) == "true")


async def _change(api: Requests, own: str, created: Object) -> None:
    for media_type, body in _PATCHES.items():
        changed = await api.patch(own, body, media_type, fieldValidation="Strict")
        assert _has(changed, "patched")
        changed["metadata"]["annotations"] = {"updated": "true"}
        changed = await api.update(own, changed, fieldValidation="Strict")
        assert _has(changed, "updated")
        assert not _has(changed, "patched")
    metadata = {"name": created["metadata"]["name"], "annotations": {"applied": "true"}}
    intent = {"apiVersion": created["apiVersion"], "kind": created["kind"], "metadata": metadata}
    applied = await api.patch(own, intent, APPLY_PATCH, fieldManager="test-apply", force="true")
    assert _has(applied, "applied")
    assert int(applied["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    assert applied["metadata"]["uid"] == (await api.get(own))["metadata"]["uid"] == created["metadata"]["uid"]


async def _remove(api: Requests, path: str, own: str) -> None:
    """Delete the collection; what protection finalizers hold goes when they do. Namespaces have no collection to delete."""
    collection = "deletecollection" in kind_of_path(path).verbs
    await api.delete(
        path if collection else own, {"gracePeriodSeconds": 0}, labelSelector="e2e=api" if collection else ""
    )
    for one in (await api.get(path, labelSelector="e2e=api"))["items"]:
        assert one["metadata"]["deletionTimestamp"]
        if kind_of_path(path).plural == "namespaces":
            await api.update(f"{own}/finalize", {**one, "spec": {"finalizers": []}})
        else:
            await api.patch(own, {"metadata": {"finalizers": None}})
    assert (await api.get(path, labelSelector="e2e=api"))["items"] == []
    assert await api.gone(own)


_STATUS_ALONE = {
    "apiservices",
    "flowschemas",
    "prioritylevelconfigurations",
    "resourceclaims",
    "servicecidrs",
    "validatingadmissionpolicies",
    "volumeattachments",
}
"""Kinds of which a write of status changes nothing of metadata; of others it may change annotations."""


def _with_status() -> list[str]:
    return [path for path in BODIES if any(one.name == "status" for one in kind_of_path(path).subresources)]


@pytest.mark.parametrize("path", _with_status())
def test_the_status_of_a_kind_is_read_patched_and_updated_on_its_own(path: str) -> None:
    async def scenario(api: Requests) -> None:
        created, own = await _start(api, path)
        takes_annotations = kind_of_path(path).plural not in _STATUS_ALONE
        status: Any = await api.get(f"{own}/status")
        assert (status["kind"], status["apiVersion"]) == (created["kind"], created["apiVersion"])
        assert status["metadata"]["uid"] == created["metadata"]["uid"]
        for media_type, body in _PATCHES.items():
            patched = await api.patch(f"{own}/status", body, media_type, fieldValidation="Strict")
            assert _has(patched, "patched") is takes_annotations
            patched["metadata"]["annotations"] = {"updated": "true"}
            updated = await api.update(f"{own}/status", patched, fieldValidation="Strict")
            assert _has(updated, "updated") is takes_annotations
            assert updated.get("spec") == created.get("spec")

    conformance(scenario)

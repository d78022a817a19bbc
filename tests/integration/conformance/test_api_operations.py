"""Every verb of kinds that have a test "should support ... API operations", in a cluster whose controllers are at work.

Conformance: API priority and fairness, Certificates API, CronJob, CSIStorageCapacity, EndpointSlice, Ingress API, IngressClass API, RuntimeClass.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from bayplan.apiserver.certificates import make_authority
from tests.integration.conformance.requests import MERGE_PATCH, Object, Watching
from tests.integration.conformance.workloads import PAUSE, Space, Workloads, condition, revision

RULES = [
    {
        "subjects": [{"kind": "User", "user": {"name": "nobody-of-this-name"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
]
FLOW_SCHEMA = {
    "matchingPrecedence": 8000,
    "priorityLevelConfiguration": {"name": "global-default"},
    "distinguisherMethod": {"type": "ByUser"},
    "rules": RULES,
}
BACKEND = {"service": {"name": "quay", "port": {"number": 8080}}}
PATHS = [{"path": "/", "pathType": "ImplementationSpecific", "backend": BACKEND}]
CRON_JOB = {
    "schedule": "* */1 * * ?",
    "concurrencyPolicy": "Allow",
    "successfulJobsHistoryLimit": 1,
    "failedJobsHistoryLimit": 0,
    "jobTemplate": {
        "spec": {
            "parallelism": 1,
            "template": {
                "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": PAUSE}]},
            },
        }
    },
}


@dataclass(frozen=True)
class Operations:
    """What is created of a kind, and what else is changed about it."""

    path: str
    """Of the collection; `{}` stands for the namespace."""
    body: Object
    patch: Object = field(default_factory=dict)
    """What is patched besides an annotation."""
    status: tuple[Object, Object] | None = None
    """What a patch and then an update make of the status; if None there is no status."""

    @property
    def everywhere(self) -> str:
        """The same collection in all namespaces."""
        return self.path.replace("/namespaces/{}", "")


def failing(kind: str) -> Object:
    """A condition without the time of its last change."""
    return {"conditions": [{"type": kind, "status": "False", "reason": "Tried"}]}


def address(ip: str) -> Object:
    """The status of an ingress."""
    return {"loadBalancer": {"ingress": [{"ip": ip}]}}


FLOW_CONTROL = "/apis/flowcontrol.apiserver.k8s.io/v1"
NETWORKING = "/apis/networking.k8s.io/v1"
KINDS = {
    "FlowSchema": Operations(
        f"{FLOW_CONTROL}/flowschemas",
        {"spec": FLOW_SCHEMA},
        {"spec": {"matchingPrecedence": 7999}},
        (failing("PatchFailed"), failing("UpdateFailed")),
    ),
    "PriorityLevelConfiguration": Operations(
        f"{FLOW_CONTROL}/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}}}},
        {"spec": {"limited": {"nominalConcurrencyShares": 4}}},
        (failing("PatchFailed"), failing("UpdateFailed")),
    ),
    "EndpointSlice": Operations(
        "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.4", "192.0.2.5"]}, {"addresses": ["192.0.2.6"]}]},
    ),
    "Ingress": Operations(
        f"{NETWORKING}/namespaces/{{}}/ingresses",
        {"spec": {"defaultBackend": BACKEND, "rules": [{"host": "pier.example.com", "http": {"paths": PATHS}}]}},
        status=(address("198.51.100.1"), address("198.51.100.2")),
    ),
    "IngressClass": Operations(f"{NETWORKING}/ingressclasses", {"spec": {"controller": "example.com/controller"}}),
    "RuntimeClass": Operations("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "some-handler"}),
    "CSIStorageCapacity": Operations(
        "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities", {"storageClassName": "bilge"}
    ),
    "CronJob": Operations(
        "/apis/batch/v1/namespaces/{}/cronjobs",
        {"spec": CRON_JOB},
        status=({"lastScheduleTime": "2026-05-04T03:02:01Z"}, {"lastScheduleTime": "2026-05-04T03:02:59Z"}),
    ),
}


async def discover(space: Space, path: str, *names: str) -> None:
    """Group, version and resources are in the three documents that say what there is."""
    _, _, group, version = path.split("/")[:4]
    groups = {one["name"]: one for one in (await space.dynamic.get("/apis"))["groups"]}
    own = await space.dynamic.get(f"/apis/{group}")
    for found in (groups[group], own):
        assert version in [one["version"] for one in found["versions"]]
    resources = await space.dynamic.get(f"/apis/{group}/{version}")
    assert set(names) <= {one["name"] for one in resources["resources"]}


async def annotated(watch: Watching, *annotations: str) -> None:
    """Everything that the watch shows is a change, until all these annotations are seen."""
    seen: Object = {}
    while not all(seen.get(one) == "true" for one in annotations):
        kind, obj = await watch.next()
        assert kind == "MODIFIED", obj
        seen = obj["metadata"].get("annotations", {})


async def change(space: Space, own: str, patch: Object, before: Object) -> None:
    """Patch and update an object; it shows the annotation of each."""
    body = {"metadata": {"annotations": {"patched": "true"}}, **patch}
    patched = await space.api.patch(own, body, MERGE_PATCH)
    assert patched["metadata"]["annotations"] == {"patched": "true"}
    assert includes(patched, patch)
    assert int(revision(patched)) > int(revision(before))
    updated = await space.changed(own, lambda obj: obj["metadata"]["annotations"].update(updated="true"))
    assert updated["metadata"]["annotations"] == {"patched": "true", "updated": "true"}


def includes(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is found, whatever else is there."""
    if isinstance(wanted, dict):
        return all(key in found and includes(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return all(any(includes(one, each) for one in found) for each in wanted)
    return bool(found == wanted)


async def change_status(space: Space, own: str, uid: str, status: tuple[Object, Object]) -> None:
    """Read, patch and update the status, as typed clients write it and as those read it that know no types."""
    shown = await space.dynamic.get(f"{own}/status")
    assert shown["metadata"]["uid"] == uid
    body = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": status[0]}
    patched = await space.api.patch(f"{own}/status", body, MERGE_PATCH)
    assert includes(patched["status"], status[0])

    def update(obj: Object) -> None:
        for key, value in status[1].items():
            obj["status"][key] = [*obj["status"][key], *value] if isinstance(value, list) else value

    updated = await space.changed(f"{own}/status", update)
    assert includes(updated["status"], status[1])


async def remove(space: Space, path: str, own: str, query: dict[str, str], left: int) -> None:
    """Delete one object, then the others with the label."""
    await space.api.delete(own)
    assert await space.absent(own)
    assert len(await space.api.names(path, **query)) == left
    await space.api.delete(path, **query)
    assert await space.api.names(path, **query) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_supports_every_operation(workloads: Workloads, kind: str) -> None:
    """... should support FlowSchema / PriorityLevelConfiguration / EndpointSlice / Ingress / IngressClass / ... API operations."""
    operations = KINDS[kind]

    async def scenario(space: Space) -> None:
        api, path = space.api, operations.path.format(space.name)
        plural = path.rpartition("/")[2]
        await discover(space, path, plural, *([f"{plural}/status"] if operations.status else []))
        query = {"labelSelector": f"special={space.name}"}
        metadata = {"generateName": "example-", "labels": {"special": space.name}}
        created = [await api.create(path, {"metadata": metadata, **operations.body}) for _ in range(3)]
        own, uid = f"{path}/{created[2]['metadata']['name']}", created[2]["metadata"]["uid"]
        assert (await api.get(own))["metadata"]["uid"] == uid
        assert re.fullmatch("[1-9][0-9]*", revision(created[2]))
        listed = await api.get(path, **query)
        assert len(listed["items"]) == len((await api.get(operations.everywhere, **query))["items"]) == 3
        since = {"resourceVersion": revision(listed), **query}
        async with api.watch(path, **since) as watch, api.watch(operations.everywhere, **since) as wide:
            await change(space, own, operations.patch, created[2])
            for one in (watch, wide):
                await annotated(one, "patched", "updated")
        if operations.status:
            await change_status(space, own, uid, operations.status)
        await remove(space, path, own, query, 2)

    workloads.run(scenario)


@pytest.mark.parametrize("kind", ["RuntimeClass", "CSIStorageCapacity"])
def test_a_watch_without_a_version_shows_what_is_there_and_what_comes(workloads: Workloads, kind: str) -> None:
    """RuntimeClass should support RuntimeClasses API operations; CSIStorageCapacity should support CSIStorageCapacities API operations."""
    operations = KINDS[kind]

    async def scenario(space: Space) -> None:
        api, path = space.api, operations.path.format(space.name)
        query = {"labelSelector": f"test={space.name}"}

        def named(number: int) -> Object:
            return {
                "metadata": {"name": f"{space.name}-{number}", "labels": {"test": space.name}},
                **operations.body,
            }

        for number in (1, 2):
            await api.create(path, named(number))
        assert (await api.refused("POST", path, named(1))).reason == "AlreadyExists"
        async with api.watch(path, **query) as watch, api.watch(operations.everywhere, **query) as wide:
            await api.create(path, named(3))
            await change(space, f"{path}/{space.name}-1", {}, await api.get(f"{path}/{space.name}-1"))
            for one in (watch, wide):
                names = [(await one.until("ADDED"))["metadata"]["name"] for _ in range(3)]
                assert names == [f"{space.name}-{number}" for number in (1, 2, 3)]
                await annotated(one, "patched", "updated")
        await remove(space, path, f"{path}/{space.name}-1", query, 2)

    workloads.run(scenario)


def certificate_request() -> str:
    """A request for a certificate of a server, in base64."""
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pier.example.com")])
    hosts = x509.SubjectAlternativeName([x509.DNSName("pier.example.com")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).add_extension(hosts, critical=False)
    return base64.b64encode(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)).decode()


def test_certificate_requests_support_every_operation(workloads: Workloads) -> None:
    """Certificates API should support CSR API operations."""

    async def scenario(space: Space) -> None:
        api, plural = space.api, "certificatesigningrequests"
        path = f"/apis/certificates.k8s.io/v1/{plural}"
        await discover(space, path, plural, f"{plural}/approval", f"{plural}/status")
        spec = {
            "request": certificate_request(),
            "signerName": f"example.com/{space.name}",
            "expirationSeconds": 3600,
            "usages": ["digital signature", "key encipherment", "server auth"],
        }
        query = {"fieldSelector": f"spec.signerName=example.com/{space.name}"}
        body = {"metadata": {"generateName": "example-"}, "spec": spec}
        created = [await api.create(path, body) for _ in range(3)][2]
        name, uid = created["metadata"]["name"], created["metadata"]["uid"]
        own = f"{path}/{name}"
        found = await api.get(own)
        assert (found["metadata"]["uid"], found["spec"]["expirationSeconds"]) == (uid, 3600)
        listed = await api.get(path, **query)
        assert len(listed["items"]) == 3
        since = {"resourceVersion": revision(listed), "fieldSelector": f"metadata.name={name}"}
        async with api.watch(path, **since) as watch:
            await change(space, own, {}, created)
            await annotated(watch, "patched", "updated")
        await approve(space, own, uid)
        await answer(space, own, uid)
        await remove(space, path, own, query, 2)

    workloads.run(scenario)


async def approve(space: Space, own: str, uid: str) -> None:
    """Conditions come through the subresource for approvals."""
    shown = await space.dynamic.get(f"{own}/approval")
    assert (shown["kind"], shown["metadata"]["uid"]) == ("CertificateSigningRequest", uid)
    patched = await space.api.patch(
        f"{own}/approval",
        {
            "metadata": {"annotations": {"patchedapproval": "true"}},
            "status": {"conditions": [{"type": "Looked", "status": "True", "reason": "Tried"}]},
        },
    )
    assert [one["type"] for one in patched["status"]["conditions"]] == ["Looked"]
    assert patched["metadata"]["annotations"]["patchedapproval"] == "true"
    patched["status"]["conditions"].append({"type": "Approved", "status": "True", "reason": "Tried", "message": "Fine"})
    updated = await space.api.update(f"{own}/approval", patched)
    assert [one["type"] for one in updated["status"]["conditions"]] == ["Looked", "Approved"]


async def answer(space: Space, own: str, uid: str) -> None:
    """The certificate comes through the status, and conditions that say nothing of approval, too."""
    shown = await space.dynamic.get(f"{own}/status")
    assert (shown["kind"], shown["metadata"]["uid"]) == ("CertificateSigningRequest", uid)
    certificate = base64.b64encode(make_authority(1_700_000_000.0).certificate).decode()
    patched = await space.api.patch(
        f"{own}/status",
        {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": {"certificate": certificate}},
    )
    assert patched["status"]["certificate"] == certificate
    assert patched["metadata"]["annotations"]["patchedstatus"] == "true"
    later = {"type": "Answered", "status": "True", "reason": "Tried", "message": "Done"}
    updated = await space.changed(f"{own}/status", lambda obj: obj["status"]["conditions"].append(later))
    assert len(updated["status"]["conditions"]) == 3
    assert condition(updated, "Answered")["message"] == "Done"

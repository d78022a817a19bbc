"""Objects in protobuf and in other versions, as kube-apiserver keeps them."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from bayplan.api import protobuf
from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS
from bayplan.api.types import core_v1
from bayplan.apiserver.etcd_layout import WITH_GROUP
from bayplan.apiserver.stored_forms import JSON, StoredForms
from bayplan.store.errors import Untransformable
from bayplan.store.transforming import TransformingStore
from tests.apiserver.etcd_stores import etcd_store, new_prefix
from tests.apiserver.serving import client_of as client_of_server
from tests.apiserver.serving import opened
from tests.integration.conformance.test_every_kind import BODIES, kind_of_path
from tests.store.etcd.clients import client_of
from tests.store.etcd.server import needs_etcd, shared_server

_PROTOBUF = StoredForms(protobuf.MEDIA_TYPE)
_JSON = StoredForms(JSON)


def stored(api_version: str, kind: str, tree: dict[str, Any]) -> bytes:
    """An object as kube-apiserver keeps it in protobuf."""
    return protobuf.envelope(api_version, kind, protobuf.message_of_tree(api_version, {"kind": kind, **tree}))


@pytest.mark.parametrize("path", BODIES)
def test_an_object_of_any_kind_comes_back_as_it_was(path: str) -> None:
    kind = DEFAULT_KINDS.storage_kind(kind_of_path(path))
    key = kind.storage_key("default", "any")
    form, other = _PROTOBUF.of_key(key), _JSON.of_key(key)
    assert form is not None
    assert other is not None
    metadata = {"name": "any", "namespace": "default", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    given = {"kind": kind.kind, "apiVersion": kind.api_version, **BODIES[path], "metadata": metadata}
    # What a server keeps has its defaults and one form: this is what comes of any other.
    value = other.from_storage(key, json.dumps(given).encode())
    kept = form.to_storage(key, value)
    if kind.group in WITH_GROUP:
        assert kept == value
        return
    assert kept.startswith(protobuf.MAGIC)
    assert form.from_storage(key, kept) == value.replace(b',"caBundle":""', b"")  # no bytes are no field in protobuf
    assert (form.is_current(kept), form.is_current(value), other.is_current(kept)) == (True, False, False)
    assert other.is_current(value)


def test_what_is_written_as_json_stays_as_it_is() -> None:
    form = _JSON.of_key("/registry/core/configmaps/default/a")
    assert form is not None
    value = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{}}'
    assert form.to_storage("a", value) is value
    assert form.from_storage("a", value) is value


def test_custom_resources_and_what_is_no_object_have_no_form() -> None:
    for key in ("/registry/example.com/cars/default/a", "/registry/ranges/servicenodeports/1", "/registry/ranges", "a"):
        assert _PROTOBUF.of_key(key) is None


def test_defaults_that_kube_apiserver_fills_in_when_it_reads_are_there() -> None:
    key = "/registry/core/persistentvolumeclaims/default/a"
    form = _JSON.of_key(key)
    assert form is not None
    claim = stored(
        "v1", "PersistentVolumeClaim", {"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    )
    read = json.loads(form.from_storage(key, claim))
    assert (read["status"]["phase"], read["spec"]["volumeMode"]) == ("Pending", "Filesystem")


def test_a_policy_kept_in_a_version_that_is_not_served_is_read() -> None:
    key = "/registry/admissionregistration.k8s.io/mutatingadmissionpolicies/a"
    form = _JSON.of_key(key)
    assert form is not None
    tree = {"metadata": {"name": "a"}, "spec": {"reinvocationPolicy": "Never", "failurePolicy": "Ignore"}}
    message = protobuf.message_of_tree("admissionregistration.k8s.io/v1", {"kind": "MutatingAdmissionPolicy", **tree})
    kept = protobuf.envelope("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", message)
    read = json.loads(form.from_storage(key, kept))
    assert read["apiVersion"] == "admissionregistration.k8s.io/v1"
    assert read["spec"]["failurePolicy"] == "Ignore"


_NAMES = {"plural": "cars", "singular": "car", "kind": "Car", "listKind": "CarList"}


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        pytest.param(
            {
                "version": "v1",
                "versions": [
                    {"name": "v1", "served": True, "storage": True},
                    {"name": "v2", "served": True, "storage": False},
                ],
                "validation": {"openAPIV3Schema": {"type": "object"}},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [
                    {"name": "Age", "type": "date", "JSONPath": ".metadata.creationTimestamp"}
                ],
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": False,
            },
            {
                "versions": [
                    {
                        "name": name,
                        "served": True,
                        "storage": name == "v1",
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": [
                            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
                        ],
                    }
                    for name in ("v1", "v2")
                ],
                "conversion": {"strategy": "None"},
            },
            id="what versions have in common",
        ),
        pytest.param(
            {
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v2", "served": True, "storage": False},
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhookClientConfig": {"url": "https://example.com"},
                    "conversionReviewVersions": ["v1"],
                },
                "preserveUnknownFields": True,
            },
            {
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
                    {"name": "v2", "served": True, "storage": False},
                ],
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {"clientConfig": {"url": "https://example.com"}, "conversionReviewVersions": ["v1"]},
                },
                "preserveUnknownFields": True,
            },
            id="what they do not",
        ),
        pytest.param(
            {"version": "v1"},
            {
                "versions": [{"name": "v1", "served": True, "storage": True}],
                "conversion": {"strategy": "None"},
                "preserveUnknownFields": True,
            },
            id="one version",
        ),
    ],
)
def test_a_definition_is_read_as_kube_apiserver_keeps_it(kept: dict[str, Any], wanted: dict[str, Any]) -> None:
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/cars.example.com"
    form = _JSON.of_key(key)
    assert form is not None
    common = {"group": "example.com", "names": _NAMES, "scope": "Namespaced"}
    head = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1beta1"}
    tree = {**head, "metadata": {"name": "cars.example.com"}, "spec": {**common, **kept}}
    read = json.loads(form.from_storage(key, json.dumps(tree).encode()))
    assert read["apiVersion"] == "apiextensions.k8s.io/v1"
    assert read["spec"] == {**common, **wanted}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (stored("v1", "Secret", {"metadata": {}}), "it is a Secret of version 'v1'"),
        (b'{"kind":"ConfigMap","apiVersion":"v9"}', "it is a ConfigMap of version 'v9'"),
        (protobuf.MAGIC + b"\x12\xff", "it is no ConfigMap that this server knows"),
        (b"nonsense", "it is no ConfigMap that this server knows"),
        (b"[]", "it is no ConfigMap that this server knows"),
    ],
)
def test_what_cannot_be_read_is_told(value: bytes, reason: str) -> None:
    form = _JSON.of_key("/registry/core/configmaps/default/a")
    assert form is not None
    with pytest.raises(Untransformable, match="/registry/core/configmaps/default/a") as caught:
        form.from_storage("/registry/core/configmaps/default/a", value)
    assert reason in str(caught.value)


@needs_etcd
def test_a_server_starts_with_what_kube_apiserver_has_written_and_writes_it_anew() -> None:
    async def run() -> None:
        prefix = new_prefix()
        key = f"{prefix}/configmaps/default/a".encode()
        tree = {"metadata": {"name": "a", "namespace": "default", "uid": "1"}, "data": {"b": "c"}}
        async with client_of(shared_server().endpoint) as etcd:
            await etcd.put(key, stored("v1", "ConfigMap", tree))
            for media_type, begin in ((JSON, b'{"kind":"ConfigMap"'), (protobuf.MEDIA_TYPE, protobuf.MAGIC)):
                store = TransformingStore(etcd_store(prefix), StoredForms(media_type).of_key)
                async with opened(store) as server:
                    api = client_of_server(server)
                    found = await api.get(core_v1.ConfigMap, "a", "default")
                    assert found.data == {"b": "c"}
                    found = await api.update(found)  # nothing is changed but the form
                    assert (await etcd.range(key)).kvs[0].value.startswith(begin)
                    found.metadata.labels = {"media": media_type.partition("/")[2].replace("/", "-")}
                    written = await api.update(found)
                    assert (await etcd.range(key)).kvs[0].value.startswith(begin)
                    assert written == await api.get(core_v1.ConfigMap, "a", "default")

    asyncio.run(run())


@needs_etcd
def test_what_cannot_be_read_takes_nothing_else_away() -> None:
    async def run() -> None:
        prefix = new_prefix()
        bad = f"{prefix}/configmaps/default/a".encode()
        async with client_of(shared_server().endpoint) as etcd:
            await etcd.put(bad, b'{"kind":"ConfigMap","apiVersion":"v9"}')
            async with opened(TransformingStore(etcd_store(prefix), _JSON.of_key)) as server:
                api = client_of_server(server)
                later = f"{prefix}/configmaps/default/later".encode()
                await etcd.put(later, b"nonsense")
                assert await api.get(core_v1.Namespace, "default")
                for ask in (partial(api.list, core_v1.ConfigMap), partial(api.get, core_v1.ConfigMap, "a", "default")):
                    with pytest.raises(ApiError, match="it is a ConfigMap of version 'v9'") as caught:
                        await ask()
                    assert caught.value.code == 500
                with pytest.raises(ApiError, match="it is no ConfigMap that this server knows"):
                    await api.get(core_v1.ConfigMap, "later", "default")
                assert not server.context.objects.store_errors[0]
                await etcd.delete(bad)
                await etcd.delete(later)
                assert await api.list(core_v1.ConfigMap, "default")

    asyncio.run(run())

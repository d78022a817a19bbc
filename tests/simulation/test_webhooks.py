"""Functions answer admission webhooks in virtual time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support import virtual_time
from bayplan.testing.builders import metadata, pod

URL = "https://injector.default.svc:443/pods"
Tree = dict[str, Any]


def configuration(**more: Any) -> Tree:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    webhook = {
        "name": "injector.example.com",
        "clientConfig": {"url": URL},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "injector"},
        "webhooks": [webhook],
    }


def test_a_function_changes_pods() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            sidecar = {"name": "sidecar", "image": "helper:1"}
            add = {"op": "add", "path": "/spec/containers/-", "value": sidecar}
            cluster.webhooks[URL] = lambda request: {"patch": [add]}
            await cluster.apply(configuration())
            await cluster.client.create(pod("web"))
            found = await cluster.client.get(core_v1.Pod, "web", "default")
            assert [one.name for one in found.spec.containers][-1] == "sidecar"

    virtual_time.run(main())


def test_a_function_may_take_its_time_but_not_too_long() -> None:
    async def main() -> None:
        async def slow(request: Tree) -> Tree:
            await asyncio.sleep(30 if request["name"] == "late" else 5)
            return {}

        async with VirtualCluster(nodes=1) as cluster:
            cluster.webhooks[URL] = slow
            await cluster.apply(configuration(timeoutSeconds=7))
            await cluster.client.create(pod("web"))
            with pytest.raises(ApiError, match="context deadline exceeded"):
                await cluster.client.create(pod("late"))

    virtual_time.run(main())


def test_a_webhook_without_a_function_fails_requests_and_says_why() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            cluster.webhooks["https://other.test/"] = lambda request: {}
            await cluster.apply(configuration())
            with pytest.raises(
                ApiError, match=r"no function answers for it; there are functions for: https://other\.test/"
            ):
                await cluster.client.create(pod("web"))

    virtual_time.run(main())


def test_a_service_has_to_lead_somewhere() -> None:
    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            cluster.webhooks[URL] = lambda request: {"allowed": False}
            service = {"namespace": "default", "name": "injector", "path": "/pods"}
            spec = {"selector": {"app": "injector"}, "ports": [{"name": "https", "port": 443, "targetPort": 9443}]}
            named = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "injector"}, "spec": spec}
            others = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
            await cluster.apply(named, configuration(clientConfig={"service": service}, objectSelector=others))
            with pytest.raises(ApiError, match='no endpoints available for service "injector"'):
                await cluster.client.create(pod("web"))
            labels = {"app": "injector"}
            await cluster.client.create(
                core_v1.Pod(metadata=metadata("hook", "default", labels=labels), spec=pod("x").spec)
            )

            async def is_asked() -> bool:
                try:
                    await cluster.client.create(pod("web"))
                except ApiError as error:
                    return "denied the request" in error.message
                return False

            assert await cluster.eventually(is_asked, within=60)
            listed = json.loads(await cluster.client.raw("GET", "/api/v1/namespaces/default/pods"))
            assert [one["metadata"]["name"] for one in listed["items"]] == ["hook"]

    virtual_time.run(main())


def test_a_function_converts_custom_resources() -> None:
    url = "https://converter.default.svc:443/convert"

    def convert(request: Tree) -> Tree:
        version = request["desiredAPIVersion"]
        return {"convertedObjects": [{**one, "apiVersion": version, "to": version} for one in request["objects"]]}

    schema = {"type": "object", "properties": {"to": {"type": "string"}}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
                for name in ("v1", "v2")
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]},
            },
        },
    }

    async def main() -> None:
        async with VirtualCluster(nodes=1) as cluster:
            cluster.webhooks[url] = convert
            await cluster.apply(definition)
            path = "/apis/example.com/{}/namespaces/default/things"
            thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}

            async def is_made() -> bool:
                try:
                    await cluster.client.raw("POST", path.format("v1"), {}, json.dumps(thing).encode())
                except ApiError:  # it is not served yet
                    return False
                return True

            assert await cluster.eventually(is_made, within=60)
            found = json.loads(await cluster.client.raw("GET", f"{path.format('v2')}/x"))
            assert (found["apiVersion"], found["to"]) == ("example.com/v2", "example.com/v2")

            def fail(request: Tree) -> Tree:
                return {"result": {"status": "Failure", "message": "no"}}

            cluster.webhooks[url] = fail
            new = {**thing, "apiVersion": "example.com/v2", "metadata": {"name": "y"}}
            with pytest.raises(ApiError, match=r"conversion webhook for example\.com/v2, Kind=Thing failed: no"):
                await cluster.client.raw("POST", path.format("v2"), {}, json.dumps(new).encode())

    virtual_time.run(main())

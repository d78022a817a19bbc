"""Webhooks that change objects."""

from __future__ import annotations

import asyncio
import json

import pytest

from bayplan.api.errors import ApiError
from tests.apiserver.webhooks.senders import MAPS, RULE, Tree, config_map, configure, create, patch, webhooks

PODS = "/api/v1/namespaces/default/pods"


def add(path: str, value: object) -> Tree:
    return {"op": "add", "path": path, "value": value}


def test_a_webhook_is_told_all_and_changes_an_object() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "label", lambda request: patch(add("/metadata/labels", {"made": "so"})))
            made = await create(client, MAPS, config_map("one", {"a": "b"}), fieldManager="me")
            assert made["metadata"]["labels"] == {"made": "so"}
            (asked,) = sender.asked
            assert asked["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
            assert (
                asked["resource"]
                == asked["requestResource"]
                == {"group": "", "version": "v1", "resource": "configmaps"}
            )
            assert (asked["operation"], asked["name"], asked["namespace"]) == ("CREATE", "one", "default")
            assert asked["userInfo"]["username"] == "gold-admin"
            assert asked["object"]["data"] == {"a": "b"}
            assert (asked["object"]["kind"], asked["object"]["apiVersion"]) == ("ConfigMap", "v1")
            assert asked["oldObject"] is None
            assert asked["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
            assert asked["dryRun"] is False
            changed = json.loads(
                await client.raw("PATCH", f"{MAPS}/one", {}, b'{"data":{"a":"c"}}', "application/merge-patch+json")
            )
            assert changed["data"] == {"a": "c"}
            assert sender.asked[1]["operation"] == "UPDATE"
            assert sender.asked[1]["oldObject"]["data"] == {"a": "b"}
            assert sender.asked[1]["options"]["kind"] == "PatchOptions"

    asyncio.run(main())


def test_what_a_webhook_adds_is_defaulted_and_checked() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            rule = {**RULE, "resources": ["pods"], "operations": ["CREATE"]}
            sidecar = add("/spec/containers/-", {"name": "sidecar", "image": "helper:1"})
            await configure(client, sender, "inject", lambda request: patch(sidecar), rules=[rule])
            await create(client, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
            pod = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
            made = await create(client, PODS, pod)
            assert [one["name"] for one in made["spec"]["containers"]] == ["web", "sidecar"]
            assert made["spec"]["containers"][1]["imagePullPolicy"] == "IfNotPresent"
            assert made["metadata"]["uid"]
            sidecar["value"] = {"name": "sidecar"}
            with pytest.raises(ApiError, match=r"spec\.containers\[1\]\.image: Required value"):
                await create(client, PODS, {**pod, "metadata": {"name": "other"}})

    asyncio.run(main())


def test_webhooks_are_asked_in_order_of_name_and_again_if_they_want_to_see_changes() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            order: list[str] = []

            def first(request: Tree) -> Tree:
                order.append("first")
                seen = len(request["object"]["data"])
                return patch(add("/data/first", str(seen)))

            def second(request: Tree) -> Tree:
                order.append("second")
                return patch(add("/data/second", "x")) if "second" not in request["object"]["data"] else {}

            await configure(client, sender, "b-second", second)
            await configure(client, sender, "a-first", first, reinvocationPolicy="IfNeeded")
            made = await create(client, MAPS, config_map("one", {"given": "x"}))
            assert order == ["first", "second", "first"]
            assert made["data"] == {"given": "x", "first": "3", "second": "x"}

    asyncio.run(main())


def test_deletions_cannot_be_changed() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            rule = {**RULE, "operations": ["DELETE"]}
            await configure(client, sender, "late", lambda request: patch(add("/data", {})), rules=[rule])
            await create(client, MAPS, config_map("one"))
            with pytest.raises(
                ApiError, match="attempted to modify the object, which is not supported for this operation"
            ):
                await client.raw("DELETE", f"{MAPS}/one")
            assert sender.asked[0]["object"] is None
            assert sender.asked[0]["oldObject"]["metadata"]["name"] == "one"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("response", "why"),
    [
        ({"uid": "other"}, 'received invalid webhook response: expected response.uid="'),
        ({"patch": "W10="}, "webhook returned response.patch but not response.patchType"),
        ({"patchType": "JSONPatch"}, "webhook returned response.patchType but not response.patch"),
        ({"patch": "W10=", "patchType": "Merge"}, 'unsupported patch type "Merge"'),
        ({"patch": "!", "patchType": "JSONPatch"}, "received undecodable patch in webhook response"),
    ],
)
def test_an_answer_that_is_none_fails_the_request(response: Tree, why: str) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "odd", lambda request: response)
            with pytest.raises(ApiError) as refused:
                await create(client, MAPS, config_map("one"))
            assert refused.value.code == 500
            assert 'Internal error occurred: failed calling webhook "odd.example.com": ' in refused.value.message
            assert why in refused.value.message

    asyncio.run(main())


def test_an_object_is_shown_in_the_version_that_a_webhook_knows() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            resources = {"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
            rule = {**resources, "operations": ["CREATE"]}
            change = add("/spec/targetCPUUtilizationPercentage", 33)
            await configure(
                client, sender, "old", lambda request: patch(change), rules=[rule], matchPolicy="Equivalent"
            )
            spec = {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
            where = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
            made = await create(client, where, {"metadata": {"name": "web"}, "spec": spec})
            (asked,) = sender.asked
            assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
            assert asked["object"]["spec"]["targetCPUUtilizationPercentage"] == 80
            assert made["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 33
            await client.raw("DELETE", f"{where}/web")
            sender.asked.clear()
            merge = b'[{"op":"replace","path":"/webhooks/0/matchPolicy","value":"Exact"}]'
            configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/old"
            await client.raw("PATCH", configuration, {}, merge, "application/json-patch+json")
            await create(client, where, {"metadata": {"name": "web"}, "spec": spec})
            assert not sender.asked

    asyncio.run(main())

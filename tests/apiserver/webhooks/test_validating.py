"""Webhooks that refuse requests, and which of them are asked."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from bayplan.api.errors import ApiError
from tests.apiserver.webhooks.senders import CONFIGURATIONS, MAPS, RULE, Tree, config_map, configure, create, webhooks

NAMESPACES = "/api/v1/namespaces"


def refuse(**status: object) -> Tree:
    return {"allowed": False, "status": status} if status else {"allowed": False}


@pytest.mark.parametrize(
    ("response", "code", "message"),
    [
        (refuse(), 400, 'admission webhook "no.example.com" denied the request without explanation'),
        (
            refuse(message="not so", code=403, reason="Forbidden"),
            403,
            'webhook "no.example.com" denied the request: not so',
        ),
        (refuse(reason="Invalid", code=200), 400, 'webhook "no.example.com" denied the request: Invalid'),
    ],
)
def test_a_refusal_is_told(response: Tree, code: int, message: str) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "no", lambda request: response, mutating=False)
            with pytest.raises(ApiError) as refused:
                await create(client, MAPS, config_map("one"))
            assert (refused.value.code, refused.value.message.endswith(message)) == (code, True)
            with pytest.raises(ApiError, match="not found"):
                await client.raw("GET", f"{MAPS}/one")

    asyncio.run(main())


def test_warnings_reach_the_client() -> None:
    async def main() -> None:
        from bayplan.apiserver.requests import Request
        from tests.apiserver.serving import ADMIN

        async with webhooks() as (api, client, sender):
            await configure(client, sender, "warn", lambda request: {"warnings": ["mind the gap"]}, mutating=False)
            request = Request("POST", MAPS, {}, ADMIN, json.dumps(config_map("one")).encode(), "application/json")
            answer = await api.handle(request)
            assert (answer.code, list(answer.warnings)) == (201, ["mind the gap"])

    asyncio.run(main())


def test_a_webhook_that_is_not_reached_fails_the_request_or_does_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "away", lambda request: {}, mutating=False, timeoutSeconds=3)
            sender.hooks.clear()
            with pytest.raises(ApiError) as refused:
                await create(client, MAPS, config_map("one"))
            assert refused.value.message == (
                'Internal error occurred: failed calling webhook "away.example.com": failed to call webhook: '
                'Post "https://hooks.test/away?timeout=3s": dial tcp: connect: connection refused'
            )
            ignore = b'[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'
            path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/away"
            await client.raw("PATCH", path, {}, ignore, "application/json-patch+json")
            with caplog.at_level(logging.WARNING):
                await create(client, MAPS, config_map("one"))
            assert any("away.example.com" in message for message in caplog.messages)

    asyncio.run(main())


def test_a_dry_run_asks_only_webhooks_without_side_effects() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "pure", lambda request: {}, mutating=False)
            await create(client, MAPS, config_map("one"), dryRun="All")
            assert sender.asked[0]["dryRun"] is True
            assert sender.asked[0]["options"]["dryRun"] == ["All"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({}, True),
        ({"rules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, True),
        ({"rules": [{**RULE, "resources": ["configmaps/status"]}]}, False),
        ({"rules": [{**RULE, "resources": ["configmaps/*"]}]}, True),
        ({"rules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"rules": [{**RULE, "scope": "Namespaced"}]}, True),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, True),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}, False),
    ],
)
def test_a_webhook_is_asked_about_what_it_names(more: dict[str, Any], asked: bool) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            await configure(client, sender, "some", lambda request: {}, mutating=False, **more)
            await create(client, MAPS, config_map("one", labels={"a": "b"}))
            assert bool(sender.asked) is asked

    asyncio.run(main())


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("object.metadata.name == 'one'", True),
        ("object.metadata.name != 'one'", False),
        ("request.userInfo.username.startsWith('gold-')", True),
        ("has(object.data) && 'a' in object.data", False),
        ("authorizer.group('').resource('configmaps').check('create').allowed()", True),
        ("oldObject == null", True),
    ],
)
def test_a_webhook_is_asked_if_its_conditions_hold(expression: str, asked: bool) -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            conditions = [{"name": "first", "expression": "true"}, {"name": "second", "expression": expression}]
            await configure(client, sender, "some", lambda request: {}, mutating=False, matchConditions=conditions)
            await create(client, MAPS, config_map("one"))
            assert bool(sender.asked) is asked

    asyncio.run(main())


def test_a_condition_that_cannot_be_evaluated_fails_the_request_or_skips_the_webhook() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            conditions = [{"name": "odd", "expression": "object.data.nosuch == 'x'"}]
            await configure(client, sender, "odd", lambda request: {}, mutating=False, matchConditions=conditions)
            with pytest.raises(ApiError, match="no such key: nosuch") as refused:
                await create(client, MAPS, config_map("one", {"a": "b"}))
            assert refused.value.code == 403
            ignore = b'[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]'
            path = f"{CONFIGURATIONS}/validatingwebhookconfigurations/odd"
            await client.raw("PATCH", path, {}, ignore, "application/json-patch+json")
            await create(client, MAPS, config_map("one", {"a": "b"}))
            assert not sender.asked

    asyncio.run(main())


def test_namespaces_are_selected_by_their_own_labels_and_cluster_objects_by_none() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            rule = {**RULE, "resources": ["namespaces", "nodes"]}
            selector = {"matchLabels": {"watched": "yes"}}
            await configure(
                client, sender, "some", lambda _: {}, mutating=False, rules=[rule], namespaceSelector=selector
            )
            await create(client, NAMESPACES, {"metadata": {"name": "quiet"}})
            await create(client, NAMESPACES, {"metadata": {"name": "loud", "labels": {"watched": "yes"}}})
            await create(client, "/api/v1/nodes", {"metadata": {"name": "node"}})
            assert [one["name"] for one in sender.asked] == ["loud", "node"]

    asyncio.run(main())


def test_nobody_is_asked_about_the_configurations_themselves() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
            await configure(client, sender, "all", lambda _: refuse(), mutating=False, rules=[everything])
            with pytest.raises(ApiError, match="denied"):
                await create(client, MAPS, config_map("one"))
            await client.raw("DELETE", f"{CONFIGURATIONS}/validatingwebhookconfigurations/all")
            await create(client, MAPS, config_map("one"))

    asyncio.run(main())


def test_subresources_are_shown_as_what_they_take() -> None:
    async def main() -> None:
        async with webhooks() as (_, client, sender):
            rule = {**RULE, "resources": ["pods/binding", "pods/eviction", "pods/status"]}
            await configure(client, sender, "sub", lambda _: {}, mutating=False, rules=[rule])
            await create(client, f"{NAMESPACES}/default/serviceaccounts", {"metadata": {"name": "default"}})
            pods = f"{NAMESPACES}/default/pods"
            await create(
                client, pods, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
            )
            binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            await create(client, f"{pods}/p/binding", binding)
            status = b'{"status":{"phase":"Running"}}'
            await client.raw("PATCH", f"{pods}/p/status", {}, status, "application/merge-patch+json")
            await create(client, f"{pods}/p/eviction", {"metadata": {"name": "p"}})
            kinds = [(one["subResource"], one["kind"]["group"], one["kind"]["kind"]) for one in sender.asked]
            assert kinds == [("binding", "", "Binding"), ("status", "", "Pod"), ("eviction", "policy", "Eviction")]
            assert sender.asked[0]["object"]["target"]["name"] == "n"

    asyncio.run(main())

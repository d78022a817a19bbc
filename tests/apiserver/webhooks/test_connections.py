"""Connections to pods, services and nodes (CONNECT): webhooks and policies judge them before anybody is dialled."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qsl

import pytest
from multidict import MultiDict

from bayplan.api.types import admissionregistration_v1 as types
from bayplan.api.types import core_v1, meta_v1
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client
from tests.apiserver.admission.test_validating_admission_policy import policy, rule
from tests.apiserver.serving import ADMIN, client_of, opened
from tests.apiserver.webhooks.senders import Tree, configure, patch, webhooks

PODS = "/api/v1/namespaces/default/pods"
RULES = [{"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*/*"]}]


async def make_pod(client: Client) -> None:
    """A pod with two containers on a node with a kubelet."""
    await client.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
    address = core_v1.NodeAddress(type="InternalIP", address="192.0.2.1")
    endpoints = core_v1.NodeDaemonEndpoints(kubelet_endpoint=core_v1.DaemonEndpoint(port=10250))
    node = await client.create(core_v1.Node(metadata=meta_v1.ObjectMeta(name="n")))
    node.status = core_v1.NodeStatus(addresses=(address,), daemon_endpoints=endpoints)
    await client.update_status(node)
    containers = tuple(core_v1.Container(name=name, image="x") for name in ("a", "b"))
    metadata = meta_v1.ObjectMeta(name="p", namespace="default", labels={"app": "x"})
    await client.create(core_v1.Pod(metadata=metadata, spec=core_v1.PodSpec(containers=containers, node_name="n")))


async def ask(api: ApiServer, path: str, query: str = "", method: str = "POST") -> Response:
    return await api.handle(Request(method, path, MultiDict(parse_qsl(query)), ADMIN))


@pytest.mark.parametrize(
    ("path", "query", "about", "kind", "expected"),
    [
        (
            f"{PODS}/p/exec",
            "command=ls&command=-l&container=a&stdin=true&tty=1",
            ("pods", "p", "exec"),
            "PodExecOptions",
            {"stdin": True, "tty": True, "container": "a", "command": ["ls", "-l"]},
        ),
        (f"{PODS}/p/attach", "stdout=true", ("pods", "p", "attach"), "PodAttachOptions", {"stdout": True}),
        (
            f"{PODS}/p/portforward",
            "ports=80&ports=8080",
            ("pods", "p", "portforward"),
            "PodPortForwardOptions",
            {"ports": [80, 8080]},
        ),
        (f"{PODS}/p:80/proxy/a/b", "", ("pods", "p:80", "proxy"), "PodProxyOptions", {"path": "/a/b"}),
        (
            "/api/v1/namespaces/default/services/http:s:80/proxy",
            "",
            ("services", "http:s:80", "proxy"),
            "ServiceProxyOptions",
            {},
        ),
        ("/api/v1/nodes/n/proxy/logs", "", ("nodes", "n", "proxy"), "NodeProxyOptions", {"path": "/logs"}),
    ],
)
def test_webhooks_see_what_is_asked_for(
    path: str, query: str, about: tuple[str, str, str], kind: str, expected: Tree
) -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            await make_pod(client)
            refused = {"allowed": False, "status": {"message": "no way", "code": 403}}
            await configure(client, sender, "no", lambda request: refused, mutating=False, rules=RULES)
            response = await ask(api, path, query)
            assert (response.code, response.relay) == (403, None)
            assert b'admission webhook \\"no.example.com\\" denied the request: no way' in response.body
            (asked,) = sender.asked
            assert (asked["operation"], asked["options"], asked["oldObject"]) == ("CONNECT", None, None)
            assert asked["kind"] == {"group": "", "version": "v1", "kind": kind}
            assert (asked["resource"]["resource"], asked["name"], asked["subResource"]) == about
            shown = {key: value for key, value in asked["object"].items() if value}
            assert shown == {"kind": kind, "apiVersion": "v1", **expected}

    asyncio.run(main())


def test_a_pod_that_is_not_there_is_judged_first() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            assert (await ask(api, f"{PODS}/nobody/attach")).code == 404
            await configure(client, sender, "no", lambda request: {"allowed": False}, mutating=False, rules=RULES)
            assert (await ask(api, f"{PODS}/nobody/attach")).code == 400

    asyncio.run(main())


def test_logs_are_read_not_connected_to() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            await make_pod(client)
            await configure(client, sender, "no", lambda request: {"allowed": False}, mutating=False, rules=RULES)
            response = await ask(api, f"{PODS}/p/log", "container=a", "GET")
            assert response.relay is not None
            assert sender.asked == []

    asyncio.run(main())


def test_webhooks_may_change_the_options() -> None:
    async def main() -> None:
        async with webhooks() as (api, client, sender):
            await make_pod(client)
            changes = patch(
                {"op": "replace", "path": "/container", "value": "b"},
                {"op": "replace", "path": "/command", "value": ["id"]},
            )
            await configure(client, sender, "change", lambda request: changes, rules=RULES)
            relay = (await ask(api, f"{PODS}/p/exec", "command=ls&container=a&stdout=true")).relay
            assert relay is not None
            assert relay.path == "/exec/default/p/b"
            assert sorted(relay.query.split("&")) == ["command=id", "output=1"]

    asyncio.run(main())


def test_labels_of_objects_choose_no_connection() -> None:
    """Options have no labels: a webhook that looks at labels is not asked."""

    async def main() -> None:
        async with webhooks() as (api, client, sender):
            await make_pod(client)
            chosen: dict[str, Any] = {"objectSelector": {"matchLabels": {"app": "x"}}}
            await configure(
                client, sender, "no", lambda request: {"allowed": False}, mutating=False, rules=RULES, **chosen
            )
            assert (await ask(api, f"{PODS}/p/attach", "container=a")).relay is not None
            assert sender.asked == []

    asyncio.run(main())


def test_policies_judge_connections() -> None:
    async def main() -> None:
        async with opened() as api:
            client = client_of(api)
            await make_pod(client)
            match = rule(operations=("CONNECT",), resources=("pods/exec",))
            await policy(
                client,
                "!has(object.stdin) && request.subResource == 'exec'",
                match=types.MatchResources(resource_rules=(match,)),
            )
            response = await ask(api, f"{PODS}/p/exec", "command=sh&container=a&stdin=true")
            assert response.code == 422
            assert (await ask(api, f"{PODS}/p/exec", "command=sh&container=a")).relay is not None
            assert (await ask(api, f"{PODS}/p/attach", "container=a&stdin=true")).relay is not None

    asyncio.run(main())

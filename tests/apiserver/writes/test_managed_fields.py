"""Managed fields through the API: every way to write records its writer, and server-side apply works over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import new_api

ADMIN = User("admin", ("system:masters",))
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


class Writer:
    """A client of one server that names itself."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def send(
        self, method: str, path: str, body: Any, manager: str = "", content_type: str = "application/json", **query: str
    ) -> tuple[int, Any]:
        if manager:
            query["fieldManager"] = manager
        data = msgspec.json.encode(body)
        request = Request(method, path, query, ADMIN, data, content_type, user_agent="tester/1.0 (linux)")
        response = await self.server.handle(request)
        return response.code, msgspec.json.decode(response.body)

    async def apply(self, path: str, body: Any, manager: str, **query: str) -> tuple[int, Any]:
        return await self.send("PATCH", path, body, manager, APPLY, **query)


def played(story: Callable[[Writer], Awaitable[None]]) -> None:
    async def run() -> None:
        server = new_api()
        await server.open()
        await story(Writer(server))
        await server.close()

    asyncio.run(run())


def managers(obj: Any) -> dict[tuple[str, str, str], Any]:
    return {
        (one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"]
        for one in obj["metadata"].get("managedFields", ())
    }


def config_map(name: str, **data: str) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(replicas: int | None = None) -> Any:
    labels = {"app": "web"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def test_without_a_name_the_user_agent_is_the_manager() -> None:
    async def story(writer: Writer) -> None:
        _, made = await writer.send("POST", CONFIG_MAPS, config_map("a", x="1"))
        assert managers(made) == {("tester", "Update", ""): {"f:data": {".": {}, "f:x": {}}}}

    played(story)


def test_status_and_main_resource_have_managers_of_their_own() -> None:
    async def story(writer: Writer) -> None:
        await writer.send("POST", DEPLOYMENTS, deployment(), "creator")
        body = {**deployment(5), "status": {"replicas": 3, "observedGeneration": 1}}
        code, changed = await writer.send("PATCH", f"{DEPLOYMENTS}/web/status", body, "controller", MERGE)
        assert code == 200
        assert managers(changed)[("controller", "Update", "status")] == {
            "f:status": {"f:observedGeneration": {}, "f:replicas": {}}
        }
        assert "f:replicas" in managers(changed)[("creator", "Update", "")]["f:spec"]

    played(story)


def test_scaling_takes_the_replicas_from_who_applied_them() -> None:
    async def story(writer: Writer) -> None:
        await writer.apply(f"{DEPLOYMENTS}/web", deployment(1), "one")
        code, _ = await writer.send("PATCH", f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}}, "hpa", MERGE)
        assert code == 200
        _, found = await writer.send("GET", f"{DEPLOYMENTS}/web", None)
        assert managers(found)[("hpa", "Update", "scale")] == {"f:spec": {"f:replicas": {}}}
        assert "f:replicas" not in managers(found)[("one", "Apply", "")]["f:spec"]
        code, answer = await writer.apply(f"{DEPLOYMENTS}/web", deployment(2), "one")
        assert code == 409
        assert answer["details"]["causes"][0]["field"] == ".spec.replicas"

    played(story)


def test_a_binding_is_nobodys() -> None:
    async def story(writer: Writer) -> None:
        await writer.send(
            "POST",
            "/api/v1/namespaces/default/serviceaccounts",
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}},
        )
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        _, made = await writer.send("POST", PODS, pod, "creator")
        await writer.send("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}, "sched")
        _, bound = await writer.send("GET", f"{PODS}/p", None)
        assert bound["spec"]["nodeName"] == "n"
        assert managers(bound) == managers(made)

    played(story)


def test_a_write_that_changes_nothing_leaves_managers_and_revision_alone() -> None:
    async def story(writer: Writer) -> None:
        _, first = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"), "one")
        _, again = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"), "one")
        _, put = await writer.send("PUT", f"{CONFIG_MAPS}/a", again, "two")
        assert first == again == put

    played(story)


@pytest.mark.parametrize("reset", [[], [{}]])
def test_managers_can_be_forgotten(reset: list[Any]) -> None:
    async def story(writer: Writer) -> None:
        await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"), "one")
        body = {"metadata": {"managedFields": reset}}
        _, found = await writer.send("PATCH", f"{CONFIG_MAPS}/a", body, "two", MERGE)
        assert "managedFields" not in found["metadata"]
        _, applied = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="1"), "three")
        assert set(managers(applied)) == {("before-first-apply", "Update", ""), ("three", "Apply", "")}

    played(story)


def test_fields_of_kubectl_apply_move_to_server_side_apply_without_conflict() -> None:
    async def story(writer: Writer) -> None:
        config = config_map("a", x="1", y="1")
        last = msgspec.json.encode(config).decode()
        annotated = {
            **config,
            "metadata": {"name": "a", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}},
        }
        await writer.send("POST", CONFIG_MAPS, annotated, "kubectl-client-side-apply")
        code, found = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="2", y="1"), "kubectl")
        assert code == 200
        assert found["data"] == {"x": "2", "y": "1"}
        kept = found["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
        assert msgspec.json.decode(kept)["data"] == {"x": "2", "y": "1"}
        code, _ = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a", x="3"), "somebody-else")
        assert code == 409

    played(story)


def test_managers_of_another_version_lose_fields_as_well() -> None:
    async def story(writer: Writer) -> None:
        path = "namespaces/default/horizontalpodautoscalers"
        target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
        old = {"metadata": {"name": "h"}, "spec": {**target, "maxReplicas": 3}}
        await writer.send("POST", f"/apis/autoscaling/v1/{path}", old, "old")
        body = {"spec": {"maxReplicas": 5}}
        _, found = await writer.send("PATCH", f"/apis/autoscaling/v2/{path}/h", body, "new", MERGE)
        assert managers(found)[("new", "Update", "")] == {"f:spec": {"f:maxReplicas": {}}}
        assert "f:maxReplicas" not in managers(found)[("old", "Update", "")]["f:spec"]

    played(story)


def test_an_apply_needs_a_manager_and_only_an_apply_may_be_forced() -> None:
    async def story(writer: Writer) -> None:
        code, answer = await writer.apply(f"{CONFIG_MAPS}/a", config_map("a"), "")
        assert (code, answer["details"]["causes"][0]["field"]) == (422, "fieldManager")
        await writer.send("POST", CONFIG_MAPS, config_map("a"))
        code, answer = await writer.send("PATCH", f"{CONFIG_MAPS}/a", {}, "", MERGE, force="true")
        assert (code, answer["details"]["causes"][0]["field"]) == (422, "force")

    played(story)


def test_no_conflict_is_missed_when_managers_apply_at_once() -> None:
    async def story(writer: Writer) -> None:
        configs = [config_map("a", **{f"k{number}": "v"}) for number in range(40)]
        answers = await asyncio.gather(
            *(writer.apply(f"{CONFIG_MAPS}/a", config, f"m{number}") for number, config in enumerate(configs))
        )
        assert sorted(code for code, _ in answers if code not in (200, 201)) in ([], [409] * len(answers))
        _, found = await writer.send("GET", f"{CONFIG_MAPS}/a", None)
        made = {f"k{number}" for number, (code, _) in enumerate(answers) if code < 300}
        assert set(found["data"]) == made
        assert len(managers(found)) == len(made)

    played(story)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ('{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},}', 201, ""),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", 201, ""),
        ("{apiVersion: v1", 400, "error decoding YAML: error converting YAML to JSON: yaml: "),
    ],
)
def test_configurations_are_yaml_also_when_they_look_like_json(text: str, code: int, message: str) -> None:
    async def story(writer: Writer) -> None:
        request = Request("PATCH", f"{CONFIG_MAPS}/a", {"fieldManager": "me"}, ADMIN, text.encode(), APPLY)
        response = await writer.server.handle(request)
        assert response.code == code
        assert msgspec.json.decode(response.body).get("message", "").startswith(message)

    played(story)

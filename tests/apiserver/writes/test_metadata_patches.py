"""Patches of nothing but metadata: the rest of the object is not taken apart, and what comes of them is what would come of the whole."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.verbs.patch import Patch
from tests.apiserver.limits.bounded_requests import MERGE_PATCH, STRATEGIC_PATCH, ask
from tests.apiserver.serving import ADMIN, opened

_CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000m"}}}
_LABELS = {"app": "web", "tier": "front"}
_METADATA = {"labels": _LABELS, "annotations": {"a": "b", "c": "d"}, "finalizers": ["example.com/f"]}
_OBJECTS: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": {"data": {"k": "v"}, "binaryData": {"b": "AAE="}},
    "/api/v1/namespaces/default/secrets": {"stringData": {"k": "v"}},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 80}], "selector": _LABELS}},
    "/api/v1/namespaces/default/serviceaccounts": {"secrets": [{"name": "s"}]},
    "/api/v1/nodes": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}, "status": {"capacity": {"cpu": "4"}}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": {"containers": [_CONTAINER]}},
        }
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}}
    },
}  # fmt: skip
_PATCHES: list[dict[str, Any]] = [
    {"labels": {"app": "db", "tier": None, "new": "x"}},
    {"annotations": None},
    {"annotations": {"$patch": "replace", "z": "1"}},
    {"labels": {"$retainKeys": ["app"], "app": "x"}},
    {"finalizers": ["example.com/g"]},
    {"finalizers": None, "labels": {"app": "x"}},
    {"$deleteFromPrimitiveList/finalizers": ["example.com/f"]},
    {"labels": {"app": 5}},
    {"labels": {"app": "not a label"}},
    {"labels": "x"},
    {"labels": ["x"]},
    {"annotations": {"big": "x" * 300_000}},
    {"finalizers": ["none"]},
    {"uid": "00000000-0000-0000-0000-000000000000"},
    {"uid": 3},
    {"resourceVersion": "1"},
    {"resourceVersion": "x"},
    {"labels": {}},
    {},
]
_OWN = re.compile(rb'[0-9a-f]{8}-[0-9a-f-]{27}|20[0-9-]+T[0-9:]+Z|[0-9]+(?=[\\]+")|10\.0\.[0-9.]+')
"""Texts in answers that even equal objects do not share."""
_DIFFERS = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "name")


async def _made(api: ApiServer, path: str, name: str) -> None:
    code, answer = await ask(api, "POST", path, {"metadata": {"name": name, **_METADATA}, **_OBJECTS[path]})
    assert code == 201, answer


async def _patched(api: ApiServer, path: str, name: str, patch: Any, content_type: str) -> tuple[int, Any]:
    """The answer, without what differs between equal objects."""
    query = {"fieldManager": "m"}
    response = await api.handle(
        Request("PATCH", f"{path}/{name}", query, ADMIN, json.dumps(patch).encode(), content_type, "application/json")
    )
    answer = json.loads(_OWN.sub(b"", response.whole_body().replace(name.encode(), b"NAME")))
    metadata = answer["metadata"]
    managers = [
        {name: value for name, value in entry.items() if name != "time"} for entry in metadata.get("managedFields", ())
    ]
    answer["metadata"] = {key: value for key, value in metadata.items() if key not in _DIFFERS}
    answer["spec"] = {key: value for key, value in answer.get("spec", {}).items() if not key.startswith("clusterIP")}
    return response.code, (answer, managers)


@pytest.mark.parametrize("content_type", [MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("path", _OBJECTS)
def test_a_patch_of_metadata_gives_what_one_of_the_whole_gives(
    path: str, content_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with opened() as api:
            for number, metadata in enumerate(_PATCHES):
                answers = []
                for way in ("part", "whole"):
                    name = f"{way}-{number}"
                    await _made(api, path, name)
                    with monkeypatch.context() as patching:
                        if way == "whole":
                            patching.setattr(Patch, "_with_metadata", lambda *_: None)
                        answers.append(await _patched(api, path, name, {"metadata": metadata}, content_type))
                (code, part), (whole_code, whole) = answers
                assert (code, part) == (whole_code, whole), metadata

    asyncio.run(run())


def test_the_rest_of_the_object_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What admission changes of the new object is not changed in the old one, which caches and watchers share."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    seen: list[tuple[Any, Any]] = []
    original = Patch._with_metadata

    def watched(self: Patch, obj: Any) -> Any:
        new = original(self, obj)
        seen.append((obj, new))
        return new

    monkeypatch.setattr(Patch, "_with_metadata", watched)

    async def run() -> None:
        async with opened() as api:
            await _made(api, path, "web")
            assert (await _patched(api, path, "web", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH))[0] == 200

    asyncio.run(run())
    ((old, new),) = seen
    assert new.spec == old.spec
    assert new.spec is not old.spec
    assert new.spec.template.spec.containers[0] is not old.spec.template.spec.containers[0]

"""An empty `caBundle` is kept and not shown: leaving it out is a change that counts, even after the server was started again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from tests.apiserver.serving import opened

ADMIN = User("admin", ("system:masters",))


async def send(api: ApiServer, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
    data = json.dumps(body).encode() if body is not None else b""
    response = await api.handle(Request(method, path, {"fieldManager": "m"}, ADMIN, data, content_type))
    assert response.code < 300, response.body
    return json.loads(response.whole_body())


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_leaving_an_empty_bundle_out_counts_once(kind: str, tmp_path: Path) -> None:
    path = f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"

    def webhook(name: str, **bundle: str) -> dict[str, Any]:
        client = {"url": "https://127.0.0.1:1/", **bundle}
        selector = {"matchLabels": {"caBundle": ""}}
        more = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "objectSelector": selector}
        return {"name": name, "clientConfig": client, **more}

    async def run() -> None:
        store = f"sqlite:{tmp_path}/store.db"
        async with opened(open_store(store, clock=SystemClock())) as api:
            webhooks = [webhook("a.example.com", caBundle=""), webhook("b.example.com")]
            made = await send(api, "POST", path, {"metadata": {"name": "w"}, "webhooks": webhooks})
            assert made["metadata"]["generation"] == 1
            assert "caBundle" not in made["webhooks"][0]["clientConfig"]
            assert made["webhooks"][0]["objectSelector"] == {"matchLabels": {"caBundle": ""}}
            assert "f:caBundle" not in json.dumps(made["metadata"]["managedFields"])
            same = await send(api, "PUT", f"{path}/w", {**made, "webhooks": webhooks})
            assert same["metadata"]["generation"] == 1
        async with opened(open_store(store, clock=SystemClock())) as api:
            found = await send(api, "GET", f"{path}/w")
            assert found == same
            listed = (await send(api, "GET", path))["items"]
            assert [one["webhooks"] for one in listed if one["metadata"]["name"] == "w"] == [found["webhooks"]]
            left_out = await send(api, "PUT", f"{path}/w", found)
            assert left_out["metadata"]["generation"] == 2
            again = await send(api, "PUT", f"{path}/w", left_out)
            assert again["metadata"]["generation"] == 2
            patch = {"metadata": {"labels": {"a": "b"}}}
            patched = await send(api, "PATCH", f"{path}/w", patch, "application/merge-patch+json")
            assert patched["metadata"]["generation"] == 2
            assert patched["webhooks"] == made["webhooks"]

    asyncio.run(run())


def test_any_patch_leaves_an_empty_bundle_out(tmp_path: Path) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    webhook = {
        "name": "a.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": ""},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }

    async def run() -> None:
        async with opened(open_store("memory:", clock=SystemClock())) as api:
            await send(api, "POST", path, {"metadata": {"name": "w"}, "webhooks": [webhook]})
            for label in "ab":
                patch = {"metadata": {"labels": {"a": label}}}
                patched = await send(api, "PATCH", f"{path}/w", patch, "application/merge-patch+json")
                assert patched["metadata"]["generation"] == 2

    asyncio.run(run())

"""Messages that show an empty list or map as the client has sent it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.apiserver.requests import Request
from tests.apiserver.serving import ADMIN, opened

APPS = "/apis/apps/v1/namespaces/default/daemonsets"
NETWORKING = "/apis/networking.k8s.io/v1/servicecidrs"
DAEMON_SET = {
    "metadata": {"name": "d"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}


def with_labels(metadata: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(json.dumps(DAEMON_SET))
    tree["spec"]["template"]["metadata"] = metadata
    return tree


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [({}, "null"), ({"labels": {}}, "{}"), ({"labels": None}, "null"), ({"labels": {"x": "y"}}, '{"x":"y"}')],
)
def test_labels_that_are_empty_are_shown_as_they_were_sent(metadata: dict[str, Any], shown: str) -> None:
    async def scenario() -> None:
        async with opened() as api:
            body = json.dumps(with_labels(metadata)).encode()
            answer = await api.handle(Request("POST", APPS, {}, ADMIN, body, "application/json"))
            assert answer.code == 422
            text = f"spec.template.metadata.labels: Invalid value: {shown}: `selector` does not match template `labels`"
            assert text in json.loads(answer.body)["message"]

    asyncio.run(scenario())


def test_an_update_that_empties_a_list_shows_it() -> None:
    async def scenario() -> None:
        async with opened() as api:
            tree: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
            made = await api.handle(
                Request("POST", NETWORKING, {}, ADMIN, json.dumps(tree).encode(), "application/json")
            )
            assert made.code == 201
            tree["spec"]["cidrs"] = []
            body = json.dumps(tree).encode()
            answer = await api.handle(Request("PUT", f"{NETWORKING}/c", {}, ADMIN, body, "application/json"))
            assert "spec.cidrs: Invalid value: []: field is immutable" in json.loads(answer.body)["message"]

    asyncio.run(scenario())


def test_an_error_that_shows_a_part_of_an_object_is_not_about_the_object() -> None:
    async def scenario() -> None:
        async with opened() as api:
            body = json.dumps({"metadata": {"name": "i"}, "spec": {}}).encode()
            path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
            answer = await api.handle(Request("POST", path, {}, ADMIN, body, "application/json"))
            assert "spec: Invalid value: null: either `defaultBackend` or `rules`" in json.loads(answer.body)["message"]

    asyncio.run(scenario())

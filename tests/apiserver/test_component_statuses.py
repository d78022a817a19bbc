"""`componentstatuses`: what they say, in which forms."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from bayplan.apiserver.reads.negotiation import PROTOBUF
from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened

PATH = "/api/v1/componentstatuses"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def asked(path: str = PATH, accept: str = "application/json", **query: str) -> Response:
    """An answer of a server whose scheduler is well and whose DNS server is not."""

    async def run() -> Response:
        async with opened() as api:
            prepare(api)
            return await api.handle(Request("GET", path, query, ADMIN, accept=accept))

    return asyncio.run(run())


def prepare(api: ApiServer) -> None:
    found: dict[str, Callable[[], str]] = {"scheduler": lambda: ""}
    api.context.component_failures = found
    api.context.add_on_failures = {"dns": lambda: "it has ended"}


def items(response: Response) -> dict[str, Any]:
    return {each["metadata"]["name"]: each["conditions"] for each in json.loads(response.body)["items"]}


def test_components_say_how_they_are() -> None:
    found = items(asked())
    assert list(found) == ["controller-manager", "dns", "etcd-0", "scheduler"]
    assert found["scheduler"] == [{"type": "Healthy", "status": "True", "message": "ok"}]
    assert found["dns"] == [{"type": "Healthy", "status": "False", "message": "it has ended"}]
    assert "127.0.0.1:10257: connect: connection refused" in found["controller-manager"][0]["message"]


def test_kubectl_gets_its_columns() -> None:
    table = json.loads(asked(accept=TABLE).body)
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    rows = [each["cells"] for each in table["rows"]]
    assert rows[3] == ["scheduler", "Healthy", "ok", ""]
    assert rows[1] == ["dns", "Unhealthy", "it has ended", ""]


@pytest.mark.parametrize("path", [PATH, f"{PATH}/dns"])
def test_they_come_in_all_forms(path: str) -> None:
    assert asked(path, PROTOBUF).content_type == PROTOBUF
    assert "conditions:" in bytes(asked(path, "application/yaml").body).decode()
    kind = "PartialObjectMetadata" + ("List" if path == PATH else "")
    form = f"application/json;as={kind};v=v1;g=meta.k8s.io"
    assert json.loads(asked(path, form).body)["kind"] == kind


def test_one_is_chosen() -> None:
    assert json.loads(asked(f"{PATH}/dns").body)["metadata"] == {"name": "dns"}
    assert asked(f"{PATH}/nobody").code == 404
    assert list(items(asked(fieldSelector="metadata.name=dns"))) == ["dns"]
    assert list(items(asked(labelSelector="a=b"))) == []

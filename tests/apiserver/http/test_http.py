"""The edge: what is malformed, too large or unknown gets the right Status, and answers have the form that was asked for."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import socket
import ssl
from collections.abc import Mapping
from typing import Any

import pytest
import uvloop
import yaml

from tests.apiserver.serving import Served, served

PATH = "/api/v1/namespaces/default/configmaps"
MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}


async def send(
    server: Served, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, Mapping[str, str], bytes]:
    """One request; header names with `_` for `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with server.session.request(
        method,
        server.url + path,
        data=None if body is None else io.BytesIO(body),
        headers={"Content-Type": "application/json", **server.headers(), **given},
    ) as response:
        return response.status, response.headers, await response.read()


def check(method: str, path: str, code: int, reason: str, body: bytes | None = None, **headers: str) -> dict[str, Any]:
    """Send one request to a fresh server and check the Status that it answers with."""

    async def run() -> dict[str, Any]:
        async with served() as server:
            status, _, data = await send(server, method, path, body, **headers)
            found: dict[str, Any] = json.loads(data)
            assert (status, found["kind"], found["code"], found.get("reason", "")) == (code, "Status", code, reason)
            return found

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        pytest.param(b"{", "application/json", id="JSON that ends too soon"),
        pytest.param(b"[]", "application/json", id="a list"),
        pytest.param(b"", "application/json", id="nothing"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v1"}', "application/json", id="another kind"),
        pytest.param(b'{"metadata":{"name":5}}', "application/json", id="a number for a text"),
        pytest.param(b"\xff\xfe", "application/json", id="bytes that are no text"),
        pytest.param(b"a: [b\nc: d", "application/yaml", id="YAML that is broken"),
        pytest.param(b"nonsense", "application/vnd.kubernetes.protobuf", id="protobuf without its prefix"),
    ],
)
def test_a_body_that_cannot_be_read_is_a_bad_request(body: bytes, content_type: str) -> None:
    check("POST", PATH, 400, "BadRequest", body, Content_Type=content_type)


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1/nosuches", 404, "NotFound"),
        ("GET", "/apis/apps/v1/nosuches", 404, "NotFound"),
        ("GET", f"{PATH}/absent", 404, "NotFound"),
        ("GET", f"{PATH}/a/nosuch", 404, "NotFound"),
        ("PUT", PATH, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/configmaps", 405, "MethodNotAllowed"),
        ("OPTIONS", PATH, 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/namespaces", 405, "MethodNotAllowed"),
        ("GET", f"{PATH}?labelSelector=%3D%3D", 400, "BadRequest"),
        ("GET", f"{PATH}?fieldSelector=data.x%3D1", 400, "BadRequest"),
        ("GET", f"{PATH}?limit=x", 400, "BadRequest"),
        ("GET", f"{PATH}?continue=nonsense", 400, "BadRequest"),
    ],
)
def test_requests_that_cannot_be_served(method: str, path: str, code: int, reason: str) -> None:
    check(method, path, code, reason)


def test_head_has_no_body() -> None:
    async def run() -> None:
        async with served() as server:
            status, _, data = await send(server, "HEAD", PATH)
            assert (status, data) == (405, b"")

    asyncio.run(run())


def test_an_unknown_group_is_plain_text() -> None:
    async def run() -> None:
        async with served() as server:
            status, headers, data = await send(server, "GET", "/apis/nosuch.example.org/v1/things")
            assert (status, data) == (404, b"404 page not found\n")
            assert dict(headers)["Content-Type"].startswith("text/plain")

    asyncio.run(run())


def test_a_body_over_the_limit_is_refused() -> None:
    large = json.dumps({**MAP, "data": {"x": "y" * (4 << 20)}}).encode()
    check("POST", PATH, 413, "RequestEntityTooLarge", large)


def test_a_content_type_that_is_not_taken() -> None:
    found = check("POST", PATH, 415, "UnsupportedMediaType", b"{}", Content_Type="text/plain")
    assert "application/json, application/yaml" in found["message"]


def test_an_accept_that_cannot_be_given() -> None:
    check("GET", PATH, 406, "NotAcceptable", Accept="application/xml")


def test_nobody_gets_in_with_a_wrong_token() -> None:
    check("GET", PATH, 401, "Unauthorized", Authorization="Bearer wrong")


def test_unknown_fields_are_warned_about_refused_or_ignored() -> None:
    async def run() -> None:
        async with served() as server:
            body = json.dumps({**MAP, "nosuch": 1}).encode()
            status, headers, _ = await send(server, "POST", f"{PATH}?dryRun=All", body)
            assert (status, dict(headers)["Warning"]) == (201, '299 - "unknown field \\"nosuch\\""')
            status, _, data = await send(server, "POST", f"{PATH}?fieldValidation=Strict", body)
            assert status == 400
            assert 'strict decoding error: unknown field "nosuch"' in json.loads(data)["message"]
            status, headers, _ = await send(server, "POST", f"{PATH}?fieldValidation=Ignore", body)
            assert status == 201
            assert "Warning" not in dict(headers)

    asyncio.run(run())


def test_yaml_goes_in_and_comes_out() -> None:
    async def run() -> None:
        async with served() as server:
            text = b'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  yes: "1"\n  time: "2020-01-01"\n'
            status, _, data = await send(server, "POST", PATH, text, Content_Type="application/yaml")
            assert (status, json.loads(data)["data"]) == (201, {"true": "1", "time": "2020-01-01"})
            _, headers, data = await send(server, "GET", f"{PATH}/a", Accept="application/yaml")
            assert dict(headers)["Content-Type"] == "application/yaml"
            assert yaml.safe_load(data)["data"] == {"true": "1", "time": "2020-01-01"}
            status, _, data = await send(server, "GET", f"{PATH}/absent", Accept="application/yaml")
            assert (status, yaml.safe_load(data)["reason"]) == (404, "NotFound")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [("", "x", False), ("?pretty=true", "x", True), ("?pretty=false", "curl/8", False), ("", "curl/8", True)],
)
def test_json_is_indented_for_people(query: str, agent: str, pretty: bool) -> None:
    async def run() -> None:
        async with served() as server:
            _, _, data = await send(server, "GET", f"/api/v1/namespaces/default{query}", User_Agent=agent)
            assert data.startswith(b'{\n  "kind": "Namespace"' if pretty else b'{"kind":"Namespace"')
            assert data.endswith(b"\n") is not pretty

    asyncio.run(run())


def test_a_watch_streams_lines_and_ends_when_the_server_stops() -> None:
    async def run() -> None:
        async with served() as server:
            await send(server, "POST", PATH, json.dumps(MAP).encode())
            async with server.session.get(f"{server.url}{PATH}?watch=1", headers=server.headers()) as response:
                line = json.loads(await response.content.readline())
                assert (line["type"], line["object"]["metadata"]["name"]) == ("ADDED", "a")

    asyncio.run(run())


def test_kinds_that_are_going_away_say_so() -> None:
    async def run() -> None:
        async with served() as server:
            _, headers, _ = await send(server, "GET", "/api/v1/namespaces/default/endpoints")
            assert "v1 Endpoints is deprecated" in dict(headers)["Warning"]

    asyncio.run(run())


def test_a_client_that_does_not_answer_the_end_holds_no_connection_open() -> None:
    """A loop that is closed with an open connection complains, which fails the test."""

    async def run() -> ssl.SSLSocket:
        async with served() as server:
            port = int(server.url.rpartition(":")[2])
            trust = ssl.create_default_context()
            trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE

            def connect() -> ssl.SSLSocket:
                return trust.wrap_socket(socket.create_connection(("127.0.0.1", port)))

            return await asyncio.to_thread(connect)

    loop = uvloop.new_event_loop()
    client = loop.run_until_complete(run())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    gc.collect()
    client.close()

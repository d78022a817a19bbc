"""Looking whether another server answers, and what it has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from bayplan.api.errors import ApiError
from bayplan.apiserver.aggregation.discovery import read_resources
from bayplan.apiserver.aggregation.forwarding import relay_to
from bayplan.apiserver.aggregation.registry import ApiService, RemoteApi
from bayplan.apiserver.context import Context
from bayplan.apiserver.requests import User
from bayplan.apiserver.routing.relays import Relay

AGGREGATOR: Final = User("system:kube-aggregator", ("system:masters",))
_ATTEMPTS: Final = 5
"""Each asks an endpoint by chance: one that answers is enough."""
_OPENAPI_SECONDS: Final = 60.0
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Page:
    """What another server answers."""

    code: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A request for another server that does not come over HTTP."""

    method: str = "GET"
    query: Mapping[str, str] | None = None
    body: bytes = b""
    content_type: str = ""
    accept: str = _JSON
    seconds: float = 5.0


Send = Callable[[Relay, Question], Awaitable[Page]]
"""Sends a question to where a relay leads. Raises ApiError (503) if nobody answers in time."""


async def probe(context: Context, service: ApiService, send: Send, known: RemoteApi) -> tuple[RemoteApi, str]:
    """What a server has, and why it does not count as available: "" if it does. known: what it had before."""
    group, version = service.spec.group, service.spec.version
    path, problem = f"/apis/{group}/{version}", ""
    for _ in range(_ATTEMPTS):
        try:
            page = await send(relay_to(context, service, path, AGGREGATOR), Question())
        except ApiError as error:
            problem = f"failing or missing response from {path}: {error}"
            continue
        if 200 <= page.code < 300:
            return await _read(context, service, send, known, page), ""
        problem = f"failing or missing response from {path}: bad status from {path}: {page.code}"
    return replace(known, is_current=False), problem


async def _read(context: Context, service: ApiService, send: Send, known: RemoteApi, page: Page) -> RemoteApi:
    """What an answer to the question for resources says, with OpenAPI documents that are not older than a minute."""
    group_version = f"{service.spec.group}/{service.spec.version}"
    try:
        rows = read_resources(page.body, group_version)
    except ValueError:  # it answers, but not what discovery could show
        return replace(known, is_current=False)
    found = replace(known, rows=rows, is_current=True)
    now = context.clock.now()
    if known.read_at and now - known.read_at < _OPENAPI_SECONDS:
        return found
    v2 = await _document(context, service, send, "/openapi/v2")
    index = await _document(context, service, send, "/openapi/v3")
    return replace(found, openapi_v2=v2, openapi_v3=_query_of(index, group_version), read_at=now)


async def _document(context: Context, service: ApiService, send: Send, path: str) -> bytes:
    """A document, empty if there is none."""
    try:
        page = await send(relay_to(context, service, path, AGGREGATOR), Question())
    except ApiError:
        return b""
    return page.body if page.code == 200 else b""


def _query_of(index: bytes, group_version: str) -> str:
    """The query that an index of OpenAPI version 3 has for a group version; "" if it has no such document."""
    try:
        paths = msgspec.json.decode(index, type=dict[str, Any])["paths"] if index else {}
        url = paths.get(f"apis/{group_version}", {}).get("serverRelativeURL", "")
    except (msgspec.DecodeError, KeyError, AttributeError):
        return ""
    return str(url).partition("?")[2]

"""The page on which a scheduler that runs alone takes questions.

It checks who asks: a bearer token by TokenReview, and the right to `post` to its path by SubjectAccessReview. It is served on loopback only: health and metrics,
beside which it is, are served without TLS, and whoever reads a token on its way may use it.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from bayplan.api.errors import ApiError, failure, method_not_allowed, unauthorized
from bayplan.api.types import authorization_v1
from bayplan.client.reviews import AccessReviews, Caller, ReviewFailedError
from bayplan.cluster.questions.what_if import refused, respond
from bayplan.scheduler.questions.openapi import openapi_document

if TYPE_CHECKING:
    from bayplan.scheduler.service import SchedulerService

PATH: Final = "/what-if"
MOST_BYTES: Final = 3 << 20
"""Of a question, as of every body that Kubernetes takes."""
_JSON: Final = "application/json"


class WhatIfPage:
    """Answers questions over HTTP, beside a scheduler."""

    def __init__(self, scheduler: SchedulerService, reviews: AccessReviews) -> None:
        self._scheduler = scheduler
        self._reviews = reviews

    async def handle(self, request: web.BaseRequest) -> web.Response:
        """The response to a request for the page."""
        try:
            await self._check(request)
            if request.method == "GET":
                return _response(200, openapi_document(PATH))
            if request.method != "POST":
                raise method_not_allowed()
            body = await self._body(request)
        except ApiError as error:
            return _response(*refused(error))
        query = request.query
        explain = query.get("explain", "").lower() in ("1", "t", "true")
        return _response(
            *await respond(self._scheduler, body, namespace=query.get("namespace", "default"), explain=explain)
        )

    async def _check(self, request: web.BaseRequest) -> None:
        """Raises ApiError (401, 403, 503)."""
        if not _is_loopback(request):
            raise failure(
                403, "Forbidden", "questions are answered on loopback only: tokens could be read on their way here"
            )
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        try:
            caller: Caller | None = None
            if kind.lower() == "bearer" and token.strip():
                caller = await self._reviews.caller_of(token.strip())
            if caller is None:
                raise unauthorized()
            verb = request.method.lower()
            attributes = authorization_v1.NonResourceAttributes(path=PATH, verb=verb)
            if not await self._reviews.may(caller, attributes):
                raise failure(403, "Forbidden", f'forbidden: User "{caller.name}" cannot {verb} path "{PATH}"')
        except ReviewFailedError as error:
            raise failure(503, "ServiceUnavailable", f"rights cannot be asked for: {error}") from error

    @staticmethod
    async def _body(request: web.BaseRequest) -> bytes:
        """Raises ApiError (413)."""
        pieces, size = [], 0
        async for piece in request.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > MOST_BYTES:
                raise failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MOST_BYTES}")
        return b"".join(pieces)


def _response(code: int, body: bytes) -> web.Response:
    return web.Response(status=code, body=body, content_type=_JSON)


def _is_loopback(request: web.BaseRequest) -> bool:
    """Whether a request has come to an address that only this machine has."""
    name: Any = request.transport.get_extra_info("sockname") if request.transport is not None else None
    try:
        return bool(name) and ipaddress.ip_address(name[0].partition("%")[0]).is_loopback
    except ValueError:
        return False

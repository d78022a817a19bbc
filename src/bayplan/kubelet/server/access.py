"""Who asks the kubelet, and whether they may: certificates of a client authority, tokens by TokenReview, rights by SubjectAccessReview."""

from __future__ import annotations

import logging
from typing import Any, Final

from aiohttp import web

from bayplan.api.types import authorization_v1
from bayplan.client import Client
from bayplan.client.reviews import ANONYMOUS, AccessReviews, Caller, ReviewFailedError
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_FINE: Final = (("/pods", "pods"), ("/healthz", "healthz"), ("/configz", "configz"), ("/runningpods", "pods"))
"""Paths for which a right of their own is enough, besides that to everything."""
_SUBRESOURCES: Final = (
    ("/stats", "stats"),
    ("/metrics", "metrics"),
    ("/logs", "log"),
    ("/checkpoint", "checkpoint"),
    ("/statusz", "statusz"),
    ("/flagz", "configz"),
)


def subresources(path: str) -> tuple[str, ...]:
    """The subresources of the node of which one right is enough to ask for a path."""

    def below(root: str) -> bool:
        return path == root or path.startswith(f"{root}/")

    fine = tuple(name for root, name in _FINE if below(root))
    coarse = next((name for root, name in _SUBRESOURCES if below(root)), "proxy")
    return (*fine, coarse)


class AccessDeniedError(Exception):
    """The request is refused: `status` 401 or 403, and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Access:
    """Checks requests; answers of the API server are kept for as long as the configuration says."""

    def __init__(self, client: Client, configuration: KubeletConfiguration, node_name: str, clock: Clock) -> None:
        self._configuration = configuration
        self._node_name = node_name
        webhook = configuration.authorization.webhook
        self._reviews = AccessReviews(
            client,
            clock,
            token_seconds=configuration.authentication.webhook.cache_ttl,
            allowed_seconds=webhook.cache_authorized_ttl,
            refused_seconds=webhook.cache_unauthorized_ttl,
        )

    async def check(self, request: web.BaseRequest) -> Caller:
        """Who asks. Raises AccessDeniedError."""
        caller = await self._caller(request)
        if caller is None:
            raise AccessDeniedError(401, "Unauthorized")
        if self._configuration.authorization.mode == "AlwaysAllow":
            return caller
        verb = _VERBS.get(request.method, "")
        wanted = subresources(request.path)
        for each in wanted:
            if await self._may(caller, verb, each):
                return caller
        text = f"Forbidden (user={caller.name}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(wanted)}])\n"
        raise AccessDeniedError(403, text)

    async def _caller(self, request: web.BaseRequest) -> Caller | None:
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        if certificate:
            return caller_of(certificate)
        authentication = self._configuration.authentication
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and token.strip() and authentication.webhook.enabled:
            return await self._reviewed(token.strip())
        return ANONYMOUS if authentication.anonymous.enabled else None

    async def _reviewed(self, token: str) -> Caller | None:
        try:
            return await self._reviews.caller_of(token)
        except ReviewFailedError as error:
            logger.error("a token cannot be reviewed: %s", error)
            raise AccessDeniedError(401, "Unauthorized") from None

    async def _may(self, caller: Caller, verb: str, subresource: str) -> bool:
        attributes = authorization_v1.ResourceAttributes(
            verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node_name
        )
        try:
            return await self._reviews.may(caller, attributes)
        except ReviewFailedError as error:
            logger.error("rights of %s cannot be asked for: %s", caller.name, error)
            text = f"Authorization error (user={caller.name}, verb={verb}, resource=nodes, subresource={subresource})"
            raise AccessDeniedError(500, text) from None


def caller_of(certificate: dict[str, Any]) -> Caller:
    """The user that a certificate names: its common name, and its organizations as groups."""
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in names if key == "commonName"), "")
    groups = tuple(value for key, value in names if key == "organizationName")
    return Caller(name, groups=(*groups, "system:authenticated"))

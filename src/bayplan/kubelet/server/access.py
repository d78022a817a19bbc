"""Who asks the kubelet, and whether they may: certificates of a client authority, tokens by TokenReview, rights by SubjectAccessReview."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from bayplan.api.errors import ApiError
from bayplan.api.types import authentication_v1, authorization_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

_REMEMBERED = 4096
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


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


ANONYMOUS = Caller("system:anonymous", groups=("system:unauthenticated",))


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
        self._client = client
        self._configuration = configuration
        self._node_name = node_name
        self._clock = clock
        self._callers: OrderedDict[str, tuple[float, Caller | None]] = OrderedDict()
        self._allowed: OrderedDict[tuple[str, tuple[str, ...], str, str], tuple[float, bool]] = OrderedDict()

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
        now = self._clock.monotonic()
        known = self._callers.get(token)
        if known is not None and known[0] > now:
            return known[1]
        review = authentication_v1.TokenReview(spec=authentication_v1.TokenReviewSpec(token=token))
        try:
            status = (await self._client.create(review)).status
        except (ApiError, TransportError) as error:
            logger.error("a token cannot be reviewed: %s", error)
            raise AccessDeniedError(401, "Unauthorized") from None
        user = status.user
        groups = dict.fromkeys((*user.groups, "system:authenticated"))
        caller = Caller(user.username, user.uid, tuple(groups)) if status.authenticated else None
        _keep(self._callers, token, (now + self._configuration.authentication.webhook.cache_ttl, caller))
        return caller

    async def _may(self, caller: Caller, verb: str, subresource: str) -> bool:
        now = self._clock.monotonic()
        key = (caller.name, caller.groups, verb, subresource)
        known = self._allowed.get(key)
        if known is not None and known[0] > now:
            return known[1]
        attributes = authorization_v1.ResourceAttributes(
            verb=verb, version="v1", resource="nodes", subresource=subresource, name=self._node_name
        )
        spec = authorization_v1.SubjectAccessReviewSpec(
            user=caller.name, uid=caller.uid, groups=caller.groups, resource_attributes=attributes
        )
        try:
            status = (await self._client.create(authorization_v1.SubjectAccessReview(spec=spec))).status
        except (ApiError, TransportError) as error:
            logger.error("rights of %s cannot be asked for: %s", caller.name, error)
            text = f"Authorization error (user={caller.name}, verb={verb}, resource=nodes, subresource={subresource})"
            raise AccessDeniedError(500, text) from None
        webhook = self._configuration.authorization.webhook
        seconds = webhook.cache_authorized_ttl if status.allowed else webhook.cache_unauthorized_ttl
        _keep(self._allowed, key, (now + seconds, status.allowed))
        return status.allowed


def caller_of(certificate: dict[str, Any]) -> Caller:
    """The user that a certificate names: its common name, and its organizations as groups."""
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in names if key == "commonName"), "")
    groups = tuple(value for key, value in names if key == "organizationName")
    return Caller(name, groups=(*groups, "system:authenticated"))


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _REMEMBERED:
        cache.popitem(last=False)

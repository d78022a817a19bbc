"""Who sends a request and what they may do, asked of the API server: how components check requests to servers of their own.

Tokens go into TokenReviews, rights into SubjectAccessReviews, and answers are kept for a while. Source: Kubernetes' delegated authentication and authorization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.api.errors import ApiError
from bayplan.api.types import authentication_v1, authorization_v1
from bayplan.client.client import Client
from bayplan.client.errors import TransportError
from bayplan.support.clock import Clock
from bayplan.support.memory.memo import Memo

_ENTRY_BYTES = 400
_MOST_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


ANONYMOUS = Caller("system:anonymous", groups=("system:unauthenticated",))

Attributes = authorization_v1.ResourceAttributes | authorization_v1.NonResourceAttributes
"""What a request wants to do."""


class ReviewFailedError(Exception):
    """The API server does not review."""


class AccessReviews:
    """Reviews by one API server."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        token_seconds: float = 10.0,
        allowed_seconds: float = 10.0,
        refused_seconds: float = 10.0,
    ) -> None:
        """token_seconds, allowed_seconds, refused_seconds: how long answers about tokens, and about rights that are there or not, are kept; the defaults are
        kube-scheduler's."""
        self._client = client
        self._clock = clock
        self._token_seconds = token_seconds
        self._seconds = {True: allowed_seconds, False: refused_seconds}
        self._callers: Memo[str, tuple[float, Caller | None]] = Memo("token_reviews", most_bytes=_MOST_BYTES)
        self._allowed: Memo[bytes, tuple[float, bool]] = Memo("access_reviews", most_bytes=_MOST_BYTES)

    async def caller_of(self, token: str) -> Caller | None:
        """The user of a bearer token; None if it is nobody's. Raises ReviewFailedError."""
        now = self._clock.monotonic()
        known = self._callers.get(token)
        if known is not None and known[0] > now:
            return known[1]
        review = authentication_v1.TokenReview(spec=authentication_v1.TokenReviewSpec(token=token))
        status = (await self._review(review)).status
        user = status.user
        groups = dict.fromkeys((*user.groups, "system:authenticated"))
        caller = Caller(user.username, user.uid, tuple(groups)) if status.authenticated else None
        self._callers.put(token, (now + self._token_seconds, caller), len(token) + _ENTRY_BYTES)
        return caller

    async def may(self, caller: Caller, attributes: Attributes) -> bool:
        """Whether somebody may do something. Raises ReviewFailedError."""
        now = self._clock.monotonic()
        key = repr((caller.name, caller.groups, attributes)).encode()
        known = self._allowed.get(key)
        if known is not None and known[0] > now:
            return known[1]
        resource, other = (
            (attributes, None) if isinstance(attributes, authorization_v1.ResourceAttributes) else (None, attributes)
        )
        spec = authorization_v1.SubjectAccessReviewSpec(
            user=caller.name,
            uid=caller.uid,
            groups=caller.groups,
            resource_attributes=resource,
            non_resource_attributes=other,
        )
        allowed: bool = (await self._review(authorization_v1.SubjectAccessReview(spec=spec))).status.allowed
        self._allowed.put(key, (now + self._seconds[allowed], allowed), len(key) + _ENTRY_BYTES)
        return allowed

    async def _review(self, review: Any) -> Any:
        try:
            return await self._client.create(review)
        except (ApiError, TransportError) as error:
            raise ReviewFailedError(str(error)) from error

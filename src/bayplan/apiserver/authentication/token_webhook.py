"""Tokens that a webhook knows (`--authentication-token-webhook-config-file`). Source: `plugin/pkg/authenticator/token/webhook/webhook.go`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from bayplan.apiserver.authentication.authenticator import (
    SlowTokenSource,
    TokenFound,
    TokenRefused,
    with_authenticated,
)
from bayplan.apiserver.authentication.token_cache import Find
from bayplan.apiserver.requests import User
from bayplan.apiserver.webhooks.posting import ReviewError, ReviewWebhook

logger = logging.getLogger(__name__)

VERSIONS: Final = ("v1", "v1beta1")
_GROUP: Final = "authentication.k8s.io"


class _UserInfo(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...] | None] | None = None


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _UserInfo | None = None
    audiences: tuple[str, ...] | None = None
    error: str = ""


class _Review(msgspec.Struct):
    status: _Status | None = None


class TokenWebhook:
    """Shows tokens to a webhook."""

    def __init__(self, webhook: ReviewWebhook, version: str, audiences: Callable[[], tuple[str, ...]]) -> None:
        """audiences: those of the API server, for which tokens are if the webhook does not say it."""
        self._webhook = webhook
        self._version = version
        self._audiences = audiences

    async def find(self, token: str, audiences: tuple[str, ...]) -> TokenFound:
        """What the webhook says of a token."""
        review = {
            "kind": "TokenReview",
            "apiVersion": f"{_GROUP}/{self._version}",
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
            "status": {"user": {}},
        }
        try:
            answer = await self._webhook.post(msgspec.json.encode(review), lambda error, seconds: None)
            status = msgspec.json.decode(answer, type=_Review).status or _Status()
        except (ReviewError, msgspec.DecodeError, UnicodeDecodeError) as error:
            logger.error("Failed to make webhook authenticator request: %s", error)
            return TokenFound(None, (), str(error))
        good_for = status.audiences or self._audiences()
        both = tuple(one for one in audiences if one in good_for)
        if not both:
            return TokenFound(None)
        user = status.user or _UserInfo()
        if not status.authenticated:
            return TokenFound(None, (), status.error)
        if not user.username:
            return TokenFound(None, (), "the webhook names no user")
        extra = {key: values or () for key, values in (user.extra or {}).items()}
        return TokenFound(User(user.username, with_authenticated(user.groups or ()), user.uid, extra), both)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._webhook.close()


def as_source(find: Find) -> SlowTokenSource:
    """A source of tokens of what finds users, such as a cache before a webhook."""

    async def source(token: str, audiences: tuple[str, ...]) -> tuple[User, tuple[str, ...]] | None:
        found = await find(token, audiences)
        if found.user is not None:
            return found.user, found.audiences
        if found.error:
            raise TokenRefused(found.error)
        return None

    return source

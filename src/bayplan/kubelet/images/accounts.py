"""Service accounts of pods, for plugins that log in to registries with their tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.objects import ObjectError, Token

_TOKEN_SECONDS = 600
"""How long a token is to hold: a plugin uses it at once, so the least that the API server gives."""


class ApiAccounts:
    """`AccountTokens` of an API server. token: a token for a pod, an audience and a number of seconds; raises ObjectError."""

    def __init__(self, client: Client, token: Callable[[core_v1.Pod, str, int | None], Awaitable[Token]]) -> None:
        self._client = client
        self._token = token

    async def account(self, namespace: str, name: str) -> core_v1.ServiceAccount:
        """See AccountTokens."""
        try:
            return await self._client.get(core_v1.ServiceAccount, name, namespace)
        except (ApiError, TransportError) as error:
            raise LookupError(f"failed to get service account: {error}") from error

    async def token(self, pod: core_v1.Pod, audience: str) -> str:
        """See AccountTokens."""
        try:
            return (await self._token(pod, audience, _TOKEN_SECONDS)).text
        except ObjectError as error:
            raise LookupError(f"failed to get service account token: {error}") from error

"""Tokens of service accounts for the pods of this node, asked for again in time (pkg/kubelet/token)."""

from __future__ import annotations

import logging

from bayplan.api.codec import decode, encode
from bayplan.api.errors import ApiError
from bayplan.api.types import authentication_v1, core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.objects import ObjectError, Token
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import parse_rfc3339

logger = logging.getLogger(__name__)

JITTER_SECONDS = 10.0
DEFAULT_SECONDS = 3600

_Key = tuple[str, str, str, int, str, str]
"""Namespace, account, audience, seconds, name and uid of the pod."""


class TokenManager:
    """Keeps the tokens of pods until they are to be renewed."""

    def __init__(self, client: Client, clock: Clock, randomness: Randomness) -> None:
        self._client = client
        self._clock = clock
        self._randomness = randomness
        self._tokens: dict[_Key, Token] = {}

    async def token(self, pod: core_v1.Pod, audience: str, seconds: int | None) -> Token:
        """A token bound to the pod. audience: empty for the API server's. Raises ObjectError; not while the last token still holds."""
        metadata, account = pod.metadata, pod.spec.service_account_name
        wanted = DEFAULT_SECONDS if seconds is None else seconds
        key = (metadata.namespace, account, audience, wanted, metadata.name, metadata.uid)
        known, now = self._tokens.get(key), self._clock.now()
        if known is not None and not known.is_due(now, self._randomness.random() * JITTER_SECONDS):
            return known
        try:
            found = await self._request(key)
        except (ApiError, TransportError) as error:
            if known is None:
                raise ObjectError(f"failed to fetch token: {error}") from error
            if now > known.expires:
                shown = f"{metadata.namespace}/{account} of pod {metadata.name}"
                raise ObjectError(f"token {shown} expired and refresh failed: {error}") from error
            logger.error("cannot renew the token of %s/%s: %s", metadata.namespace, account, error)
            return known
        self._tokens[key] = found
        return found

    def forget(self, pod_uid: str) -> None:
        """Forget the tokens of a pod that has gone."""
        for key in [key for key in self._tokens if key[-1] == pod_uid]:
            del self._tokens[key]

    async def _request(self, key: _Key) -> Token:
        namespace, account, audience, seconds, name, uid = key
        reference = authentication_v1.BoundObjectReference(kind="Pod", api_version="v1", name=name, uid=uid)
        spec = authentication_v1.TokenRequestSpec(
            audiences=(audience,) if audience else (), expiration_seconds=seconds, bound_object_ref=reference
        )
        request = authentication_v1.TokenRequest(kind="TokenRequest", api_version="authentication.k8s.io/v1", spec=spec)
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        answer: authentication_v1.TokenRequest = decode(
            authentication_v1.TokenRequest, await self._client.raw("POST", path, body=encode(request))
        )
        expires = parse_rfc3339(answer.status.expiration_timestamp or "1970-01-01T00:00:00Z")
        granted = answer.spec.expiration_seconds
        return Token(answer.status.token, expires - (seconds if granted is None else granted), expires)

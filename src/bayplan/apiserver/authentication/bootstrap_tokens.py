"""Bootstrap tokens: how nodes join. `ID.SECRET`, kept in the secret `kube-system/bootstrap-token-ID`.

Source: Kubernetes' `plugin/pkg/auth/authenticator/token/bootstrap`.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Callable, Sequence

from bayplan.api.kinds import KindTable
from bayplan.apiserver.authentication.authenticator import with_authenticated
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.requests import User
from bayplan.support.timestamps import parse_rfc3339

_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_DEFAULT_GROUP = "system:bootstrappers"
_TYPE = "bootstrap.kubernetes.io/token"


class BootstrapTokens:
    """Finds the users of bootstrap tokens; a source for the authenticator."""

    def __init__(
        self, objects: ObjectStore, kinds: KindTable, now: Callable[[], float], audiences: Sequence[str]
    ) -> None:
        self._objects = objects
        self._kinds = kinds
        self._now = now
        self._audiences = tuple(audiences)

    def user(self, token: str, audiences: Sequence[str] | None = None) -> tuple[User, tuple[str, ...]] | None:
        """The user of a token, or None if it is none, has expired or may not be used to authenticate."""
        parts = _TOKEN.fullmatch(token)
        if parts is None:
            return None
        token_id, secret = parts.groups()
        data = self._secret(f"bootstrap-token-{token_id}")
        if data is None or not hmac.compare_digest(data.get("token-secret", ""), secret):
            return None
        if data.get("token-id") != token_id or data.get("usage-bootstrap-authentication") != "true":
            return None
        groups = self._groups(data.get("auth-extra-groups", ""))
        if groups is None or self._has_expired(data.get("expiration", "")):
            return None
        both = tuple(one for one in (audiences or self._audiences) if one in self._audiences)
        user = User(f"system:bootstrap:{token_id}", with_authenticated((_DEFAULT_GROUP, *groups)))
        return (user, both) if both else None

    def _secret(self, name: str) -> dict[str, str] | None:
        kind = self._kinds.of_kind("v1", "Secret")
        assert kind is not None
        cache = self._objects.cache(kind)
        entry = cache.get("kube-system", name)
        secret = cache.shared(entry) if entry is not None else None
        if secret is None or secret.type != _TYPE or secret.metadata.deletion_timestamp:
            return None
        try:
            return {key: base64.b64decode(value).decode() for key, value in secret.data.items()}
        except (binascii.Error, UnicodeDecodeError):
            return None

    def _groups(self, text: str) -> tuple[str, ...] | None:
        """Further groups; None if one of them is not allowed."""
        groups = tuple(sorted({group for group in text.split(",") if group}))
        return groups if all(_GROUP.fullmatch(group) for group in groups) else None

    def _has_expired(self, text: str) -> bool:
        if not text:
            return False
        try:
            return parse_rfc3339(text) <= self._now()
        except ValueError:
            return True

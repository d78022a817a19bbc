"""The user of a service account's token. The account, and what the token is bound to, must still be there.

Source: Kubernetes' `pkg/serviceaccount` (`claims.go`, `legacy.go`, `jwt.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from bayplan.api.kinds import KindTable
from bayplan.api.types import core_v1
from bayplan.apiserver.authentication.authenticator import TokenRefused, with_authenticated
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.requests import User
from bayplan.apiserver.service_account_tokens.issuing import ObjectName, TokenIssuer
from bayplan.apiserver.service_account_tokens.keys import TokenError, unverified_issuer
from bayplan.support.memory.memo import Memo
from bayplan.support.metrics.instruments import Counter, Registry
from bayplan.support.timestamps import parse_rfc3339

LEGACY_ISSUER = "kubernetes/serviceaccount"
LEEWAY = 60.0
"""Seconds by which clocks may differ."""
_LEGACY = "kubernetes.io/serviceaccount/"
_EXTRA = "authentication.kubernetes.io/"
_VERIFIED_BYTES = 32 << 20
_CLAIMS_BYTES = 1000
_KEPT_LETTERS = 8192
"""Longer tokens, which only keys of others sign, are verified every time."""
_INVALIDATED = "service account token has been invalidated"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
"""Label of secrets whose tokens are not good any more: nobody had used them for long."""
_AUTO_GENERATED = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens."


class Bound(msgspec.Struct):
    """What a token is about."""

    namespace: str = ""
    serviceaccount: ObjectName = ObjectName()
    pod: ObjectName | None = None
    node: ObjectName | None = None
    secret: ObjectName | None = None
    warnafter: float = 0
    """When the token should have been replaced; 0 if it is not one that is."""


class Claims(msgspec.Struct):
    """The claims that are looked at. Times are unix seconds, of any size."""

    iss: str = ""
    sub: str = ""
    jti: str = ""
    aud: str | tuple[str, ...] = ()
    exp: float = float("inf")
    nbf: float = 0
    iat: float = 0
    bound: Bound = msgspec.field(name="kubernetes.io", default_factory=Bound)
    legacy_namespace: str = msgspec.field(name=f"{_LEGACY}namespace", default="")
    legacy_name: str = msgspec.field(name=f"{_LEGACY}service-account.name", default="")
    legacy_uid: str = msgspec.field(name=f"{_LEGACY}service-account.uid", default="")
    legacy_secret: str = msgspec.field(name=f"{_LEGACY}secret.name", default="")


class TokenUses:
    """Which sorts of tokens are shown to one API server, under kube-apiserver's names. Source: Kubernetes' `pkg/serviceaccount/metrics.go`."""

    def __init__(self, registry: Registry) -> None:
        def counter(name: str, text: str) -> Counter:
            return registry.counter(f"serviceaccount_{name}_total", text).labels()

        self.valid = counter("valid_tokens", "Cumulative valid projected service account tokens used")
        """Tokens that pods are to renew, before the time at which they should have."""
        self.stale = counter("stale_tokens", "Cumulative stale projected service account tokens used")
        """The same after that time: their pods do not read the file again."""
        self.legacy = counter("legacy_tokens", "Cumulative legacy service account tokens used")
        self.manual = counter("legacy_manual_token_uses", "Cumulative manually created legacy tokens used")
        self.automatic = counter("legacy_auto_token_uses", "Cumulative auto-generated legacy tokens used")
        self.invalidated = counter(
            "invalid_legacy_auto_token_uses", "Cumulative invalid auto-generated legacy tokens used"
        )


class ServiceAccountTokens:
    """Finds the users of tokens. Signatures are checked once per token, everything else every time."""

    def __init__(
        self, issuer: TokenIssuer, objects: ObjectStore, kinds: KindTable, now: Callable[[], float], registry: Registry
    ) -> None:
        self.issuer = issuer
        self._uses = TokenUses(registry)
        self.secret_used: Callable[[core_v1.Secret], object] = lambda secret: None
        """Told of every secret whose token somebody shows."""
        self._objects = objects
        self._kinds = kinds
        self._now = now
        self._verified: Memo[str, Claims] = Memo("verified_tokens", most_bytes=_VERIFIED_BYTES)

    def user(self, token: str, audiences: Sequence[str] | None = None) -> tuple[User, tuple[str, ...]] | None:
        """The user of a token and for which of the audiences (those of the API server, unless given) it is; None if it is no token of a service account.

        Raises TokenRefused.
        """
        claims = self._claims(token)
        if claims is None:
            return None
        wanted = tuple(self.issuer.audiences if audiences is None else audiences)
        given = claims.aud or self.issuer.audiences
        given = (given,) if isinstance(given, str) else given
        both = tuple(one for one in given if one in wanted)
        if not both:
            raise TokenRefused(
                f"token audiences {_listed(given)} is invalid for the target audiences {_listed(wanted)}"
            )
        if claims.iss == LEGACY_ISSUER:
            return self._legacy_user(token, claims), both
        return self._bound_user(claims), both

    def keys_changed(self) -> None:
        """Verify the signatures of all tokens anew."""
        self._verified.clear()

    def _claims(self, token: str) -> Claims | None:
        claims = self._verified.get(token)
        if claims is not None:
            return claims
        if unverified_issuer(token) not in (*self.issuer.issuers, LEGACY_ISSUER):
            return None
        try:
            claims = msgspec.convert(self.issuer.keys.verify(token), Claims)
        except (TokenError, msgspec.ValidationError) as error:
            raise TokenRefused(str(error)) from error
        if len(token) <= _KEPT_LETTERS:
            self._verified.put(token, claims, len(token) + _CLAIMS_BYTES)
        return claims

    def _bound_user(self, claims: Claims) -> User:
        now = self._now()
        if now > claims.exp + LEEWAY:
            raise TokenRefused("service account token has expired")
        if now < claims.nbf - LEEWAY:
            raise TokenRefused("service account token is not valid yet")
        if now < claims.iat - LEEWAY:
            raise TokenRefused("service account token is issued in the future")
        bound = claims.bound
        namespace, account = bound.namespace, bound.serviceaccount
        self._check_account(namespace, account)
        extra: dict[str, tuple[str, ...]] = {}
        if claims.jti:
            extra[f"{_EXTRA}credential-id"] = (f"JTI={claims.jti}",)
        if bound.secret is not None:
            self._check_bound("Secret", namespace, bound.secret)
        if bound.pod is not None:
            self._check_bound("Pod", namespace, bound.pod)
            extra |= _names("pod", bound.pod)
        if bound.node is not None:
            if bound.pod is None:
                self._check_bound("Node", "", bound.node)
            extra |= _names("node", bound.node)
        if bound.warnafter:
            (self._uses.stale if now > bound.warnafter else self._uses.valid).inc()
        return _user(namespace, account, extra)

    def _check_account(self, namespace: str, account: ObjectName) -> core_v1.ServiceAccount:
        name, uid = account.name, account.uid
        found = self._find("ServiceAccount", namespace, name)
        if found is None:
            raise TokenRefused(f'serviceaccounts "{name}" not found')
        if self._is_gone(found):
            raise TokenRefused(f"service account {namespace}/{name} has been deleted")
        if found.metadata.uid != uid:
            raise TokenRefused(f"service account UID ({found.metadata.uid}) does not match claim ({uid})")
        return cast("core_v1.ServiceAccount", found)

    def _check_bound(self, kind: str, namespace: str, bound: ObjectName) -> None:
        found, uid = self._find(kind, namespace, bound.name), bound.uid
        if found is None or self._is_gone(found):
            raise TokenRefused(_INVALIDATED)
        if found.metadata.uid != uid:
            what = kind.lower()
            raise TokenRefused(
                f"{what} UID ({found.metadata.uid}) does not match service account {what} ref claim ({uid})"
            )

    def _legacy_user(self, token: str, claims: Claims) -> User:
        """A token that is kept in a secret, without end."""
        namespace, name, secret_name = claims.legacy_namespace, claims.legacy_name, claims.legacy_secret
        account = ObjectName(name, claims.legacy_uid)
        for value, what in ((namespace, "namespace"), (secret_name, "secretName"), (name, "serviceAccountName")):
            if not value:
                raise TokenRefused(f"{what} claim is missing")
        if claims.sub != f"system:serviceaccount:{namespace}:{name}":
            raise TokenRefused("sub claim is invalid")
        secret = self._find("Secret", namespace, secret_name)
        if secret is None or self._is_gone(secret):
            raise TokenRefused("Token has been invalidated")
        import base64

        if base64.b64decode(secret.data.get("token", "")) != token.encode():
            raise TokenRefused("Token does not match server's copy")
        found = self._check_account(namespace, account)
        self.secret_used(secret)
        if secret.metadata.labels.get(INVALID_SINCE):
            self._uses.invalidated.inc()
            raise TokenRefused(
                f"the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked invalid. Use tokens from the "
                f"TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow "
                "use of this token"
            )
        is_made_for_it = any(one.name == secret_name for one in found.secrets)
        self._uses.legacy.inc()
        (self._uses.automatic if is_made_for_it else self._uses.manual).inc()
        return _user(namespace, account, {}, _AUTO_GENERATED if is_made_for_it else "")

    def _is_gone(self, obj: Any) -> bool:
        deleted = obj.metadata.deletion_timestamp
        return bool(deleted) and parse_rfc3339(deleted) < self._now() - LEEWAY

    def _find(self, kind_name: str, namespace: str, name: str) -> Any:
        kind = self._kinds.of_kind("v1", kind_name)
        assert kind is not None
        cache = self._objects.cache(kind)
        entry = cache.get(namespace, name)
        return cache.shared(entry) if entry is not None else None


def _listed(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"


def _names(what: str, bound: ObjectName) -> dict[str, tuple[str, ...]]:
    found = {f"{_EXTRA}{what}-name": bound.name, f"{_EXTRA}{what}-uid": bound.uid}
    return {key: (value,) for key, value in found.items() if value}


def _user(namespace: str, account: ObjectName, extra: dict[str, tuple[str, ...]], warning: str = "") -> User:
    groups = with_authenticated(("system:serviceaccounts", f"system:serviceaccounts:{namespace}"))
    return User(f"system:serviceaccount:{namespace}:{account.name}", groups, account.uid, extra, warning)

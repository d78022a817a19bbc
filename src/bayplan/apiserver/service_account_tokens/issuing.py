"""What a token says. Source: Kubernetes' `pkg/serviceaccount/claims.go`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bayplan.apiserver.service_account_tokens.keys import TokenKeys
from bayplan.apiserver.settings import ApiServerSettings

WARN_ONLY_SECONDS = 3607
"""What the ServiceAccount admission plugin asks for in pods: such tokens live on for a year, with a warning, for clients that do not read them again."""
EXTENDED_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object that a token names."""

    name: str = ""
    uid: str = ""

    def claim(self) -> dict[str, str]:
        """As it stands in a token."""
        return {"name": self.name, "uid": self.uid} if self.uid else {"name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """Everything that a new token says."""

    namespace: str
    account: ObjectName
    audiences: tuple[str, ...]
    seconds: int
    """How long it is good."""
    token_id: str
    pod: ObjectName | None = None
    node: ObjectName | None = None
    secret: ObjectName | None = None
    warn_after: int = 0
    """Seconds after which a use is noted as stale; 0 for never."""


@dataclass(slots=True)
class TokenIssuer:
    """The service account side of an API server: who it is, what it signs with, for whom tokens are."""

    issuer: str
    """`iss` of new tokens."""
    keys: TokenKeys
    audiences: tuple[str, ...]
    """Audiences of the API server itself; tokens without a wish of their own are for them."""
    accepted: tuple[str, ...] = ()
    """Further issuers whose tokens are taken (former ones)."""
    max_seconds: int = 0
    """Longest life of a token; 0 for no limit."""
    extend: bool = True
    """Whether tokens of pods live longer than they ask for, see WARN_ONLY_SECONDS."""
    jwks_uri: str = ""
    """Where the keys are published; "" for this server's own address."""

    @property
    def issuers(self) -> tuple[str, ...]:
        """All issuers whose tokens are taken."""
        return (self.issuer, *self.accepted)

    def issue(self, grant: TokenGrant, now: float) -> str:
        """A new token; `now` in unix seconds."""
        start = int(now)
        bound: dict[str, Any] = {"namespace": grant.namespace}
        for name, value in (("node", grant.node), ("pod", grant.pod), ("secret", grant.secret)):
            if value is not None:
                bound[name] = value.claim()
        bound["serviceaccount"] = grant.account.claim()
        if grant.warn_after:
            bound["warnafter"] = start + grant.warn_after
        return self.keys.sign(
            {
                "aud": list(grant.audiences),
                "exp": start + grant.seconds,
                "iat": start,
                "iss": self.issuer,
                "jti": grant.token_id,
                "kubernetes.io": bound,
                "nbf": start,
                "sub": f"system:serviceaccount:{grant.namespace}:{grant.account.name}",
            }
        )


def build_issuer(settings: ApiServerSettings, keys: TokenKeys) -> TokenIssuer:
    """The issuer that the settings describe."""
    issuer, *accepted = settings.service_account_issuers
    return TokenIssuer(
        issuer,
        keys,
        settings.api_audiences or (issuer,),
        tuple(accepted),
        settings.service_account_max_token_seconds,
        settings.service_account_extend_tokens,
        settings.service_account_jwks_uri,
    )

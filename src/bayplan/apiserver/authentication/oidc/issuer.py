"""The issuers of a configuration, which tokens are shown to one after the other. An issuer that cannot be reached refuses its own tokens only.

Source: `k8s.io/apiserver/plugin/pkg/authenticator/token/oidc/oidc.go`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from bayplan.api.errors import quoted
from bayplan.apiserver.authentication.authenticator import TokenRefused, with_authenticated
from bayplan.apiserver.authentication.oidc.claims import ClaimError, Mappings
from bayplan.apiserver.authentication.oidc.distributed import DistributedClaims
from bayplan.apiserver.authentication.oidc.key_sets import Fetch, FetchError, KeySet
from bayplan.apiserver.authentication.oidc.metrics import IssuerMetrics
from bayplan.apiserver.authentication.oidc.tokens import Candidate, TokenInvalid, issuer_of
from bayplan.apiserver.requests import User
from bayplan.support.clock import Clock
from bayplan.support.tasks import Supervisor

logger = logging.getLogger(__name__)

WELL_KNOWN: Final = "/.well-known/openid-configuration"
_BETWEEN_TRIES: Final = 10.0
"""Seconds between two tries to reach an issuer for the first time."""


class _Discovery(msgspec.Struct):
    """What an issuer says of itself."""

    issuer: str = ""
    jwks_uri: str = ""


async def discover(fetch: Fetch, issuer: str, url: str = "") -> str:
    """Where the keys of an issuer are. url: where it says so, if not at the usual place. Raises FetchError."""
    page = await fetch(url or issuer.rstrip("/") + WELL_KNOWN)
    try:
        found = msgspec.json.decode(page, type=_Discovery)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FetchError(f"oidc: failed to decode provider discovery object: {error}") from error
    if found.issuer != issuer:
        raise FetchError(
            f"oidc: issuer did not match the issuer returned by provider, expected {quoted(issuer)} got {quoted(found.issuer)}"
        )
    if not found.jwks_uri:
        raise FetchError("provider did not return JWKS URL")
    return found.jwks_uri


class JwtIssuer:
    """One issuer of a configuration."""

    def __init__(
        self, mappings: Mappings, algorithms: Sequence[str], fetch: Fetch, clock: Clock, metrics: IssuerMetrics
    ) -> None:
        """algorithms: with which its tokens may be signed."""
        issuer = mappings.configuration.issuer
        self.url = issuer.url
        self.problem = f"oidc: authenticator for issuer {quoted(self.url)} is not initialized"
        """Why its tokens cannot be verified; "" if they can."""
        self._discovery_url = issuer.discovery_url
        self._audiences = issuer.audiences
        self._mappings = mappings
        self._algorithms = tuple(algorithms)
        self._fetch = fetch
        self._clock = clock
        self._metrics = metrics
        self._keys: KeySet | None = None
        groups = mappings.configuration.claim_mappings.groups.claim
        self._distributed = DistributedClaims(groups, fetch, self._verified_by, clock) if groups else None

    async def initialize(self) -> None:
        """Find out where its keys are; try again until that is known."""
        while True:
            try:
                url = await discover(self._fetch, self.url, self._discovery_url)
            except FetchError as error:
                logger.error("oidc authenticator: initializing plugin: %s", error)
                self.problem = f"oidc: authenticator for issuer {quoted(self.url)} is not healthy: {error}"
                await self._clock.sleep(_BETWEEN_TRIES)
            else:
                self._keys = KeySet(self._fetch, url, self._clock, lambda page: self._metrics.fetched(self.url, page))
                self.problem = ""
                return

    async def close(self) -> None:
        """Let go of all connections."""
        if self._keys is not None:
            self._keys.close()
        if self._distributed is not None:
            self._distributed.close()
        await self._fetch.close()

    async def user(self, token: str) -> User:
        """The user of a token of this issuer. Raises TokenRefused."""
        started, is_fine = self._clock.monotonic(), False
        try:
            user = await self._user(token)
            is_fine = True
            return user
        except (TokenInvalid, ClaimError) as error:
            raise TokenRefused(str(error)) from error
        finally:
            self._metrics.record(self.url, self._clock.monotonic() - started, is_fine=is_fine)

    async def _user(self, token: str) -> User:
        if self._keys is None:
            raise TokenInvalid("oidc: authenticator not initialized")
        try:
            candidate = Candidate(token, self._algorithms)
            await self._keys.verify(candidate)
            claims: Mapping[str, Any] = candidate.claims(self.url, self._audiences, self._clock.now())
        except TokenInvalid as error:
            raise TokenInvalid(f"oidc: verify token: {error}") from error
        if self._distributed is not None:
            try:
                claims = await self._distributed.expanded(claims)
            except (TokenInvalid, FetchError) as error:
                raise TokenInvalid(f"oidc: could not expand distributed claims: {error}") from error
        user = self._mappings.user(claims)
        return User(user.name, with_authenticated(user.groups), user.uid, user.extra)

    async def _verified_by(self, keys: KeySet, issuer: str, token: str) -> dict[str, Any]:
        """The claims of a token of another issuer. Raises TokenInvalid."""
        candidate = Candidate(token, self._algorithms)
        await keys.verify(candidate)
        return candidate.claims(issuer, self._audiences, self._clock.now())


class JwtIssuers:
    """All issuers of one configuration. Started and closed on the event loop."""

    def __init__(self, issuers: Sequence[JwtIssuer], audiences: Callable[[], tuple[str, ...]], clock: Clock) -> None:
        """audiences: those of the API server, for which the tokens are whatever the issuers say."""
        self.issuers = tuple(issuers)
        self._audiences = audiences
        self._tasks = Supervisor("issuers of tokens", clock=clock)

    def start(self) -> None:
        """Begin to reach the issuers."""
        for one in self.issuers:
            self._tasks.spawn(one.url, one.initialize())

    async def close(self) -> None:
        """Let go of them."""
        await self._tasks.close()
        for one in self.issuers:
            await one.close()

    @property
    def problem(self) -> str:
        """Why tokens of some cannot be verified; "" if those of all can."""
        return ", ".join(one.problem for one in self.issuers if one.problem)

    async def __call__(self, token: str, audiences: tuple[str, ...]) -> tuple[User, tuple[str, ...]] | None:
        """See SlowTokenSource. Raises TokenRefused."""
        both = tuple(one for one in audiences if one in self._audiences())
        issuer = issuer_of(token) if both and self.issuers else ""
        for one in self.issuers:
            if one.url == issuer:
                return await one.user(token), both
        return None

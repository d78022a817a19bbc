"""Distributed claims: a token may say that another server knows the groups, with a URL of that. Source: OpenID Connect Core 1.0, section 5.6.2."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from bayplan.apiserver.authentication.oidc.key_sets import Fetch, FetchError, KeySet
from bayplan.apiserver.authentication.oidc.tokens import TokenInvalid, issuer_of
from bayplan.support.clock import Clock

_MOST_ISSUERS: Final = 64
"""Whose keys are kept."""
Verify = Callable[[KeySet, str, str], Awaitable[dict[str, Any]]]
"""From the keys of an issuer, its URL and a token to the claims of that. Raises TokenInvalid."""


class DistributedClaims:
    """Fetches one claim from where tokens say that it is."""

    def __init__(self, claim: str, fetch: Fetch, verify: Verify, clock: Clock) -> None:
        self._claim = claim
        self._fetch = fetch
        self._verify = verify
        self._clock = clock
        self._keys: dict[str, KeySet] = {}

    def close(self) -> None:
        """Fetch no more."""
        for keys in self._keys.values():
            keys.close()

    async def expanded(self, claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """The claims with the one that is elsewhere. Raises TokenInvalid, FetchError."""
        place = self._place(claims)
        if place is None:
            return claims
        url, token = place
        try:
            page = await self._fetch(url, token)
        except FetchError as error:
            raise FetchError(f'while getting distributed claim "{self._claim}": {error}') from error
        answer = page.decode(errors="replace")
        issuer = issuer_of(answer)
        if not issuer:
            raise TokenInvalid(f'getting untrusted issuer from endpoint {url} failed for claim "{self._claim}"')
        found = await self._verify(await self._keys_of(issuer), issuer, answer)
        if self._claim not in found:
            raise TokenInvalid(
                f'jwt returned by distributed claim endpoint "{url}" did not contain claim: {self._claim}'
            )
        return {**claims, self._claim: found[self._claim]}

    def _place(self, claims: Mapping[str, Any]) -> tuple[str, str] | None:
        """Where the claim is, and with which token one gets it; None if it is nowhere else. Raises TokenInvalid."""
        names = claims.get("_claim_names")
        if self._claim in claims or names is None:
            return None
        if not isinstance(names, dict) or not all(isinstance(one, str) for one in names.values()):
            raise TokenInvalid("oidc: error parsing distributed claim names")
        sources = claims.get("_claim_sources")
        if sources is None:
            raise TokenInvalid("oidc: no claim sources")
        name = names.get(self._claim)
        if name is None:
            return None
        source = sources.get(name) if isinstance(sources, dict) else None
        if not isinstance(source, dict):
            raise TokenInvalid(f"id token _claim_names contained a source {name} missing in _claims_sources")
        url, token = source.get("endpoint") or "", source.get("access_token") or ""
        if not isinstance(url, str) or not isinstance(token, str):
            raise TokenInvalid("oidc: could not parse claim sources")
        return (url, token) if url else None

    async def _keys_of(self, issuer: str) -> KeySet:
        """Raises FetchError."""
        from bayplan.apiserver.authentication.oidc.issuer import discover

        if issuer not in self._keys:
            url = await discover(self._fetch, issuer)
            if len(self._keys) >= _MOST_ISSUERS:
                self._keys.pop(next(iter(self._keys))).close()
            self._keys[issuer] = KeySet(self._fetch, url, self._clock, lambda page: None)
        return self._keys[issuer]

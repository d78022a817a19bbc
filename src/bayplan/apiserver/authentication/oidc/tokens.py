"""Whether a token of an issuer is good: its signature, for whom it is, and its time. Pure; PyJWT verifies signatures.

Source: go-oidc (`verify.go`, `jwks.go`), whose words errors have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api.codec import json_type
from bayplan.api.errors import quoted
from bayplan.apiserver.service_account_tokens.keys import TokenError, opened

if TYPE_CHECKING:
    from jwt import PyJWK

ALGORITHMS: Final = ("ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512")
"""Those that tokens may be signed with: all need another key to verify than to sign."""
NOT_BEFORE_LEEWAY: Final = 60.0
"""Seconds by which the clock of an issuer may be ahead."""
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_MOST_KEYS: Final = 100
"""Keys of a set that are looked at."""
_NEVER: Final = "0001-01-01 00:00:00 +0000 UTC"
"""How Go shows a moment that is not given."""
_END_OF_TIME: Final = 2.0**63
"""Unix seconds that Go cannot count: what ends then has ended for it."""
GOOGLE: Final = "https://accounts.google.com"
_SHORT_GOOGLE: Final = "accounts.google.com"


class TokenInvalid(ValueError):
    """A token of an issuer is not good; the message says why."""


class Key:
    """One public key of an issuer."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        self.key_id = str(tree.get("kid") or "")
        self._tree = {name: value for name, value in tree.items() if name not in ("alg", "use", "key_ops")}
        self._made: dict[str, PyJWK | None] = {}

    def verifies(self, token: str, algorithm: str) -> bool:
        """Whether a token is signed with this key."""
        import jwt

        if algorithm not in self._made:
            self._made[algorithm] = self._make(algorithm)
        key = self._made[algorithm]
        if key is None:
            return False
        try:
            jwt.PyJWS([algorithm]).decode_complete(token, key, algorithms=[algorithm])
        except jwt.PyJWTError:
            return False
        return True

    def _make(self, algorithm: str) -> PyJWK | None:
        """The key for an algorithm; None if it is not for that, or is none."""
        import jwt

        kind = "EC" if algorithm in _CURVES else "RSA"
        if self._tree.get("kty") != kind or self._tree.get("crv") != _CURVES.get(algorithm):
            return None
        try:
            return jwt.PyJWK(self._tree, algorithm)
        except (jwt.PyJWTError, ValueError, TypeError, KeyError):
            return None


def keys_of(data: bytes) -> tuple[Key, ...]:
    """The keys in a JSON web key set; what cannot verify tokens is left out. Raises TokenInvalid."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TokenInvalid(str(error)) from error
    keys = found.get("keys")
    if not isinstance(keys, list):
        raise TokenInvalid("the key set has no keys")
    usable = [one for one in keys if isinstance(one, dict) and one.get("kty") in ("RSA", "EC")]
    return tuple(map(Key, usable[:_MOST_KEYS]))


def issuer_of(token: str) -> str:
    """Who issued a token by its own account, whoever signed it; "" if it is none."""
    try:
        issuer = msgspec.json.decode(opened(token)[1], type=_Claims).iss
    except (TokenError, msgspec.DecodeError):
        return ""
    return GOOGLE if issuer == _SHORT_GOOGLE else issuer


class _Claims(msgspec.Struct):
    iss: str = ""


class Candidate:
    """A token before its signature is checked."""

    def __init__(self, token: str, algorithms: Sequence[str]) -> None:
        """Raises TokenInvalid."""
        try:
            header, self._payload = opened(token)
        except TokenError as error:
            raise TokenInvalid(f"oidc: malformed jwt: {error}") from error
        if header.alg not in algorithms or header.alg not in ALGORITHMS:
            raise TokenInvalid(
                f"oidc: id token signed with unsupported algorithm, expected {_listed(algorithms)} got {quoted(header.alg)}"
            )
        self.token = token
        self.algorithm = header.alg
        self.key_id = header.kid

    def is_signed_by(self, keys: Iterable[Key]) -> bool:
        """Whether one of the keys has signed it; of those with an id only the one that it names is asked."""
        candidates = (key for key in keys if not self.key_id or key.key_id == self.key_id)
        return any(key.verifies(self.token, self.algorithm) for key in candidates)

    def claims(self, issuer: str, audiences: Sequence[str], now: float) -> dict[str, Any]:
        """What it says, once its signature is known to be good. now: Unix seconds. Raises TokenInvalid."""
        try:
            claims = msgspec.json.decode(self._payload, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokenInvalid(f"oidc: failed to unmarshal claims: {error}") from error
        _check_types(claims)
        found = claims.get("iss")
        if found != issuer and not (issuer == GOOGLE and found == _SHORT_GOOGLE):
            raise TokenInvalid(
                f"oidc: id token issued by a different provider, expected {quoted(issuer)} got {quoted(str(found or ''))}"
            )
        _check_audience(claims.get("aud"), audiences)
        _check_time(claims, now)
        return claims


def _check_types(claims: Mapping[str, Any]) -> None:
    """Raises TokenInvalid for a claim that every token may have and that is of another type than it has to be."""
    for name in ("iss", "sub", "nonce", "at_hash"):
        if not isinstance(claims.get(name), str | None):
            problem = (
                f"json: cannot unmarshal {json_type(claims[name])} into Go struct field idToken.{name} of type string"
            )
            raise TokenInvalid(f"oidc: failed to unmarshal claims: {problem}")
    for name in ("exp", "iat", "nbf"):
        _number(claims.get(name))


def _check_audience(found: Any, audiences: Sequence[str]) -> None:
    """Raises TokenInvalid unless a token is for one of the audiences."""
    given = [found] if isinstance(found, str) else found
    if given is None:
        given = []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise TokenInvalid("oidc: failed to unmarshal claims: aud is neither a string nor a list of strings")
    if not set(given) & set(audiences):
        expected = quoted(audiences[0]) if len(audiences) == 1 else f"in {_listed(sorted(audiences))}"
        raise TokenInvalid(f"oidc: expected audience {expected} got {_listed(given)}")


def _check_time(claims: Mapping[str, Any], now: float) -> None:
    """Raises TokenInvalid unless a token is good now. One that never ends is not."""
    ends, begins = (_number(claims.get(name)) for name in ("exp", "nbf"))
    if ends is None or not now <= ends < _END_OF_TIME:
        raise TokenInvalid(f"oidc: token is expired (Token Expiry: {_NEVER if ends is None else _shown(ends)})")
    if begins is not None and now + NOT_BEFORE_LEEWAY < begins:
        raise TokenInvalid(f"oidc: current time {_shown(now)} before the nbf (not before) time: {_shown(begins)}")


def _number(value: Any) -> float | None:
    """A moment, if there is one. Raises TokenInvalid."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        if isinstance(value, str):
            problem = f"json: invalid number literal, trying to unmarshal {quoted(msgspec.json.encode(value).decode())} into Number"
        else:
            problem = f"json: cannot unmarshal {json_type(value)} into Go value of type json.Number"
        raise TokenInvalid(f"oidc: failed to unmarshal claims: {problem}")
    return float(value)


def _shown(moment: float) -> str:
    if moment >= _END_OF_TIME:
        return "292277026596-12-04 15:30:08 +0000 UTC"
    try:
        return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S +0000 UTC")
    except (ValueError, OverflowError, OSError):
        return str(moment)


def _listed(values: Iterable[str]) -> str:
    return f"[{' '.join(map(quoted, values))}]"

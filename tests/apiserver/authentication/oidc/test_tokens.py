"""Whether tokens of issuers are good: signature, algorithm, audience, time."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from bayplan.apiserver.authentication.oidc.tokens import (
    ALGORITHMS,
    Candidate,
    Key,
    TokenInvalid,
    issuer_of,
    keys_of,
)
from tests.apiserver.authentication.oidc.provider import EC_KEY, OTHER_KEY, RSA_KEY, public_key, token
from tests.cpu_time import cpu_time_below

NOW = 1_800_000_000.0
ISSUER = "https://issuer.example"
CLAIMS = {"iss": ISSUER, "aud": "me", "sub": "jane", "exp": NOW + 60}
KEYS = (Key(public_key(RSA_KEY, "k1")), Key(public_key(EC_KEY, "k2")))


def claims_of(
    text: str, audiences: tuple[str, ...] = ("me",), algorithms: tuple[str, ...] = ALGORITHMS
) -> dict[str, Any]:
    """What a token says. Raises TokenInvalid."""
    candidate = Candidate(text, algorithms)
    if not candidate.is_signed_by(KEYS):
        raise TokenInvalid("bad signature")
    return candidate.claims(ISSUER, audiences, NOW)


@pytest.mark.parametrize(
    ("algorithm", "key", "key_id"),
    [
        ("RS256", RSA_KEY, "k1"),
        ("RS512", RSA_KEY, ""),
        ("PS384", RSA_KEY, "k1"),
        ("ES256", EC_KEY, "k2"),
    ],
)
def test_a_token_that_a_key_of_the_issuer_has_signed_is_good(algorithm: str, key: Any, key_id: str) -> None:
    assert claims_of(token(key, CLAIMS, algorithm=algorithm, key_id=key_id)) == CLAIMS


def forged(header: dict[str, Any], signature: bytes = b"") -> str:
    """A token that anybody can make."""
    parts = (json.dumps(header).encode(), json.dumps(CLAIMS).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def signed_with_the_public_key() -> str:
    """HS256 with what everybody knows as the secret: verifiers that go by the header alone take it."""
    import hashlib
    import hmac

    pem = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    unsigned = forged({"alg": "HS256", "kid": "k1"}).rstrip(".")
    mac = hmac.new(pem, unsigned.encode(), hashlib.sha256).digest()
    return f"{unsigned}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


FORGERIES: dict[str, tuple[Callable[[], str], str]] = {
    "no algorithm": (lambda: forged({"alg": "none"}), 'unsupported algorithm, expected .* got "none"'),
    "no algorithm, in other letters": (lambda: forged({"alg": "None"}), 'got "None"'),
    "no signature": (lambda: forged({"alg": "RS256"}), "bad signature"),
    "any signature": (lambda: forged({"alg": "RS256", "kid": "k1"}, b"x" * 256), "bad signature"),
    "extensions that must be known": (lambda: forged({"alg": "RS256", "crit": ["exp"]}), "malformed jwt"),
    "the public key as a secret": (signed_with_the_public_key, 'got "HS256"'),
    "another key": (lambda: token(OTHER_KEY, CLAIMS), "bad signature"),
    "the id of a key of another kind": (lambda: token(RSA_KEY, CLAIMS, key_id="k2"), "bad signature"),
    "the id of no key": (lambda: token(RSA_KEY, CLAIMS, key_id="unknown"), "bad signature"),
    "a longer signature": (lambda: token(RSA_KEY, CLAIMS) + "xxxx", "bad signature"),
    "two parts": (lambda: "a.b", "malformed jwt"),
    "empty parts": (lambda: "..", "malformed jwt"),
    "nothing": (lambda: "", "malformed jwt"),
    "JSON": (lambda: '{"payload": "e30"}', "malformed jwt"),
    "four parts": (lambda: "a.b.c.d", "malformed jwt"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_the_issuer_has_not_signed_is_refused(name: str) -> None:
    make, problem = FORGERIES[name]
    with pytest.raises(TokenInvalid, match=problem):
        claims_of(make())


def test_only_algorithms_that_are_allowed_are_taken() -> None:
    assert claims_of(token(RSA_KEY, CLAIMS), algorithms=("RS256",))
    with pytest.raises(TokenInvalid, match=r'unsupported algorithm, expected \["RS256"\] got "RS384"'):
        claims_of(token(RSA_KEY, CLAIMS, algorithm="RS384"), algorithms=("RS256",))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"iss": "https://other.example"}, 'issued by a different provider, expected "https://issuer.example"'),
        ({"aud": "you"}, 'expected audience "me" got \\["you"\\]'),
        ({"aud": []}, 'expected audience "me" got \\[\\]'),
        ({"aud": None}, 'expected audience "me"'),
        ({"aud": 1}, "failed to unmarshal claims"),
        ({"exp": NOW - 1}, r"token is expired \(Token Expiry: 2027-01-15 07:59:59 \+0000 UTC\)"),
        ({"exp": None}, r"token is expired \(Token Expiry: 0001-01-01 00:00:00 \+0000 UTC\)"),
        ({"exp": 10**20}, r"token is expired \(Token Expiry: 292277026596-12-04 15:30:08 \+0000 UTC\)"),
        ({"iat": "now"}, r'json: invalid number literal, trying to unmarshal "\\"now\\"" into Number'),
        ({"sub": 7}, "cannot unmarshal number into Go struct field idToken.sub of type string"),
        ({"nbf": []}, "cannot unmarshal array into Go value of type json.Number"),
        ({"iss": None}, 'issued by a different provider, expected "https://issuer.example" got ""'),
        ({"exp": "tomorrow"}, "failed to unmarshal claims"),
        ({"exp": True}, "failed to unmarshal claims"),
        ({"nbf": NOW + 61}, r"before the nbf \(not before\) time"),
    ],
)
def test_claims_that_do_not_fit_are_refused(changes: dict[str, Any], problem: str) -> None:
    stated = {name: value for name, value in (CLAIMS | changes).items() if value is not None}
    candidate = Candidate(forged({"alg": "RS256"}), ALGORITHMS)
    candidate._payload = json.dumps(stated).encode()
    with pytest.raises(TokenInvalid, match=problem):
        candidate.claims(ISSUER, ("me",), NOW)


@pytest.mark.parametrize("changes", [{"aud": ["you", "me"]}, {"nbf": NOW + 59}, {"exp": NOW}])
def test_claims_that_just_fit_are_taken(changes: dict[str, Any]) -> None:
    assert claims_of(token(RSA_KEY, CLAIMS | changes))


def test_one_of_several_audiences_is_enough() -> None:
    assert claims_of(token(RSA_KEY, CLAIMS), ("you", "me"))
    with pytest.raises(TokenInvalid, match=r'expected audience in \["us" "you"\] got \["me"\]'):
        claims_of(token(RSA_KEY, CLAIMS), ("you", "us"))


def test_the_issuer_that_a_token_names_is_read_without_believing_it() -> None:
    assert issuer_of(forged({"alg": "none"})) == ISSUER
    assert issuer_of(token(RSA_KEY, {"iss": "accounts.google.com"})) == "https://accounts.google.com"
    assert issuer_of("nothing") == ""


def test_a_huge_token_costs_little() -> None:
    for text in ("." * 10_000_000, "a" * 10_000_000, f"{'a' * 900_000}.{'b' * 90_000}.c"):
        with cpu_time_below(0.3), pytest.raises(TokenInvalid, match="malformed jwt"):
            Candidate(text, ALGORITHMS)


def test_keys_that_verify_nothing_are_left_out() -> None:
    known = public_key(RSA_KEY, "k1")
    strange = [{"kty": "oct", "k": "AAAA"}, {"kty": "RSA"}, "x", {}, {"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}]
    keys = keys_of(json.dumps({"keys": [*strange, known]}).encode())
    assert Candidate(token(RSA_KEY, CLAIMS), ALGORITHMS).is_signed_by(keys)
    for broken in (b"", b"[]", b"{}", b'{"keys": 1}', b"\xff"):
        with pytest.raises(TokenInvalid):
            keys_of(broken)

"""Tokens of service accounts, bootstrap tokens, and reviews of tokens."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bayplan.api.codec import encode
from bayplan.api.types import authentication_v1, core_v1, meta_v1
from bayplan.apiserver.authentication import Authenticator
from bayplan.apiserver.authentication.headers import SPACE_WARNING, bearer_token
from bayplan.apiserver.authentication.token_file import TokenFileError, read_token_file
from bayplan.apiserver.requests import Request, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.service_account_tokens.keys import (
    KeyFileError,
    TokenError,
    TokenKeys,
    check_signing_key,
    check_verifying_keys,
    decode_part,
    make_signing_key,
    public_pem,
)
from bayplan.client import Client
from bayplan.store.url import open_store
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from tests.apiserver.serving import ADMIN, client_of
from tests.cpu_time import cpu_time_below

KEY = make_signing_key()
START = 1_900_000_000.0


class SettableClock(SystemClock):
    """The machine's clock, but for the time of day, which the test sets."""

    __slots__ = ("time",)

    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time


def run(case: Callable[[ApiServer, Client, SettableClock], Awaitable[None]]) -> None:
    """Run a case against a fresh server with the account `robot`."""

    async def inner() -> None:
        clock = SettableClock()
        store = open_store("memory:", clock=clock)
        api = ApiServer(store, clock=clock, randomness=SystemRandomness(), token_keys=TokenKeys(lambda: KEY))
        await api.open()
        admin = client_of(api)
        await admin.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="robot", namespace="default")))
        await case(api, admin, clock)
        await api.close()

    asyncio.run(inner())


async def request_token(api: ApiServer, **spec: object) -> authentication_v1.TokenRequest:
    """A token for the account, with the given members of the request's spec."""
    members = authentication_v1.TokenRequestSpec(**{"audiences": (), **spec})  # type: ignore[arg-type]
    body = encode(authentication_v1.TokenRequest(spec=members))
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    answer = await api.handle(Request("POST", path, {}, ADMIN, body, "application/json"))
    assert answer.code == 201, answer.body
    return msgspec.json.decode(answer.body, type=authentication_v1.TokenRequest)


def claims_of(token: str) -> dict[str, object]:
    claims: dict[str, object] = json.loads(decode_part(token.split(".")[1]))
    return claims


def test_a_token_is_good_until_it_expires() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        token = (await request_token(api, expiration_seconds=600)).status.token
        user = api.context.authenticator.user_of_token(token)
        assert user is not None
        assert (user.name, user.groups) == (
            "system:serviceaccount:default:robot",
            ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
        )
        clock.time = START + 650  # clocks may differ by a minute
        assert api.context.authenticator.user_of_token(token) is not None
        clock.time = START + 661
        assert api.context.authenticator.user_of_token(token) is None
        error = api.context.authenticator.review(token).error
        assert error == "[invalid bearer token, service account token has expired]"

    run(case)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"nbf": 60, "iat": 60, "exp": -60}, ""),
        ({"exp": None, "nbf": None, "iat": None}, ""),
        ({"exp": -61}, "service account token has expired"),
        ({"nbf": 61}, "service account token is not valid yet"),
        ({"iat": 61}, "service account token is issued in the future"),
    ],
    ids=str,
)
def test_times_of_a_token_may_be_wrong_by_a_minute(changes: dict[str, int | None], problem: str) -> None:
    """Times are seconds from now; None: the token does not say."""

    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        claims = claims_of((await request_token(api)).status.token)
        for name, seconds in changes.items():
            claims.pop(name) if seconds is None else claims.update({name: int(clock.now()) + seconds})
        token = api.context.service_accounts.issuer.keys.sign(claims)
        review = api.context.authenticator.review(token)
        assert review.error == (f"[invalid bearer token, {problem}]" if problem else "")

    run(case)


def test_a_token_ends_with_its_account_and_with_what_it_is_bound_to() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        secret = await admin.create(core_v1.Secret(metadata=meta_v1.ObjectMeta(name="s", namespace="default")))
        bound = authentication_v1.BoundObjectReference(kind="Secret", api_version="v1", name="s")
        token = (await request_token(api, bound_object_ref=bound)).status.token
        free = (await request_token(api)).status.token
        source = api.context.authenticator
        assert claims_of(token)["kubernetes.io"]["secret"] == {"name": "s", "uid": secret.metadata.uid}  # type: ignore[index]
        assert source.user_of_token(token) is not None
        await admin.delete(core_v1.Secret, "s", "default")
        assert source.user_of_token(token) is None
        await admin.create(core_v1.Secret(metadata=meta_v1.ObjectMeta(name="s", namespace="default")))
        assert source.user_of_token(token) is None
        assert source.user_of_token(free) is not None
        await admin.delete(core_v1.ServiceAccount, "robot", "default")
        await admin.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="robot", namespace="default")))
        assert source.user_of_token(free) is None

    run(case)


def test_a_token_is_not_bound_to_a_pod_of_another_account() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        metadata = meta_v1.ObjectMeta(name="p", namespace="default")
        spec = core_v1.PodSpec(
            containers=(core_v1.Container(name="c", image="i"),), automount_service_account_token=False
        )
        await admin.create(core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default")))
        await admin.create(core_v1.Pod(metadata=metadata, spec=spec))
        bound = authentication_v1.BoundObjectReference(kind="Pod", api_version="v1", name="p")
        with pytest.raises(AssertionError, match="to pod running with different serviceaccount name"):
            await request_token(api, bound_object_ref=bound)

    run(case)


def test_audiences_have_to_meet() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        token = (await request_token(api, audiences=("vault", "bank"))).status.token
        source = api.context.authenticator
        assert source.user_of_token(token) is None
        assert source.review(token, ("bank", "other")).audiences == ("bank",)
        assert source.review(token, ("other",)).user is None

    run(case)


def test_the_default_token_of_a_pod_lives_for_a_year() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", image="x"),), service_account_name="robot")
        await admin.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=spec))
        bound = authentication_v1.BoundObjectReference(kind="Pod", api_version="v1", name="p")
        made = await request_token(api, bound_object_ref=bound, expiration_seconds=3607)
        claims = claims_of(made.status.token)
        assert claims["exp"] == START + 365 * 24 * 3600
        assert claims["kubernetes.io"]["warnafter"] == START + 3607  # type: ignore[index]
        assert made.spec.expiration_seconds == 3607

    run(case)


@pytest.mark.parametrize("seconds", [599, (1 << 32) + 1])
def test_lifetimes_have_bounds(seconds: int) -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        with pytest.raises(AssertionError, match=r"spec\.expirationSeconds"):
            await request_token(api, expiration_seconds=seconds)

    run(case)


def test_what_was_signed_by_others_or_changed_is_refused() -> None:
    keys, other = TokenKeys(lambda: KEY), TokenKeys(make_signing_key)
    token = keys.sign({"iss": "x"})
    assert keys.verify(token) == {"iss": "x"}
    assert TokenKeys(make_signing_key, (public_pem(KEY),)).verify(token) == {"iss": "x"}
    header, _, signature = token.split(".")
    for bad in (other.sign({"iss": "x"}), f"{header}.e30.{signature}", "a.b", "a.b.c"):
        with pytest.raises(TokenError):
            keys.verify(bad)


def test_only_the_key_that_a_token_names_is_tried() -> None:
    import jwt

    keys, other = TokenKeys(lambda: KEY), TokenKeys(make_signing_key)
    signed = {name: jwt.encode({"iss": "x"}, keys.private(), "RS256", {"kid": name}) for name in ("", "k9")}
    assert keys.verify(signed[""]) == {"iss": "x"}
    both = TokenKeys(lambda: KEY, (public_pem(KEY),))
    for unknown in (signed["k9"], other.sign({"iss": "x"})):
        with pytest.raises(TokenError, match="invalid signature, no keys found"):
            both.verify(unknown)
    named_wrongly = jwt.encode({"iss": "x"}, other.private(), "RS256", {"kid": keys.public()[0].key_id})
    with pytest.raises(TokenError, match="invalid signature"):
        keys.verify(named_wrongly)


def _token(header: object, payload: bytes, signature: str = "AA") -> str:
    parts = (json.dumps(header).encode(), payload)
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), signature])


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(_token({"alg": "none"}, b'{"iss":"x"}', ""), id="no algorithm"),
        pytest.param(_token({"alg": "HS256"}, b'{"iss":"x"}'), id="an algorithm with a shared secret"),
        pytest.param(_token({"alg": "RS512"}, b'{"iss":"x"}'), id="another algorithm than the key's"),
        pytest.param(_token({"alg": "RS256", "crit": ["exp"], "exp": 1}, b'{"iss":"x"}'), id="critical members"),
        pytest.param(_token({"alg": "RS256", "b64": False, "crit": ["b64"]}, b'{"iss":"x"}'), id="a bare payload"),
        pytest.param(_token({"alg": 5}, b'{"iss":"x"}'), id="a number as algorithm"),
        pytest.param(_token([], b'{"iss":"x"}'), id="a list as header"),
        pytest.param(_token({"alg": "RS256"}, b'{"iss":"x","a":' + b"[" * 100_000), id="deep claims"),
        pytest.param(_token({"alg": "RS256"}, b'{"iss":%b}' % (b"1" * 5000)), id="a long number"),
        pytest.param(_token({"alg": "RS256", "x": "y" * 100_000}, b'{"iss":"x"}'), id="a long header"),
        pytest.param("." * 500_000, id="many parts"),
        pytest.param("a" * 2_000_000, id="a long word"),
        pytest.param("é.é.é", id="no ASCII"),
    ],
)
def test_tokens_that_no_key_can_have_signed_cost_nothing(token: str) -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        with cpu_time_below(2):
            for _ in range(20):
                assert api.context.authenticator.user_of_token(token) is None

    keys = TokenKeys(lambda: KEY)
    with pytest.raises(TokenError):
        keys.verify(token)
    run(case)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": "soon"},
        {"exp": -(10**30)},
        {"nbf": 10**30},
        {"nbf": [1]},
        {"aud": {"a": 1}},
        {"aud": [1]},
        {"kubernetes.io": []},
        {"kubernetes.io": {"namespace": 5}},
        {"kubernetes.io": {"serviceaccount": {"name": ["a"]}}},
        {"jti": 1},
        {"iss": "kubernetes/serviceaccount", "kubernetes.io/serviceaccount/namespace": 1},
    ],
    ids=str,
)
def test_signed_claims_of_wrong_types_are_refused(claims: dict[str, object]) -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        tokens = api.context.service_accounts.issuer
        good = {"iss": tokens.issuer, "exp": clock.now() + 1000, "nbf": 0}
        assert api.context.authenticator.user_of_token(tokens.keys.sign(good | claims)) is None

    run(case)


def _pem(key: Any, password: str = "") -> bytes:
    from cryptography.hazmat.primitives import serialization

    form = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    found: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, form)
    return found


def test_a_key_file_that_cannot_be_used_is_told() -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    good, other = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256K1())
    public, encrypted = public_pem(_pem(good)), _pem(good, "x")
    edwards, curve = _pem(ed25519.Ed25519PrivateKey.generate()), _pem(other)
    for pem, signing, verifying in (
        (b"", "no private key in PEM", "there is no key in it"),
        (b"no key", "no private key in PEM", "there is no key in it"),
        (public, "no private key in PEM", ""),
        (encrypted, "is encrypted", "is encrypted"),
        (_pem(good)[:100], "no private key in PEM", "no private key in PEM"),
        (edwards, "only RSA and ECDSA keys sign", "only RSA and ECDSA keys sign"),
        (curve, "keys of the curve secp256k1", "keys of the curve secp256k1"),
        (b"-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----\n", "no private key in PEM", "cannot be read"),
        (_pem(good), "", ""),
    ):
        for check, problem in ((check_signing_key, signing), (check_verifying_keys, verifying)):
            if not problem:
                check(pem)
                continue
            with pytest.raises(KeyFileError, match=problem):
                check(pem)


def test_elliptic_curve_keys_sign_as_well() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = ec.generate_private_key(ec.SECP384R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    keys = TokenKeys(lambda: pem)
    assert keys.verify(keys.sign({"a": 1})) == {"a": 1}
    assert keys.public()[0].jwk()["alg"] == "ES384"


def test_the_key_set_is_published() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        answer = await api.handle(Request("GET", "/openid/v1/jwks", {}, ADMIN))
        assert answer.content_type == "application/jwk-set+json"
        token = (await request_token(api)).status.token
        key_id = json.loads(decode_part(token.split(".")[0]))["kid"]
        assert [key["kid"] for key in json.loads(answer.body)["keys"]] == [key_id]
        about = json.loads((await api.handle(Request("GET", "/.well-known/openid-configuration", {}, ADMIN))).body)
        assert about["issuer"] == claims_of(token)["iss"] == "https://kubernetes.default.svc"

    run(case)


def bootstrap_secret(**changed: str) -> core_v1.Secret:
    data = {
        "token-id": "abcdef",
        "token-secret": "0123456789abcdef",
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": "system:bootstrappers:workers",
        **changed,
    }
    return core_v1.Secret(
        metadata=meta_v1.ObjectMeta(name="bootstrap-token-abcdef", namespace="kube-system"),
        type="bootstrap.kubernetes.io/token",
        data={key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    )


def test_bootstrap_tokens_let_nodes_in() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        source = api.context.authenticator
        assert source.user_of_token("abcdef.0123456789abcdef") is None
        await admin.create(bootstrap_secret())
        user = source.user_of_token("abcdef.0123456789abcdef")
        assert user is not None
        assert user.name == "system:bootstrap:abcdef"
        assert user.groups == ("system:bootstrappers", "system:bootstrappers:workers", "system:authenticated")
        assert source.user_of_token("abcdef.0123456789abcdee") is None

    run(case)


@pytest.mark.parametrize(
    "changed",
    [
        {"usage-bootstrap-authentication": "false"},
        {"expiration": "2020-01-01T00:00:00Z"},
        {"expiration": "soon"},
        {"auth-extra-groups": "system:masters"},
        {"token-id": "abcdee"},
    ],
)
def test_bootstrap_tokens_that_may_not_be_used(changed: dict[str, str]) -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        await admin.create(bootstrap_secret(**changed))
        assert api.context.authenticator.user_of_token("abcdef.0123456789abcdef") is None

    run(case)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Bearer a", ("a", "")),
        ("bearer a", ("a", "")),
        ("Basic a", ("", "")),
        ("a", ("", "")),
        ("Bearer  a", ("", SPACE_WARNING)),
    ],
)
def test_authorization_headers(header: str, expected: tuple[str, str]) -> None:
    assert bearer_token(header) == expected


def test_only_a_wrong_token_is_refused_not_a_missing_one() -> None:
    authenticator = Authenticator()
    authenticator.add_token("t", "u", ("g",))
    user = authenticator.authenticate("Bearer t")
    assert isinstance(user, User)
    assert user.groups == ("g", "system:authenticated")
    assert authenticator.authenticate("Bearer x") is None
    anonymous = authenticator.authenticate("Basic x")
    assert isinstance(anonymous, User)
    assert anonymous.name == "system:anonymous"
    authenticator.anonymous = False
    assert authenticator.authenticate("") is None


def test_empty_audiences_are_owned_and_missing_ones_are_not() -> None:
    async def case(api: ApiServer, _client: Client, _clock: SettableClock) -> None:
        path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
        for spec, owned in (({"audiences": []}, True), ({}, False), ({"audiences": ["api"]}, True)):
            body = json.dumps({"spec": spec}).encode()
            answer = await api.handle(Request("POST", path, {}, ADMIN, body, "application/json"))
            [entry] = json.loads(answer.whole_body())["metadata"]["managedFields"]
            assert ("f:audiences" in entry["fieldsV1"]["f:spec"]) is owned

    run(case)


def test_tokens_that_should_have_been_replaced_are_counted_apart() -> None:
    async def case(api: ApiServer, admin: Client, clock: SettableClock) -> None:
        def counted() -> list[str]:
            page = api.metrics.render().decode()
            return [
                re.findall(rf"^serviceaccount_{name}_tokens_total (.*)$", page, re.M)[0] for name in ("valid", "stale")
            ]

        spec = core_v1.PodSpec(containers=(core_v1.Container(name="c", image="x"),), service_account_name="robot")
        await admin.create(core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=spec))
        bound = authentication_v1.BoundObjectReference(kind="Pod", api_version="v1", name="p")
        renewed = (await request_token(api, bound_object_ref=bound, expiration_seconds=3607)).status.token
        other = (await request_token(api, expiration_seconds=7200)).status.token
        tokens = api.context.service_accounts
        for token in (renewed, other):
            assert tokens.user(token) is not None
        assert counted() == ["1", "0"]
        clock.time += 3608
        for token in (renewed, other):
            assert tokens.user(token) is not None
        assert counted() == ["1", "1"]

    run(case)


def test_a_token_file_is_taken_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text('t1,alice,1,"a,b"\nt2,bob,2,""\n\n,nobody,3\nt4, carol ,4\nt5,dave,5, system:masters\n')
    assert read_token_file(file) == [
        ("t1", "alice", "1", ("a", "b")),
        ("t2", "bob", "2", ("",)),
        ("t4", " carol ", "4", ()),
        ("t5", "dave", "5", (" system:masters",)),
    ]
    file.write_text("t1,alice\n")
    with pytest.raises(TokenFileError, match="tokens:1: expected token,user,uid"):
        read_token_file(file)
    file.write_bytes(bytes(range(128, 256)))
    with pytest.raises(TokenFileError, match=f"{file}: 'utf-8' codec"):
        read_token_file(file)

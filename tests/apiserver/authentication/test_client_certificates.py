"""What certificates of clients are good for: each authority is asked by itself."""

from __future__ import annotations

import base64

import pytest
from cryptography import x509

from bayplan.apiserver.authentication.client_certificates import (
    Authority,
    AuthorityError,
    ClientCertificates,
    FrontProxies,
    NotVouchedFor,
)
from bayplan.apiserver.certificates import make_authority, sign
from tests.apiserver.authentication.certificates import SERVER, der, ed25519_authority, issue

NOW = 1_800_000_000.0
USERS, PROXIES, OTHERS = (make_authority(NOW) for _ in range(3))
USERS_ONLY = Authority(USERS.certificate)


VERSION_1_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBfTCCASOgAwIBAgIUBedypc9Lj8Rs4GcI90rGPpWMgEcwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJYXV0aG9yaXR5MB4XDTI2MTEyNjEyMzc0MFoXDTM2MTEyMzEy
Mzc0MFowFDESMBAGA1UEAwwJYXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEOorVu0VNlveM1fKiPyXoyg7PePB0pyLWJS/fDgpAvjl0udHTwWRBD9XN
tCIoou8VmFcVxvq090a9LX06Sszf0qNTMFEwHQYDVR0OBBYEFGs5umFztSrFdm3L
f8nkXMcoH8KIMB8GA1UdIwQYMBaAFGs5umFztSrFdm3Lf8nkXMcoH8KIMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgNqboi1sj89lCjTv0U00gtF79
pR389TCOHs6AUlsRVxcCIQDHof+If5pIjPwsla33iEPAr3tL0CRleQcL8XX5yFND
Sw==
-----END CERTIFICATE-----
"""
VERSION_1 = """\
-----BEGIN CERTIFICATE-----
MIIBLDCB0gIUfnMhMBYLkb2gglGBjGsSm7XbGL8wCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJYXV0aG9yaXR5MB4XDTI2MTEyNjEyMzc0MFoXDTM2MTEyMzEyMzc0MFow
HTEMMAoGA1UECgwDZGV2MQ0wCwYDVQQDDARkb3JhMFkwEwYHKoZIzj0CAQYIKoZI
zj0DAQcDQgAElMa+gmOMZJtbAGO662xO/9+qMboiaJEBR8IUi+EYPJbps3EopXeC
Mh3Er+yxdnjoRzw/dDlnR65Bz7Qn2Z092DAKBggqhkjOPQQDAgNJADBGAiEA8ebb
A2/hKVQQG/pDd6pR3ZVQWW/vgs9/K67P+a2x06ICIQDkxCcs1+TLcVCfN+vb12X0
vhMejkE9ZKW9ydhtX9BX5Q==
-----END CERTIFICATE-----
"""
"""A certificate without extensions, as `openssl x509 -req` makes it; good until November 2036."""


NO_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBcTCCARagAwIBAgIUYPKpV+t+gfhwGhWstvLvKFc8hQwwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEbGVhZjAeFw0yNjExMjYxMzQ4MjhaFw0zNjExMjMxMzQ4Mjha
MA8xDTALBgNVBAMMBGxlYWYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAST8PWM
pOOpJ4MmA/Huw3gheTmnNTKecl0nqI11tmcerXuQONtJ8fhVGqMUMuTbTYrWow1n
nUyE1v+YNcm1IiH1o1AwTjAdBgNVHQ4EFgQU3ChdNlxGisWMvEiNlfgfTaM3Legw
HwYDVR0jBBgwFoAU3ChdNlxGisWMvEiNlfgfTaM3LegwDAYDVR0TAQH/BAIwADAK
BggqhkjOPQQDAgNJADBGAiEAtbgS2uKLUEF2i958zFTt4xA8LK9Uqpc727LAjWZR
9lcCIQDaZAi5XgZKLOTB195qlDsKC2yLTpAlIYJcz9i4mZeuyg==
-----END CERTIFICATE-----
"""
SIGNED_BY_NO_AUTHORITY = """\
-----BEGIN CERTIFICATE-----
MIIBJjCBzQIUcAZFBQCPHByK3txhq3AG8tIZUl4wCgYIKoZIzj0EAwIwDzENMAsG
A1UEAwwEbGVhZjAeFw0yNjExMjYxMzQ4MjhaFw0zNjExMjMxMzQ4MjhaMB0xDDAK
BgNVBAoMA2RldjENMAsGA1UEAwwEZG9yYTBZMBMGByqGSM49AgEGCCqGSM49AwEH
A0IABJTGvoJjjGSbWwBjuutsTv/fqjG6ImiRAUfCFIvhGDyW6bNxKKV3gjIdxK/s
sXZ46Ec8P3Q5Z0euQc+0J9mdPdgwCgYIKoZIzj0EAwIDSAAwRQIhAIm+0xMT3Xaa
23LVzNBV3JlY72KgkqVCJfgn0r1zJAhEAiBU2MzU+mqoPztQYCcCRezjmiOkVoQ3
C5z/ElsVK92+0Q==
-----END CERTIFICATE-----
"""


def certificates(*names: str) -> ClientCertificates:
    """Those of a server that knows users of one authority and front proxies of another."""
    return ClientCertificates(USERS_ONLY, FrontProxies(Authority(PROXIES.certificate), names))


def test_a_certificate_of_the_authority_of_users_names_a_user_and_is_no_front_proxy() -> None:
    found = certificates().judge([der(sign(USERS, NOW, "dora", organizations=("g",)))], NOW)
    assert found.user is not None
    assert (found.user.name, found.user.groups) == ("dora", ("g", "system:authenticated"))
    assert not found.is_front_proxy
    assert not found.problem


def test_a_certificate_of_the_front_proxies_names_no_user() -> None:
    found = certificates().judge(
        [der(sign(PROXIES, NOW, "front-proxy-client", organizations=("system:masters",)))], NOW
    )
    assert found.is_front_proxy
    assert found.user is None
    assert "unknown authority" in found.problem


@pytest.mark.parametrize(("name", "is_known"), [("a", True), ("b", True), ("c", False), ("", False)])
def test_only_certificates_with_an_allowed_name_are_front_proxies(name: str, is_known: bool) -> None:
    found = certificates("a", "b").judge([der(issue(PROXIES, name or "x", NOW))], NOW)
    assert found.is_front_proxy is is_known


def test_without_names_any_certificate_of_the_front_proxies_is_one() -> None:
    assert certificates().judge([der(issue(PROXIES, "whoever", NOW))], NOW).is_front_proxy


def test_nobody_vouches_for_a_certificate_of_another_authority() -> None:
    found = certificates().judge([der(sign(OTHERS, NOW, "dora"))], NOW)
    assert (found.user, found.is_front_proxy) == (None, False)


def test_an_authority_does_not_vouch_for_a_server() -> None:
    with pytest.raises(NotVouchedFor, match="incompatible key usage"):
        USERS_ONLY.verify([x509.load_der_x509_certificate(der(issue(USERS, "s", NOW, usages=(SERVER,))))], NOW)


def test_a_user_is_no_authority() -> None:
    dora = issue(USERS, "dora", NOW)
    found = certificates().judge([der(issue(dora, "system:admin", NOW)), der(dora)], NOW)
    assert found.user is None


def test_an_authority_between_is_taken_and_its_end_counts() -> None:
    between = issue(USERS, "between", NOW, seconds=60, usages=(), is_authority=True)
    found = certificates().judge([der(issue(between, "dora", NOW)), der(between)], NOW)
    assert found.user is not None
    assert found.not_after == NOW + 60
    assert certificates().judge([der(issue(between, "dora", NOW))], NOW).user is None


@pytest.mark.parametrize(("later", "is_known"), [(0, True), (59, True), (61, False), (-301, False)])
def test_a_certificate_is_good_within_its_time(later: float, is_known: bool) -> None:
    found = certificates().judge([der(issue(USERS, "dora", NOW, seconds=60))], NOW + later)
    assert (found.user is not None) is is_known


def test_a_file_without_certificates_is_no_authority() -> None:
    for text in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", base64.b64encode(b"x")):
        with pytest.raises(AuthorityError):
            Authority(text)


def test_a_certificate_of_version_1_is_taken_if_the_authority_has_signed_it_itself() -> None:
    leaf = [x509.load_pem_x509_certificate(VERSION_1.encode())]
    authority = Authority(VERSION_1_AUTHORITY.encode())
    assert authority.verify(leaf, NOW) > NOW
    for problem, (other, when) in {
        "unknown authority": (USERS_ONLY, NOW),
        "expired or is not yet valid": (authority, NOW + 3650 * 86400),
    }.items():
        with pytest.raises(NotVouchedFor, match=problem):
            other.verify(leaf, when)


def test_a_certificate_that_says_that_it_is_no_authority_vouches_for_nobody() -> None:
    leaf = x509.load_pem_x509_certificate(SIGNED_BY_NO_AUTHORITY.encode())
    with pytest.raises(NotVouchedFor, match="unknown authority"):
        Authority(NO_AUTHORITY.encode()).verify([leaf], NOW)


class Connected:
    """A connection with a certificate, as asyncio shows it; its own TLS object."""

    def __init__(self, certificate: bytes) -> None:
        self._certificate = certificate

    def get_extra_info(self, name: str) -> object:
        return self if name == "ssl_object" else None

    def getpeercert(self, binary: bool) -> bytes:
        return self._certificate

    def get_unverified_chain(self) -> list[bytes]:
        return []  # as after TLS has resumed a session


def test_a_certificate_that_has_expired_since_is_good_for_nothing() -> None:
    users, proxies = (Connected(der(issue(authority, "x", NOW, seconds=60))) for authority in (USERS, PROXIES))
    known = certificates()
    for when, is_good in ((NOW, True), (NOW + 59, True), (NOW + 61, False)):
        assert (known.of(users, when).user is not None) is is_good  # type: ignore[arg-type]
        assert known.of(proxies, when).is_front_proxy is is_good  # type: ignore[arg-type]


def test_a_certificate_is_judged_anew_when_the_authorities_change() -> None:
    connection, known = Connected(der(issue(USERS, "x", NOW))), certificates()
    assert known.of(connection, NOW).user is not None  # type: ignore[arg-type]
    known.replace(Authority(OTHERS.certificate), None)
    assert known.of(connection, NOW).user is None  # type: ignore[arg-type]


def test_without_an_authority_of_users_certificates_of_front_proxies_name_nobody() -> None:
    known = ClientCertificates(None, FrontProxies(Authority(PROXIES.certificate)))
    found = known.judge([der(sign(PROXIES, NOW, "dora", organizations=("system:masters",)))], NOW)
    assert (found.user, found.is_front_proxy) == (None, True)
    assert ClientCertificates().judge([der(sign(OTHERS, NOW, "dora"))], NOW).user is not None


def test_an_authority_with_a_key_of_ed25519_vouches_for_what_it_has_signed_itself() -> None:
    authority, other = ed25519_authority(), ed25519_authority()
    known = ClientCertificates(Authority(authority.certificate), FrontProxies(Authority(other.certificate)))
    found = known.judge([der(issue(authority, "dora", NOW, seconds=60))], NOW)
    assert found.user is not None
    assert (found.user.name, found.is_front_proxy, found.not_after) == ("dora", False, NOW + 60)
    for certificate, problem in {
        issue(other, "dora", NOW): "unknown authority",
        issue(authority, "dora", NOW, usages=(SERVER,)): "incompatible key usage",
        issue(authority, "dora", NOW, seconds=-1): "expired or is not yet valid",
    }.items():
        assert problem in known.judge([der(certificate)], NOW).problem


def test_what_cannot_be_read_is_good_for_nothing() -> None:
    found = certificates().judge([b"nonsense"], NOW)
    assert (found.user, found.is_front_proxy) == (None, False)
    assert "malformed certificate" in found.problem

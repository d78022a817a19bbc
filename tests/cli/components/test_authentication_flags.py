"""Flags about users that others know: which go together, and what is refused."""

from __future__ import annotations

import click
import pytest

from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cli.flags.serving_flags import request_headers_of, sni_files_of

OIDC = ("--oidc-issuer-url=https://a", "--oidc-client-id=b")


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--oidc-issuer-url=https://a",), "oidc-issuer-url and oidc-client-id must be specified together"),
        (("--oidc-groups-claim=g",), "must be specified together when any oidc-"),
        ((*OIDC, "--authentication-config=f"), "authentication-config file and oidc-.* flags are mutually exclusive"),
        ((*OIDC, "--oidc-signing-algs=HS256"), 'oidc: unsupported signing alg: "HS256"'),
        ((*OIDC, "--oidc-signing-algs=none"), 'oidc: unsupported signing alg: "none"'),
        ((*OIDC, "--oidc-required-claim=a"), "malformed pair, expect string=string"),
        (
            ("--authentication-token-webhook-version=v2",),
            'unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1"',
        ),
        (("--authentication-token-webhook-cache-ttl=x",), "no duration"),
        (("--service-account-jwks-uri=http://a",), "the URL needs the scheme https"),
        (("--service-account-jwks-uri=/a",), "the URL needs the scheme https"),
    ],
)
def test_flags_that_make_no_sense_are_usage_errors(flags: tuple[str, ...], problem: str) -> None:
    with pytest.raises(click.UsageError, match=problem):
        api_server_settings(flags)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ("sub", "https://a#")),
        (("--oidc-username-prefix=-",), ("sub", "")),
        (("--oidc-username-prefix=p:",), ("sub", "p:")),
        (("--oidc-username-claim=email",), ("email", "")),
        (("--oidc-username-claim=email", "--oidc-username-prefix=p:"), ("email", "p:")),
    ],
)
def test_names_have_a_prefix_unless_they_are_addresses(flags: tuple[str, ...], expected: tuple[str, str]) -> None:
    settings, _, _ = api_server_settings((*OIDC, *flags))
    assert settings.authentication.issuer is not None
    username = settings.authentication.issuer.claim_mappings.username
    assert (username.claim, username.prefix) == expected


def test_the_flag_about_anonymous_requests_is_noticed() -> None:
    assert not api_server_settings(())[0].authentication.anonymous_is_given
    assert api_server_settings(("--anonymous-auth=true",))[0].authentication.anonymous_is_given


def test_headers_of_front_proxies() -> None:
    found = request_headers_of({"username": "A, B", "uid": "", "group": "C", "extra": "D-"})
    assert (found.usernames, found.uids, found.groups, found.extra_prefixes) == (("A", "B"), (), ("C",), ("D-",))
    with pytest.raises(click.UsageError, match='empty value in "requestheader-group-headers"'):
        request_headers_of({"group": "A,,B"})
    with pytest.raises(click.UsageError, match="without specifying the standard X-Remote-Uid header"):
        request_headers_of({"uid": "X-Other"})


@pytest.mark.parametrize("text", ["a", "a,", ",b", "a,b,c", "none,none"])
def test_certificates_by_name_need_two_files(text: str) -> None:
    with pytest.raises(click.UsageError, match="--tls-sni-cert-key"):
        sni_files_of(text)

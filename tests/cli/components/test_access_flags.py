"""Flags that say who may do what and how tokens are made."""

from __future__ import annotations

import click
import pytest

from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cluster.settings import CLUSTER_API


def test_a_whole_cluster_goes_by_roles_unless_told_otherwise() -> None:
    assert api_server_settings((), CLUSTER_API)[0].authorization_modes == ("Node", "RBAC")
    flags = ("--authorization-mode=AlwaysAllow",)
    assert api_server_settings(flags, CLUSTER_API)[0].authorization_modes == ("AlwaysAllow",)
    assert api_server_settings(())[0].authorization_modes == ("AlwaysAllow",)


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("--authorization-mode=Other",), 'authorization-mode "Other" is not a valid mode'),
        (("--authorization-mode=RBAC,RBAC",), "authorization-mode .* has mode specified more than once"),
        (("--authorization-mode=Webhook",), "authorization-mode Webhook's authorization config file not passed"),
        (("--authorization-mode=ABAC",), "authorization-mode ABAC's authorization policy file not passed"),
        (("--authorization-policy-file=f",), "cannot specify --authorization-policy-file without mode ABAC"),
        (
            ("--authorization-webhook-config-file=f", "--authorization-mode=RBAC"),
            "cannot specify --authorization-webhook-config-file without mode Webhook",
        ),
        (
            ("--authorization-config=f", "--authorization-mode=RBAC"),
            "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-",
        ),
        (("--authorization-config=f", "--authorization-webhook-version=v1"), "--authorization-config can not be"),
        (("--authorization-webhook-version=v2",), 'unsupported webhook authorizer version "v2"'),
    ],
)
def test_authorizers_that_make_no_sense_are_usage_errors(flags: tuple[str, ...], problem: str) -> None:
    with pytest.raises(click.UsageError, match=problem):
        api_server_settings(flags)


def test_a_whole_cluster_may_have_its_authorizers_in_a_file() -> None:
    settings, _, _ = api_server_settings(("--authorization-config=f",), CLUSTER_API)
    assert settings.authorization.config_file == "f"


def test_flags_of_service_account_tokens() -> None:
    flags = (
        "--service-account-issuer=https://new,https://old",
        "--api-audiences=a,b",
        "--service-account-max-token-expiration=24h",
        "--service-account-extend-token-expiration=false",
    )
    settings, _, _ = api_server_settings(flags)
    assert settings.service_account_issuers == ("https://new", "https://old")
    assert settings.api_audiences == ("a", "b")
    assert settings.service_account_max_token_seconds == 24 * 3600
    assert not settings.service_account_extend_tokens

"""Flags that say who may do what and how tokens are made."""

from __future__ import annotations

import click
import pytest

from bayplan.cli.kube_flags import api_server_settings
from bayplan.cluster.settings import CLUSTER_API


def test_a_whole_cluster_goes_by_roles_unless_told_otherwise() -> None:
    assert api_server_settings((), CLUSTER_API)[0].authorization_modes == ("Node", "RBAC")
    flags = ("--authorization-mode=AlwaysAllow",)
    assert api_server_settings(flags, CLUSTER_API)[0].authorization_modes == ("AlwaysAllow",)
    assert api_server_settings(())[0].authorization_modes == ("AlwaysAllow",)


@pytest.mark.parametrize("modes", ["Webhook", "RBAC,RBAC"])
def test_modes_that_make_no_sense_are_usage_errors(modes: str) -> None:
    with pytest.raises(click.UsageError, match="--authorization-mode"):
        api_server_settings((f"--authorization-mode={modes}",))


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

from __future__ import annotations

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.controllers.access.legacy_tokens import day, verdict

DAY = 86400.0
START = day("2026-01-01") or 0.0
YEAR = 365 * DAY


def secret(kind: str = "kubernetes.io/service-account-token", **labels: str) -> core_v1.Secret:
    names = {f"kubernetes.io/legacy-token-{key.replace('_', '-')}": value for key, value in labels.items()}
    metadata = {"name": "token", "labels": names, "creationTimestamp": "2025-06-01T12:00:00Z"}
    return from_tree(core_v1.Secret, {"metadata": metadata, "type": kind})


ACCOUNT = from_tree(core_v1.ServiceAccount, {"metadata": {"name": "a"}, "secrets": [{"name": "token"}]})
OTHER = from_tree(core_v1.ServiceAccount, {"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    ("one", "account", "passed", "expected"),
    [
        pytest.param(secret(), ACCOUNT, 364, "", id="not tracked for long enough"),
        pytest.param(secret(), ACCOUNT, 366, "mark", id="never used"),
        pytest.param(secret(last_used="2026-06-01"), ACCOUNT, 400, "", id="used lately"),
        pytest.param(secret(last_used="2026-01-10"), ACCOUNT, 400, "mark", id="used long ago"),
        pytest.param(secret(invalid_since="2027-01-02"), ACCOUNT, 400, "", id="marked not long ago"),
        pytest.param(secret(invalid_since="2027-01-02"), ACCOUNT, 732, "delete", id="marked long ago"),
        pytest.param(secret(invalid_since="yesterday"), ACCOUNT, 732, "mark", id="a mark that says nothing"),
        pytest.param(secret(), OTHER, 366, "", id="made by a user"),
        pytest.param(secret(), None, 366, "", id="no account"),
        pytest.param(secret("Opaque"), ACCOUNT, 366, "", id="no token"),
    ],
)
def test_what_becomes_of_a_token(
    one: core_v1.Secret, account: core_v1.ServiceAccount | None, passed: float, expected: str
) -> None:
    assert verdict(one, account, START, YEAR, START + passed * DAY) == expected

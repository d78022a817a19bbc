from __future__ import annotations

import base64

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.controllers.access import bootstrap_tokens as tokens

NOW = 1767225600.0  # 2026-01-01


def secret(name: str = "bootstrap-token-abcdef", namespace: str = "kube-system", **data: str) -> core_v1.Secret:
    usual = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
    encoded = {
        key.replace("_", "-"): base64.b64encode(value.encode()).decode() for key, value in {**usual, **data}.items()
    }
    metadata = {"name": name, "namespace": namespace}
    return from_tree(core_v1.Secret, {"metadata": metadata, "type": tokens.TYPE, "data": encoded})


@pytest.mark.parametrize(
    ("one", "signs"),
    [
        (secret(), True),
        (secret(expiration="2026-01-01T00:00:01Z"), True),
        (secret(expiration="2025-12-31T23:59:59Z"), False),
        (secret(expiration="soon"), False),
        (secret(name="bootstrap-token-other"), False),
        (secret(namespace="default"), False),
        (secret(**{"usage-bootstrap-signing": "false"}), False),
        (secret(**{"token-secret": ""}), False),
    ],
)
def test_which_tokens_sign(one: core_v1.Secret, signs: bool) -> None:
    assert bool(tokens.signing_tokens([one], NOW)) is signs


def test_the_signature_is_a_jws_without_its_payload() -> None:
    """Content, key and result of Kubernetes' own test of the signer."""
    content = "Hello from the other side. I must have called a thousand times."
    signature = tokens.detached_signature(content, "joshua", "my voice is my passcode")
    assert signature == "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"


def test_signatures_of_tokens_that_are_gone_go_and_the_rest_of_the_map_stays() -> None:
    data = {"kubeconfig": "content", "other": "kept", "jws-kubeconfig-gone01": "old"}
    changed = tokens.with_signatures(data, {"abcdef": "key"})
    assert set(changed) == {"kubeconfig", "other", "jws-kubeconfig-abcdef"}
    assert tokens.with_signatures(changed, {"abcdef": "key"}) is changed


def test_a_map_without_a_kubeconfig_is_left_alone() -> None:
    data = {"other": "kept"}
    assert tokens.with_signatures(data, {"abcdef": "key"}) is data

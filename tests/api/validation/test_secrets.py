"""Secrets with credentials of registries."""

from __future__ import annotations

import base64

import pytest

from bayplan.api.strategies.core.secrets import STRATEGY
from bayplan.api.types import core_v1, meta_v1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "invalid character 'x' looking for beginning of value"),
        ("", "unexpected end of JSON input"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("5", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ("null", None),
        ("{}", None),
    ],
)
def test_credentials_of_a_registry_are_a_json_object(text: str, problem: str | None) -> None:
    key = ".dockerconfigjson"
    secret = core_v1.Secret(
        metadata=meta_v1.ObjectMeta(name="s", namespace="default"),
        type="kubernetes.io/dockerconfigjson",
        data={key: base64.b64encode(text.encode()).decode()},
    )
    found = [(error.field, error.detail) for error in STRATEGY.validate(secret)]
    assert found == ([] if problem is None else [(f"data[{key}]", problem)])

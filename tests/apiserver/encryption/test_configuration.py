"""Encryption configurations: what they choose, and what is wrong with them in kube-apiserver's words."""

from __future__ import annotations

import base64
import os
from typing import Any

import msgspec
import pytest

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.encryption.configuration import read_configuration
from bayplan.apiserver.encryption.resources import Resources, bound_folders

SECRET = base64.b64encode(bytes(32)).decode()


def keys(*names: str) -> dict[str, Any]:
    return {"keys": [{"name": name, "secret": SECRET} for name in names]}


def configuration(*rules: tuple[list[str], list[dict[str, Any]]], **more: Any) -> str:
    resources = [{"resources": names, "providers": providers} for names, providers in rules]
    tree = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": resources}
    return msgspec.json.encode(tree | more).decode()


def read(*rules: tuple[list[str], list[dict[str, Any]]], **more: Any) -> Resources:
    return read_configuration(configuration(*rules, **more), os.urandom)


def prefix(resources: Resources, key: str) -> str:
    providers = resources.of_key(key)
    return "" if providers is None else providers.to_storage(key, b"").partition(b":v1:")[2].partition(b":")[0].decode()


def test_the_narrowest_rule_counts() -> None:
    found = read(
        (["secrets"], [{"aesgcm": keys("own")}]),
        (["deployments.apps"], [{"aescbc": keys("deployments")}]),
        (["*.apps"], [{"aesgcm": keys("apps")}]),
        (["*."], [{"secretbox": keys("core")}]),
        (["*.*"], [{"aesgcm": keys("all")}]),
    )
    assert prefix(found, "/registry/core/secrets/default/a") == "own"
    assert prefix(found, "/registry/core/configmaps/default/a") == "core"
    assert prefix(found, "/registry/apps/deployments/default/a") == "deployments"
    assert prefix(found, "/registry/apps/replicasets/default/a") == "apps"
    assert prefix(found, "/registry/example.com/widgets/default/a") == "all"


def test_what_no_rule_names_is_kept_as_it_is() -> None:
    found = read((["secrets"], [{"aesgcm": keys("a")}]))
    assert found.of_key("/registry/core/configmaps/default/a") is None
    assert found.of_key("/registry/example.com/secrets/default/a") is None


def test_rules_of_one_resource_add_up() -> None:
    found = read((["secrets"], [{"aesgcm": keys("a")}]), (["secrets"], [{"identity": {}}]))
    providers = found.of_key("/registry/core/secrets/default/a")
    assert providers is not None
    assert providers.from_storage("/registry/core/secrets/default/a", b"plain") == b"plain"


SHORT = {"keys": [{"name": "a", "secret": "YQ=="}]}
NO_BASE64 = {"keys": [{"name": "a", "secret": "?"}]}
GCM = [{"aesgcm": keys("a")}]
WRONG: dict[str, tuple[str, str]] = {
    "no rules": (configuration(), "resources: Required value: at least one resources is required"),
    "no resources": (
        configuration(([], GCM)),
        "resources[0].resources: Required value: at least one resources[0].resources is required",
    ),
    "no providers": (
        configuration((["secrets"], [])),
        "resources[0].providers: Required value: at least one resources[0].providers is required",
    ),
    "a resource twice": (
        configuration((["secrets", "secrets"], GCM)),
        "the same resource cannot be specified multiple times",
    ),
    "a resource and its group": (
        configuration((["secrets", "*."], GCM)),
        "using overlapping resources such as 'secrets' and '*.' in the same resource list",
    ),
    "everything and more": (configuration((["a.b", "*.*"], GCM)), "using overlapping resources"),
    "capital letters": (
        configuration((["Secrets"], GCM)),
        'resources[0].resources[0]: Invalid value: "Secrets": resource name should not contain capital letters',
    ),
    "a star": (
        configuration((["*"], GCM)),
        "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
    ),
    "events of the newer group": (
        configuration((["events.events.k8s.io"], GCM)),
        "Use 'events' instead in the config file",
    ),
    "extensions": (configuration((["*.extensions"], GCM)), "'extensions' group has been removed"),
    "a resource of all groups": (
        configuration((["secrets.*"], GCM)),
        "encrypting the same resource across groups is not supported",
    ),
    "no objects": (
        configuration((["serviceipallocations"], GCM)),
        "resources which do not have REST API/s cannot be encrypted",
    ),
    "a rule that is masked": (
        configuration((["*.*"], GCM), (["secrets"], GCM)),
        'resource "secrets" is masked by earlier rule "*.*"',
    ),
    "a rule that its group masks": (
        configuration((["*."], GCM), (["secrets"], GCM)),
        'resource "secrets" is masked by earlier rule "*."',
    ),
    "two providers in one": (
        configuration((["secrets"], [{"aesgcm": keys("a"), "identity": {}}])),
        "more than one provider specified in a single element",
    ),
    "an empty provider": (
        configuration((["secrets"], [{}])),
        "provider does not contain any of the expected providers",
    ),
    "no keys": (
        configuration((["secrets"], [{"aescbc": {"keys": []}}])),
        "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required",
    ),
    "a key without a name": (
        configuration((["secrets"], [{"aescbc": keys("")}])),
        "aescbc.keys[0].name: Required value: name is a mandatory field for a key",
    ),
    "no secret": (
        configuration((["secrets"], [{"aesgcm": {"keys": [{"name": "a"}]}}])),
        "keys[0].secret: Required value: secret is a mandatory field for a key",
    ),
    "no base64": (
        configuration((["secrets"], [{"aesgcm": NO_BASE64}])),
        'keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
    ),
    "a short key": (
        configuration((["secrets"], [{"secretbox": SHORT}])),
        'keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 1, expected one of [32]',
    ),
    "a field that there is not": (configuration((["secrets"], [{"aesgmc": keys("a")}])), "unknown field `aesgmc`"),
    "another kind": (
        configuration((["secrets"], GCM), kind="Config"),
        "got unexpected config type: apiserver.config.k8s.io/v1, Kind=Config",
    ),
    "no YAML": ("a: [", "error while parsing file"),
    "a list": ("[]", "error while parsing file"),
    "a key twice": ("kind: a\nkind: b", 'line 2: key "kind" already set in map'),
    "a number that is none": ("kind: !!float x", "error while parsing file"),
    "a date that is none": ("kind: !!timestamp x", "error while parsing file"),
    "half of a character": ('kind: "\\ud800"', "error while parsing file"),
    "a secret that is no ASCII": (
        configuration((["secrets"], [{"aesgcm": {"keys": [{"name": "a", "secret": "é"}]}}])),
        "secrets must be base64 encoded",
    ),
    "a service that keeps keys": (
        configuration((["secrets"], [{"kms": {"name": "k"}}])),
        "unsupported apiVersion for KMS provider, only v2 is supported",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_configuration_is_refused_with_its_field(name: str) -> None:
    text, message = WRONG[name]
    with pytest.raises(ConfigurationError) as caught:
        read_configuration(text, os.urandom)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("/registry/core/secrets/default/a", "/registry/secrets/default/a"),
        ("/registry/core/services/default/a", "/registry/services/specs/default/a"),
        ("/registry/core/nodes/a", "/registry/minions/a"),
        ("/registry/apps/deployments/default/a", "/registry/deployments/default/a"),
        ("/registry/example.com/widgets/default/a", "/registry/example.com/widgets/default/a"),
    ],
)
def test_values_are_bound_to_the_key_that_kube_apiserver_would_use(key: str, expected: str) -> None:
    folder, bound = bound_folders(key)
    assert key.startswith(folder)
    assert bound + key.removeprefix(folder) == expected

"""Which credentials belong to which image."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.images.keyring import (
    DockerConfigError,
    Keyring,
    PullCredentials,
    SecretSource,
    keyring_of_secrets,
    lookup_all,
    matches,
    parse_docker_config,
)
from bayplan.kubelet.images.node_credentials import NodeCredentials, config_paths
from bayplan.kubelet.runtime.types import Credentials


def config(**users: str) -> bytes:
    """A config.json with users by registry; "__" stands for a dot, "_S_" for a slash."""
    auths = {
        name.replace("__", ".").replace("_S_", "/"): {"auth": base64.b64encode(f"{user}:word".encode()).decode()}
        for name, user in users.items()
    }
    return json.dumps({"auths": auths}).encode()


def secret(data: bytes, name: str = "pull", kind: str = "kubernetes.io/dockerconfigjson") -> core_v1.Secret:
    """An image pull secret."""
    key = ".dockerconfigjson" if kind.endswith("json") else ".dockercfg"
    return core_v1.Secret(
        metadata=meta_v1.ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"),
        type=kind,
        data={key: base64.b64encode(data).decode()},
    )


def users(found: list[PullCredentials]) -> list[str]:
    """Names of the users."""
    return [each.credentials.username for each in found]


@pytest.mark.parametrize(
    ("pattern", "image", "fits"),
    [
        ("gcr.io", "gcr.io/a/b", True),
        ("gcr.io/a", "gcr.io/a/b", True),
        ("gcr.io/a", "gcr.io/ab", True),
        ("gcr.io/b", "gcr.io/a/b", False),
        ("*.gcr.io", "eu.gcr.io/a", True),
        ("*.gcr.io", "gcr.io/a", False),
        ("*.*.io", "eu.gcr.io/a", True),
        ("*.io", "eu.gcr.io/a", False),
        ("pre*.gcr.io", "prefix.gcr.io/a", True),
        ("[^e]u.gcr.io", "eu.gcr.io/a", False),
        ("gcr.io:5000", "gcr.io/a", False),
        ("gcr.io:5000", "gcr.io:5000/a", True),
        ("*.docker.io", "not.right.io", False),
    ],
)
def test_registries_match(pattern: str, image: str, fits: bool) -> None:
    assert matches(pattern, image) is fits


def test_longer_paths_come_first_and_several_places_in_their_order() -> None:
    keyring = Keyring()
    keyring.add(parse_docker_config(config(quay__io="wide", quay__io_S_shop="narrow", gcr__io="other"), has_auths=True))
    assert users(keyring.lookup("quay.io/shop/app")) == ["narrow", "wide"]
    assert users(keyring.lookup("quay.io/else")) == ["wide"]
    assert keyring.lookup("docker.io/library/nginx") == []
    second = Keyring()
    second.add({"quay.io": Credentials("second")})
    assert users(lookup_all([second, keyring], "quay.io/x")) == ["second", "wide"]


@pytest.mark.parametrize(
    "registry",
    ["https://index.docker.io/v1/", "index.docker.io", "https://index.docker.io", "http://index.docker.io/v2/"],
)
def test_docker_hub_goes_by_many_names(registry: str) -> None:
    keyring = Keyring()
    keyring.add({registry: Credentials("hub")})
    assert users(keyring.lookup("docker.io/library/nginx")) == ["hub"]
    assert keyring.lookup("quay.io/nginx") == []
    assert keyring.lookup("") == []


def test_secrets_of_both_kinds_and_no_others() -> None:
    older = json.dumps({"quay.io": {"username": "me", "password": "pass:word"}}).encode()
    opaque = secret(config(quay__io="opaque"), "opaque")
    opaque.type = "Opaque"
    keyring = keyring_of_secrets(
        [secret(config(quay__io="new"), "one"), secret(older, "two", "kubernetes.io/dockercfg"), opaque]
    )
    found = keyring.lookup("quay.io/a")
    assert [(each.credentials.username, each.credentials.password) for each in found] == [
        ("new", "word"),
        ("me", "pass:word"),
    ]
    assert found[0].source == SecretSource("uid-one", "shop", "one")
    assert found[0].hash != found[1].hash
    assert found[0].hash == PullCredentials(Credentials("new", "word")).hash


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"auths": []}',
        b'{"auths": {"a": 1}}',
        b'{"auths": {"a": {"auth": "%%%"}}}',
        b'{"auths": {"a": {"auth": "bm8="}}}',
        b'{"auths": {"a": {"username": 1}}}',
    ],
)
def test_what_is_no_configuration_is_refused_without_telling_it(data: bytes) -> None:
    with pytest.raises(DockerConfigError) as caught:
        parse_docker_config(data, has_auths=True)
    assert "bm8" not in str(caught.value)


def test_base64_may_lack_its_padding() -> None:
    text = base64.b64encode(b"me:pw").decode().rstrip("=")
    found = parse_docker_config(json.dumps({"auths": {"a": {"auth": text}}}).encode(), has_auths=True)
    assert found == {"a": Credentials("me", "pw")}
    assert parse_docker_config(b"{}", has_auths=True) == {}


def test_nodes_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    root, home, work = tmp_path / "kubelet", tmp_path / "home", tmp_path / "work"
    paths = [path for path in config_paths(root, home, work) if path.is_relative_to(tmp_path)]
    node = NodeCredentials(paths)
    assert node.keyring().lookup("quay.io/a") == []
    home.mkdir()
    (home / ".dockercfg").write_text(json.dumps({"quay.io": {"username": "old", "password": "x"}}))
    assert users(node.keyring().lookup("quay.io/a")) == ["old"]
    root.mkdir()
    (root / "config.json").write_text("{")
    assert users(node.keyring().lookup("quay.io/a")) == ["old"]
    (root / "config.json").write_bytes(config(quay__io="newer"))
    assert users(node.keyring().lookup("quay.io/a")) == ["newer"]
    assert node.keyring() is node.keyring()
    (root / "config.json").write_bytes(config(quay__io="changed"))
    assert users(node.keyring().lookup("quay.io/a")) == ["changed"]

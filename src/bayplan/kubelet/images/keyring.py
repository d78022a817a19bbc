"""Which credentials belong to which image: Docker's configuration files, and how registries in them match. Pure.

Source: https://kubernetes.io/docs/concepts/containers/images/#config-json
"""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from bayplan.api.types import core_v1
from bayplan.kubelet.runtime.types import Credentials

DOCKER_CONFIG_JSON, DOCKER_CONFIG = "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"
_DOCKER_HUB = "index.docker.io"


class DockerConfigError(ValueError):
    """Not a Docker configuration; the message holds no secret."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The Secret from which credentials come."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class AccountSource:
    """The ServiceAccount with whose token a plugin got credentials."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class PullCredentials:
    """Credentials and where they come from: a Secret or the ServiceAccount of the pod, or None for the node's own, which all its pods may use."""

    credentials: Credentials
    source: SecretSource | AccountSource | None = None

    @property
    def hash(self) -> str:
        """Tells equal credentials, without telling them: as kubelet computes it."""
        shown = {"username": self.credentials.username, "password": self.credentials.password}
        text = json.dumps({key: value for key, value in shown.items() if value}, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def parse_docker_config(data: bytes, *, has_auths: bool) -> dict[str, Credentials]:
    """Registry -> credentials. has_auths: the newer form (config.json), with the registries below `auths`. Raises DockerConfigError."""
    try:
        config = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DockerConfigError("it is not valid JSON") from error
    if has_auths:
        config = config.get("auths", {}) if isinstance(config, dict) else None
    if not isinstance(config, dict):
        raise DockerConfigError("it is no mapping of registries")
    return {registry: _entry(registry, entry) for registry, entry in config.items()}


def _entry(registry: str, entry: Any) -> Credentials:
    if not isinstance(entry, dict) or not all(
        isinstance(entry.get(name, ""), str) for name in ("username", "password", "auth")
    ):
        raise DockerConfigError(f"{registry}: it has no username, password or auth")
    if not entry.get("auth"):
        return Credentials(entry.get("username", ""), entry.get("password", ""))
    auth = entry["auth"].strip()
    try:
        padding = "" if auth.endswith("=") else "=" * (-len(auth) % 4)
        username, colon, password = base64.b64decode(auth + padding, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise DockerConfigError(f"{registry}: auth is not valid base64") from error
    if not colon:
        raise DockerConfigError("unable to parse auth field, must be formatted as base64(username:password)")
    return Credentials(username, password)


def matches(pattern: str, image: str) -> bool:
    """Whether credentials for `pattern` (host, port and the beginning of a path; the host's labels may have wildcards) are for an image.

    >>> matches("*.docker.io", "blah.docker.io"), matches("*.docker.io", "not.right.io")
    (True, False)
    """
    try:
        wanted, given = urlsplit(f"https://{pattern}"), urlsplit(f"https://{image}")
    except ValueError:
        return False
    (hosts, port), (other_hosts, other_port) = _labels(wanted.netloc), _labels(given.netloc)
    return (
        port == other_port
        and len(hosts) == len(other_hosts)
        and given.path.startswith(wanted.path)
        and all(
            fnmatch.fnmatchcase(other, one.replace("[^", "[!")) for one, other in zip(hosts, other_hosts, strict=True)
        )
    )


def _labels(host: str) -> tuple[list[str], str]:
    name, colon, port = host.rpartition(":")
    return (name.split("."), port) if colon else (host.split("."), "")


def _is_docker_hub(image: str) -> bool:
    """Whether a name without a registry is meant, or Docker Hub by name."""
    first, slash, _ = image.partition("/")
    if not slash or first in ("docker.io", _DOCKER_HUB):
        return bool(first)
    return bool(first) and "." not in first and ":" not in first


@dataclass(slots=True)
class Keyring:
    """Credentials by registry, from one kind of place."""

    entries: dict[str, list[PullCredentials]] = field(default_factory=dict)

    def add(self, config: Mapping[str, Credentials], source: SecretSource | AccountSource | None = None) -> None:
        """Take in a Docker configuration."""
        for registry, credentials in config.items():
            key = _key(registry)
            if key is not None:
                self.entries.setdefault(key, []).append(PullCredentials(credentials, source))

    def lookup(self, repository: str) -> list[PullCredentials]:
        """Credentials for an image, those for the longest paths first."""
        found = [
            each for key in sorted(self.entries, reverse=True) if matches(key, repository) for each in self.entries[key]
        ]
        if not found and _is_docker_hub(repository):
            return list(self.entries.get(_DOCKER_HUB, ()))
        return found


def _key(registry: str) -> str | None:
    """Host and path of a registry, without scheme and API version; None for what is no address."""
    address = registry if registry.startswith(("https://", "http://")) else f"https://{registry}"
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    path = parts.path[3:] if parts.path.startswith(("/v1/", "/v2/")) else parts.path
    return parts.netloc + (path if path not in ("", "/") else "")


def keyring_of_secrets(secrets: Iterable[core_v1.Secret]) -> Keyring:
    """The credentials in a pod's image pull secrets; secrets of other types are passed over. Raises DockerConfigError."""
    keyring = Keyring()
    for secret in secrets:
        name = {DOCKER_CONFIG_JSON: ".dockerconfigjson", DOCKER_CONFIG: ".dockercfg"}.get(secret.type, "")
        data = base64.b64decode(secret.data.get(name, ""))
        if data:
            metadata = secret.metadata
            config = parse_docker_config(data, has_auths=secret.type == DOCKER_CONFIG_JSON)
            keyring.add(config, SecretSource(metadata.uid, metadata.namespace, metadata.name))
    return keyring


def lookup_all(keyrings: Sequence[Keyring], repository: str) -> list[PullCredentials]:
    """Credentials from several places, in their order."""
    return [each for keyring in keyrings for each in keyring.lookup(repository)]

"""The file that says what the store encrypts: read at the start and, if that is wanted, again when it changes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Final

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.encryption.configuration import read_configuration
from bayplan.apiserver.encryption.providers import Providers
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.followed_files import FollowedFiles, ReloadMetrics
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.private_files import write_private

_LOOKED_AT_EVERY: Final = 60.0
"""Seconds, as kube-apiserver looks at its file."""
_KEY_BYTES: Final = 32
_METRICS: Final = "apiserver_encryption_config_controller"


class Encryption:
    """The configuration that is in force."""

    def __init__(self, path: Path, clock: Clock, metrics: Registry, server_id: str) -> None:
        """server_id: names the API server in metrics. Raises ClusterError if the file cannot be used."""
        reloads = ReloadMetrics(metrics, _METRICS, server_id, clock.now)
        self._file = FollowedFiles(
            str(path), path.read_bytes, self._use, clock, every=_LOOKED_AT_EVERY, record=reloads.record
        )
        try:
            data = self._file.begin()
            self._resources = read_configuration(data.decode(), os.urandom)
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            raise ClusterError(f"the encryption configuration {path} cannot be used: {error}") from error
        reloads.in_force(data)

    def of_key(self, key: str) -> Providers | None:
        """The providers of an object by its key in the store."""
        return self._resources.of_key(key)

    async def follow(self) -> None:
        """Read the file again whenever it has changed."""
        await self._file.follow()

    async def reload(self) -> bool:
        """Read the file again; whether that brought another configuration into force."""
        return await self._file.look()

    async def _use(self, data: bytes) -> None:
        """Raises UnicodeDecodeError, ConfigurationError."""
        self._resources = read_configuration(data.decode(), os.urandom)


def own_configuration(directory: Path) -> Path:
    """The configuration of a cluster that encrypts its secrets with a key of its own; made if there is none. Raises OSError."""
    path = directory / "encryption.yaml"
    if not path.exists():
        secret = base64.b64encode(os.urandom(_KEY_BYTES)).decode()
        write_private(path, _OWN.format(secret=secret).encode())
    return path


_OWN: Final = """# Made by bayplan up --encrypt-secrets. Without this file nobody can read the secrets in the store any more: keep a copy elsewhere.
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aesgcm:
      keys:
      - name: key1
        secret: {secret}
  - identity: {{}}
"""

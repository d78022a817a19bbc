"""The file that says what the store encrypts: read at the start and, if that is wanted, again when it changes."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from pathlib import Path
from typing import Final

from bayplan.apiserver.encryption.configuration import ConfigurationError, read_configuration
from bayplan.apiserver.encryption.providers import Providers
from bayplan.apiserver.encryption.resources import Resources
from bayplan.cluster.errors import ClusterError
from bayplan.support.clock import Clock
from bayplan.support.metrics import Registry
from bayplan.support.private_files import write_private

logger = logging.getLogger(__name__)

_LOOKED_AT_EVERY: Final = 60.0
"""Seconds, as kube-apiserver looks at its file."""
_KEY_BYTES: Final = 32
_RELOADS: Final = "apiserver_encryption_config_controller_automatic_reloads_total"
_LAST_RELOAD: Final = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds"


class Encryption:
    """The configuration that is in force."""

    def __init__(self, path: Path, clock: Clock, metrics: Registry) -> None:
        """Raises ClusterError if the file cannot be used."""
        self._path = path
        self._clock = clock
        self._reloads = metrics.counter(_RELOADS, "Times that the encryption configuration was read again", ("status",))
        self._last = metrics.gauge(_LAST_RELOAD, "When it was read last", ("status",))
        try:
            self._hash, self._resources = self._read()
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            raise ClusterError(f"the encryption configuration {path} cannot be used: {error}") from error

    def _read(self) -> tuple[bytes, Resources]:
        text = self._path.read_text()
        return hashlib.sha256(text.encode()).digest(), read_configuration(text, os.urandom)

    def of_key(self, key: str) -> Providers | None:
        """The providers of an object by its key in the store."""
        return self._resources.of_key(key)

    async def follow(self) -> None:
        """Read the file again whenever it has changed. One that cannot be used is reported and changes nothing."""
        while True:
            await self._clock.sleep(_LOOKED_AT_EVERY)
            self.reload()

    def reload(self) -> bool:
        """Read the file again; whether that brought another configuration into force."""
        try:
            found, resources = self._read()
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            logger.error("the encryption configuration %s cannot be used, the former one stays: %s", self._path, error)
            self._count("failure")
            return False
        if found == self._hash:
            return False
        self._hash, self._resources = found, resources
        logger.info("the encryption configuration %s is in force", self._path)
        self._count("success")
        return True

    def _count(self, status: str) -> None:
        self._reloads.labels(status).inc()
        self._last.labels(status).set(self._clock.now())


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

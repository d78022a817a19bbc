"""The file that says what the store encrypts: read at the start and, if that is wanted, again when it changes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from ssl import RAND_bytes
from typing import Final

from bayplan.apiserver.configuration.files import ConfigurationError
from bayplan.apiserver.encryption.configuration import read_configuration
from bayplan.apiserver.encryption.envelopes import Envelopes
from bayplan.apiserver.encryption.metrics import EnvelopeMetrics, TransformationMetrics
from bayplan.apiserver.encryption.providers import Providers
from bayplan.apiserver.encryption.resources import Resources
from bayplan.cluster.api_server.followed_files import FollowedFiles, ReloadMetrics
from bayplan.cluster.errors import ClusterError
from bayplan.support.blocking import in_thread
from bayplan.support.clock import Clock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SystemRandomness
from bayplan.support.system.private_files import write_private

random_bytes: Final = RAND_bytes
"""OpenSSL's generator, which the system seeds: to ask the system itself lets go of the interpreter's lock, and took 12 microseconds for each value."""
_LOOKED_AT_EVERY: Final = 60.0
"""Seconds, as kube-apiserver looks at its file."""
_KEY_BYTES: Final = 32
_WELL_SECONDS: Final = 20.0
_UNWELL_SECONDS: Final = 3.0
"""After how long key management services are asked how they are, if all were well and if not."""
_METRICS: Final = "apiserver_encryption_config_controller"


class Encryption:
    """The configuration that is in force."""

    def __init__(self, path: Path, clock: Clock, metrics: Registry, server_id: str) -> None:
        """server_id: names the API server in metrics. Raises ClusterError if the file cannot be used."""
        self._clock = clock
        self._envelope_metrics = EnvelopeMetrics(metrics, server_id)
        self._metrics = TransformationMetrics(metrics, clock.now)
        self._uuid = SystemRandomness().uuid4
        reloads = ReloadMetrics(metrics, _METRICS, server_id, clock.now)
        self._file = FollowedFiles(
            str(path), path.read_bytes, self._use, clock, every=_LOOKED_AT_EVERY, record=reloads.record
        )
        try:
            data = self._file.begin()
            self._resources = self._read(data)
        except (OSError, UnicodeDecodeError, ConfigurationError) as error:
            raise ClusterError(f"the encryption configuration {path} cannot be used: {error}") from error
        for one in self._resources.envelopes:
            one.probe()  # a service that is not well yet does not stop the start, but writes wait for it
        reloads.in_force(data)

    def of_key(self, key: str) -> Providers | None:
        """The providers of an object by its key in the store."""
        return self._resources.of_key(key)

    def is_ready(self, key: str, value: bytes) -> bool:
        """See `bayplan.store.transforming.Readiness`."""
        providers = self.of_key(key)
        return providers is None or providers.unready(value) is None

    async def make_ready(self, key: str, value: bytes) -> None:
        """See `bayplan.store.transforming.Readiness`."""
        providers = self.of_key(key)
        unready = None if providers is None else providers.unready(value)
        if unready is not None:
            secret, data = unready
            await in_thread(lambda: secret.make_ready(data))

    def _read(self, data: bytes) -> Resources:
        """Raises UnicodeDecodeError, ConfigurationError."""
        return read_configuration(data.decode(), random_bytes, self._open_envelopes, self._metrics)

    def _open_envelopes(self, name: str, endpoint: str, seconds: float) -> Envelopes:
        from bayplan.cluster.api_server.kms_client import KmsClient  # needs gRPC

        service = KmsClient(endpoint, seconds)
        return Envelopes(name, service, random_bytes, self._uuid, self._clock.now, self._envelope_metrics)

    @property
    def asks_services(self) -> bool:
        """Whether values are encrypted with keys of key management services."""
        return bool(self._resources.envelopes)

    def service_error(self) -> str:
        """Which key management services are not well, and why; "" if all are."""
        return self._resources.error()

    async def follow_services(self) -> None:
        """Ask key management services how they are, and change keys as they do."""
        while True:
            await self._clock.sleep(_UNWELL_SECONDS if self._resources.error() else _WELL_SECONDS)
            await in_thread(self._probe)

    def _probe(self) -> None:
        for one in self._resources.envelopes:
            one.probe()

    def close(self) -> None:
        """Ask no service any more."""
        self._resources.close()

    async def follow(self) -> None:
        """Read the file again whenever it has changed."""
        await self._file.follow()

    async def reload(self) -> bool:
        """Read the file again; whether that brought another configuration into force."""
        return await self._file.look()

    async def _use(self, data: bytes) -> None:
        """Raises UnicodeDecodeError, ConfigurationError, and OSError if a key management service is not well, as it may be later."""
        found = self._read(data)
        problems = [problem for one in found.envelopes if (problem := await in_thread(one.probe))]
        if problems:
            found.close()
            raise OSError("; ".join(problems))
        former, self._resources = self._resources, found
        former.close()


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

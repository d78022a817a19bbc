"""The kubelet's certificates: kept in files, asked for when there is none, renewed before they end.

Files are kubelet's: `kubelet-client-<time>.pem` and `kubelet-server-<time>.pem`, each with certificate and key, and links `...-current.pem` to the newest.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayplan.client.errors import ApiError, TransportError
from bayplan.kubelet.node.certificate_requests import (
    CertificateError,
    CertificateTemplate,
    load_certificate,
    load_key,
    new_key,
    satisfies,
    self_signed,
)
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.system.private_files import make_private_directory, write_private

logger = logging.getLogger(__name__)

CLIENT, SERVER = "kubelet-client", "kubelet-server"
_LOOK_SECONDS = 1.0
"""How often it is looked whether the node's addresses are still those of the certificate."""
_FIRST_RETRY, _LONGEST_RETRY = 2.0, 32.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key, as PEM; when it is valid, in seconds since the epoch."""

    certificate: bytes
    key: bytes
    not_before: float
    not_after: float


def parse_pair(certificate: bytes, key: bytes) -> Certificate:
    """A pair that belongs together. Raises CertificateError."""
    loaded = load_certificate(certificate)
    if loaded.public_key() != load_key(key).public_key():
        raise CertificateError("the certificate is not for this key")
    return Certificate(
        certificate, key, loaded.not_valid_before_utc.timestamp(), loaded.not_valid_after_utc.timestamp()
    )


class CertificateStore:
    """The files of one certificate. name: kubelet-client or kubelet-server."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self._name = name

    @property
    def current_path(self) -> Path:
        """The link to the newest file."""
        return self.directory / f"{self._name}-current.pem"

    def current(self) -> Certificate | None:
        """The newest certificate; None if there is none that can be used."""
        try:
            text = self.current_path.read_bytes()
            return parse_pair(text, text)
        except FileNotFoundError:
            return None
        except (OSError, CertificateError) as error:
            logger.warning("%s is passed over: %s", self.current_path, error)
            return None

    def update(self, certificate: bytes, key: bytes, now: float) -> Certificate:
        """Keep a new one. Raises CertificateError, OSError."""
        pair = parse_pair(certificate, key)
        make_private_directory(self.directory)
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d-%H-%M-%S")
        file = self.directory / f"{self._name}-{stamp}.pem"
        write_private(file, certificate.rstrip(b"\n") + b"\n" + key)
        link = self.directory / f"{self._name}-updated.pem"
        link.unlink(missing_ok=True)
        link.symlink_to(file.absolute())
        os.replace(link, self.current_path)
        return pair


Request = Callable[[bytes, CertificateTemplate], Awaitable[bytes]]
"""From a new key (PEM) and what the certificate is to say to the certificate. Raises CertificateError, ApiError, TransportError."""


class CertificateManager:
    """Has a certificate that is valid and says what it is to say, as long as `run` runs.

    template: what it is to say now besides the node's name, None as long as that is not known; without a function it is
    nothing. changed: called with each new certificate.
    """

    def __init__(
        self,
        store: CertificateStore,
        request: Request,
        clock: Clock,
        randomness: Randomness,
        *,
        template: Callable[[], CertificateTemplate | None] | None = None,
        changed: Callable[[Certificate], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._request = request
        self._clock = clock
        self._randomness = randomness
        self._template: Callable[[], CertificateTemplate | None] = template or CertificateTemplate
        self._may_change = template is not None
        self._changed = changed
        found = store.current()
        self.current = found if found is not None and found.not_after > clock.now() else None
        """The certificate to use; None before the first one has come."""

    def renewal_time(self) -> float:
        """When the next one is asked for, in seconds since the epoch: after 70 to 90 percent of a certificate's time, so that nodes do not all come at once."""
        if self.current is None:
            return self._clock.now()
        length = self.current.not_after - self.current.not_before
        return self.current.not_before + length * (0.7 + 0.2 * self._randomness.random())

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._wait_until_due()
            await self._renew()

    async def _wait_until_due(self) -> None:
        due = self.renewal_time()
        while True:
            template = self._template()
            if template is not None and (self._clock.now() >= due or not self._says(template)):
                return
            left = due - self._clock.now()
            await self._clock.sleep(
                min(left, _LOOK_SECONDS) if self._may_change and left > 0 else max(left, _LOOK_SECONDS)
            )

    def _says(self, template: CertificateTemplate) -> bool:
        return self.current is not None and satisfies(self.current.certificate, template)

    async def _renew(self) -> None:
        """Ask until there is a new certificate, after longer and longer times."""
        delay = _FIRST_RETRY
        while True:
            template = self._template()
            if template is None:
                return
            key = new_key()
            asking = asyncio.ensure_future(self._request(key, template))
            try:
                certificate = await self._while_wanted(asking, template)
                if certificate is None:
                    continue
                self.current = self._store.update(certificate, key, self._clock.now())
                self._changed(self.current)
                return
            except (CertificateError, ApiError, TransportError, OSError) as error:
                logger.error("no new certificate in %s: %s", self._store.directory, error)
            finally:
                asking.cancel()
            await self._clock.sleep(self._randomness.jitter(delay, 0.1))
            delay = min(delay * 2, _LONGEST_RETRY)

    async def _while_wanted(self, asking: asyncio.Future[bytes], template: CertificateTemplate) -> bytes | None:
        """What comes of a request; None if by then something else is to be asked for."""
        while not asking.done():
            looking = asyncio.ensure_future(self._clock.sleep(_LOOK_SECONDS))
            try:
                waited: set[asyncio.Future[Any]] = {asking, looking}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            finally:
                looking.cancel()
            if not asking.done() and self._template() != template:
                return None
        return asking.result()


def serving_files(directory: Path, host: str, now: float) -> tuple[Path, Path]:
    """(certificate, key) of a server that nobody signs for: `kubelet.crt` and `kubelet.key`, made if they are not there, cannot be used or have ended. Raises
    OSError."""
    certificate_file, key_file = directory / "kubelet.crt", directory / "kubelet.key"
    try:
        if parse_pair(certificate_file.read_bytes(), key_file.read_bytes()).not_after > now:
            return certificate_file, key_file
    except (OSError, CertificateError) as error:
        logger.info("%s is made anew: %s", certificate_file, error)
    certificate, key = self_signed(host, now)
    make_private_directory(directory)
    write_private(key_file, key)
    write_private(certificate_file, certificate)
    return certificate_file, key_file

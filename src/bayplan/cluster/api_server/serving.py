"""The certificates with which the API is served and other servers are asked, and authorities: read at the start, and again when the files change."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bayplan.apiserver.authentication.client_certificates import (
    Authority,
    AuthorityError,
    ClientCertificates,
    FrontProxies,
)
from bayplan.apiserver.bootstrap.authentication import FrontProxy
from bayplan.apiserver.certificates import KeyPair, sign
from bayplan.apiserver.http.http2_support import protocols_of
from bayplan.apiserver.tls import NamedPair, client_tls, tls_context
from bayplan.cluster.api_server.followed_files import FollowedFiles
from bayplan.cluster.credentials import ADMIN_GROUP, FRONT_PROXY, KUBELET_CLIENT, ClusterCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock


@dataclass(frozen=True, slots=True)
class _Material:
    """What the files say."""

    tls: ssl.SSLContext
    users: Authority
    front_proxies: FrontProxies
    kubelet_tls: ssl.SSLContext
    front_proxy_pair: KeyPair


class Serving:
    """What is in force of the files that say who the server is, and who vouches for its clients."""

    def __init__(self, settings: ClusterSettings, credentials: ClusterCredentials, clock: Clock) -> None:
        """Raises ClusterError for files that cannot be used."""
        self._settings = settings
        self._credentials = credentials
        authority, now = credentials.authority, clock.now()
        self._own_kubelet_pair = sign(authority, now, KUBELET_CLIENT, organizations=(ADMIN_GROUP,))
        self._own_front_proxy_pair = sign(credentials.front_proxy, now, FRONT_PROXY)
        self._followed = FollowedFiles("the certificates", self._hash_of_files, self._use, clock)
        try:
            self._followed.begin()
            self._material = self._read()
        except (OSError, ssl.SSLError, ValueError) as error:
            raise ClusterError(f"the certificates cannot be used: {error}") from error
        self._check_overlap(self._material)
        self.certificates = ClientCertificates(self._material.users, self._material.front_proxies)

    @property
    def tls(self) -> ssl.SSLContext:
        """For new connections."""
        return self._material.tls

    @property
    def kubelet_tls(self) -> ssl.SSLContext:
        """How kubelets are asked for what only they know."""
        return self._material.kubelet_tls

    @property
    def front_proxy_pair(self) -> KeyPair:
        """With what aggregated servers are asked."""
        return self._material.front_proxy_pair

    @property
    def client_authority(self) -> str:
        """Who vouches for users (PEM)."""
        return self._material.users.pem.decode()

    @property
    def front_proxy(self) -> FrontProxy:
        """Who may say who asks."""
        proxies = self._material.front_proxies
        return FrontProxy(proxies.authority.pem.decode(), proxies.names, self._settings.request_headers)

    def _files(self) -> list[Path]:
        settings = self._settings
        given = [settings.tls_certificate, settings.tls_key, settings.client_ca, settings.requestheader_ca]
        given += [settings.kubelet_certificate, settings.kubelet_key, settings.kubelet_ca]
        given += [settings.proxy_client_certificate, settings.proxy_client_key]
        given += [file for one in settings.sni_certificates for file in (one.certificate, one.key)]
        return [file for file in given if file is not None]

    def _hash_of_files(self) -> bytes:
        """Raises OSError."""
        contents = [hashlib.sha256(file.read_bytes()).digest() for file in self._files()]
        return hashlib.sha256(b"".join(contents)).digest()

    def _read(self) -> _Material:
        """Raises OSError, ssl.SSLError, ValueError."""
        settings, credentials = self._settings, self._credentials
        pair = credentials.server
        if settings.tls_certificate is not None and settings.tls_key is not None:
            pair = KeyPair(settings.tls_certificate.read_bytes(), settings.tls_key.read_bytes())
        users = _authority(settings.client_ca, credentials.authority)
        names = settings.requestheader_names if settings.requestheader_ca is not None else (FRONT_PROXY,)
        proxies = FrontProxies(_authority(settings.requestheader_ca, credentials.front_proxy), names)
        named = [
            NamedPair(KeyPair(one.certificate.read_bytes(), one.key.read_bytes()), one.names)
            for one in settings.sni_certificates
        ]
        try:
            tls = tls_context(pair, users.pem + b"\n" + proxies.authority.pem, named, protocols_of(settings.api))
        except ssl.SSLError as error:
            pairs = [(settings.tls_certificate, settings.tls_key)]
            pairs += [(one.certificate, one.key) for one in settings.sni_certificates]
            files = ", ".join(f"{certificate} with {key}" for certificate, key in pairs if certificate is not None)
            raise ValueError(f"{files}: {error}" if files else str(error)) from error
        return _Material(tls, users, proxies, self._kubelet_tls(), self._front_proxy_pair())

    def _kubelet_tls(self) -> ssl.SSLContext:
        """Raises OSError, ValueError."""
        settings = self._settings
        certificate, key = settings.kubelet_certificate, settings.kubelet_key
        pair, files = self._own_kubelet_pair, ""
        if certificate is not None and key is not None:
            pair, files = KeyPair(certificate.read_bytes(), key.read_bytes()), f" ({certificate}, {key})"
        authority = settings.kubelet_ca.read_bytes() if settings.kubelet_ca is not None else b""
        if settings.kubelet_ca is not None and b"-----BEGIN CERTIFICATE-----" not in authority:
            # an empty one would let everybody be a kubelet
            raise ValueError(f"the authority of kubelets' certificates {settings.kubelet_ca} holds no certificate")
        try:
            return client_tls(pair, authority)
        except ssl.SSLError as error:
            raise ValueError(f"those for kubelets{files}: {error}") from error

    def _front_proxy_pair(self) -> KeyPair:
        """Raises OSError, ValueError."""
        certificate, key = self._settings.proxy_client_certificate, self._settings.proxy_client_key
        if certificate is None or key is None:
            return self._own_front_proxy_pair
        pair = KeyPair(certificate.read_bytes(), key.read_bytes())
        try:
            client_tls(pair)
        except ssl.SSLError as error:
            raise ValueError(f"those for aggregated servers ({certificate}, {key}): {error}") from error
        return pair

    def _check_overlap(self, material: _Material) -> None:
        """Raises ClusterError if every client certificate would belong to a front proxy."""
        settings = self._settings
        known = set(material.users.certificates)
        overlaps = any(one in known for one in material.front_proxies.authority.certificates)
        if overlaps and settings.client_ca is not None and not settings.requestheader_names:
            raise ClusterError(
                "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified to "
                "ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
            )

    async def follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Read the files again whenever they have changed. changed: called after that."""
        await self._followed.follow(changed)

    async def reload(self) -> bool:
        """Read the files again; whether that brought others into force."""
        return await self._followed.look()

    async def _use(self, _: bytes) -> None:
        """Bring into force what the files say. Raises OSError, ssl.SSLError, ValueError, ClusterError."""
        material = self._read()
        self._check_overlap(material)
        self._material = material
        self.certificates.replace(material.users, material.front_proxies)


def _authority(file: Path | None, own: KeyPair) -> Authority:
    """Raises OSError, ValueError."""
    try:
        return Authority(file.read_bytes() if file is not None else own.certificate)
    except AuthorityError as error:
        raise ValueError(f"unable to load client CA file {file}: {error}") from error

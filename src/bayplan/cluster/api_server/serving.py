"""The certificates with which the API is served and other servers are asked, and authorities: read at the start, and again when the files change."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from bayplan.cluster.api_server.followed_files import LOOKED_AT_EVERY, FollowedFiles
from bayplan.cluster.credentials import ADMIN_GROUP, FRONT_PROXY, KUBELET_CLIENT, ClusterCredentials
from bayplan.cluster.errors import ClusterError
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.clock import Clock

_Pairs = tuple[KeyPair, list[NamedPair]]
"""Who the server is, and who it is under further names."""


@dataclass(frozen=True, slots=True)
class _Material:
    """What the files say."""

    pairs: _Pairs
    tls: ssl.SSLContext
    users: Authority
    front_proxies: FrontProxies
    kubelet_tls: ssl.SSLContext
    front_proxy_pair: KeyPair


class Serving:
    """What is in force of the files that say who the server is, and who vouches for its clients. Those that cannot be used keep none of the others back."""

    def __init__(self, settings: ClusterSettings, credentials: ClusterCredentials, clock: Clock) -> None:
        """Raises ClusterError for files that cannot be used."""
        self._settings = settings
        self._credentials = credentials
        authority, now = credentials.authority, clock.now()
        self._own_kubelet_pair = sign(authority, now, KUBELET_CLIENT, organizations=(ADMIN_GROUP,))
        self._own_front_proxy_pair = sign(credentials.front_proxy, now, FRONT_PROXY)
        self._clock = clock
        self._followed = [
            FollowedFiles(what, partial(_hash_of, files), partial(self._use, change), clock)
            for what, files, change in self._parts()
        ]
        try:
            for one in self._followed:
                one.begin()
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

    def _parts(self) -> list[tuple[str, list[Path | None], Callable[[_Material], _Material]]]:
        """Files that are used together: what they are, where, and what they change."""
        settings = self._settings
        named = [file for one in settings.sni_certificates for file in (one.certificate, one.key)]
        return [
            ("the serving certificates", [settings.tls_certificate, settings.tls_key, *named], self._with_pairs),
            (
                "the authorities of clients",
                [settings.client_ca, settings.requestheader_ca],
                lambda now: self._with_authorities(now.pairs, now.kubelet_tls, now.front_proxy_pair),
            ),
            (
                "the certificates for kubelets",
                [settings.kubelet_certificate, settings.kubelet_key, settings.kubelet_ca],
                lambda now: replace(now, kubelet_tls=self._kubelet_tls()),
            ),
            (
                "the certificate for aggregated servers",
                [settings.proxy_client_certificate, settings.proxy_client_key],
                lambda now: replace(now, front_proxy_pair=self._front_proxy_pair()),
            ),
        ]

    def _read(self) -> _Material:
        """Raises OSError, ssl.SSLError, ValueError."""
        return self._with_authorities(self._pairs(), self._kubelet_tls(), self._front_proxy_pair())

    def _with_authorities(self, pairs: _Pairs, kubelet_tls: ssl.SSLContext, front_proxy_pair: KeyPair) -> _Material:
        """Raises OSError, ssl.SSLError, ValueError."""
        settings, credentials = self._settings, self._credentials
        users = _authority(settings.client_ca, credentials.authority)
        names = settings.requestheader_names if settings.requestheader_ca is not None else (FRONT_PROXY,)
        proxies = FrontProxies(_authority(settings.requestheader_ca, credentials.front_proxy), names)
        tls = self._tls(pairs, users, proxies)
        return _Material(pairs, tls, users, proxies, kubelet_tls, front_proxy_pair)

    def _with_pairs(self, now: _Material) -> _Material:
        """Raises OSError, ssl.SSLError, ValueError."""
        pairs = self._pairs()
        return replace(now, pairs=pairs, tls=self._tls(pairs, now.users, now.front_proxies))

    def _pairs(self) -> _Pairs:
        """Raises OSError."""
        settings, pair = self._settings, self._credentials.server
        if settings.tls_certificate is not None and settings.tls_key is not None:
            pair = KeyPair(settings.tls_certificate.read_bytes(), settings.tls_key.read_bytes())
        return pair, [
            NamedPair(KeyPair(one.certificate.read_bytes(), one.key.read_bytes()), one.names)
            for one in settings.sni_certificates
        ]

    def _tls(self, pairs: _Pairs, users: Authority, proxies: FrontProxies) -> ssl.SSLContext:
        """Raises ssl.SSLError, ValueError."""
        settings, (pair, named) = self._settings, pairs
        try:
            return tls_context(pair, users.pem + b"\n" + proxies.authority.pem, named, protocols_of(settings.api))
        except ssl.SSLError as error:
            given = [(settings.tls_certificate, settings.tls_key)]
            given += [(one.certificate, one.key) for one in settings.sni_certificates]
            files = ", ".join(f"{certificate} with {key}" for certificate, key in given if certificate is not None)
            raise ValueError(f"{files}: {error}" if files else str(error)) from error

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
        while True:
            await self._clock.sleep(LOOKED_AT_EVERY)
            if await self.reload():
                await changed()

    async def reload(self) -> bool:
        """Read the files again; whether that brought others into force."""
        return any([await one.look() for one in self._followed])

    async def _use(self, change: Callable[[_Material], _Material], _: bytes) -> None:
        """Bring into force what files say. Raises OSError, ssl.SSLError, ValueError, ClusterError."""
        material = change(self._material)
        self._check_overlap(material)
        self._material = material
        self.certificates.replace(material.users, material.front_proxies)


def _hash_of(files: Sequence[Path | None]) -> bytes:
    """Raises OSError."""
    contents = [hashlib.sha256(file.read_bytes()).digest() for file in files if file is not None]
    return hashlib.sha256(b"".join(contents)).digest()


def _authority(file: Path | None, own: KeyPair) -> Authority:
    """Raises OSError, ValueError."""
    try:
        return Authority(file.read_bytes() if file is not None else own.certificate)
    except AuthorityError as error:
        raise ValueError(f"unable to load client CA file {file}: {error}") from error

"""What a cluster keeps besides its objects: certificate authorities, the server's certificate, the administrator's token."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from bayplan.apiserver import certificates
from bayplan.apiserver.certificates import KeyPair
from bayplan.cluster.errors import DataDirectoryError
from bayplan.support.system.private_files import make_private_directory, write_private

_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADMIN_USER, ADMIN_GROUP = "kubernetes-admin", "system:masters"
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
"""As whom the API server asks kubelets."""
FRONT_PROXY = "front-proxy-client"
"""As whom it asks aggregated servers."""


@dataclass(frozen=True, slots=True)
class ClusterCredentials:
    """Keys and tokens of one cluster."""

    authority: KeyPair
    front_proxy: KeyPair
    """Another authority: whom it vouches for may tell aggregated servers who asks."""
    server: KeyPair
    admin_token: str
    directory: Path | None = None
    """Where they are kept; None for nowhere."""

    def token_signing_key(self) -> bytes:
        """The key that signs service account tokens (PEM), made when it is first needed. Raises DataDirectoryError."""
        from bayplan.apiserver.service_account_tokens.keys import make_signing_key, public_pem

        if self.directory is None:
            return make_signing_key()
        try:
            kept = self.directory / "sa.key"
            if not kept.exists():
                make_private_directory(self.directory)
                key = make_signing_key()
                write_private(self.directory / "sa.pub", public_pem(key))
                write_private(kept, key)
            return kept.read_bytes()
        except OSError as error:
            raise DataDirectoryError(f"the key of service account tokens in {self.directory}: {error}") from error


def obtain(directory: Path | None, addresses: tuple[str, ...], now: float) -> ClusterCredentials:
    """The credentials kept in a directory, completed where something is missing or has expired; new ones without a directory.
    Raises DataDirectoryError."""
    hosts = tuple(dict.fromkeys((*addresses, "127.0.0.1", "::1", *_NAMES)))
    try:
        authority = _authority(directory, "ca", now)
        front_proxy = _authority(directory, "front-proxy-ca", now)
        server = certificates.load(directory, "apiserver") if directory else None
        if server is None or not certificates.is_current(server, authority, hosts, now):
            server = certificates.sign(authority, now, "kube-apiserver", hosts=hosts)
            if directory:
                certificates.save(directory, "apiserver", server)
        return ClusterCredentials(authority, front_proxy, server, _token(directory), directory)
    except (OSError, ValueError) as error:
        raise DataDirectoryError(
            f"the credentials in {directory} cannot be used: {error}; repair or remove that directory"
        ) from error


def _authority(directory: Path | None, name: str, now: float) -> KeyPair:
    """An authority of that name, made if it is not there. Raises OSError, ValueError."""
    authority = certificates.load(directory, name) if directory else None
    if authority is None:
        authority = certificates.make_authority(now)
        if directory:
            certificates.save(directory, name, authority)
    return authority


def _token(directory: Path | None) -> str:
    if directory is None:
        return secrets.token_urlsafe(32)
    file = directory / "admin-token"
    if not file.exists():
        make_private_directory(directory)
        write_private(file, secrets.token_urlsafe(32).encode())
    return file.read_text().strip()

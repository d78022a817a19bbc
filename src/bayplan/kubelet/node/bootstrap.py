"""A node's first credentials: with a bootstrap kubeconfig (a token that many share) it asks for a certificate of its own and writes its kubeconfig.

Source: https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from bayplan.client import Client
from bayplan.client.errors import KubeconfigError
from bayplan.kubelet.node.certificate_requests import (
    CLIENT_USAGES,
    KUBELET_CLIENT,
    CertificateError,
    load_certificate,
    load_key,
    new_key,
    request_certificate,
    request_name,
)
from bayplan.kubelet.node.certificates import CLIENT, CertificateStore
from bayplan.support.clock import Clock
from bayplan.support.system.private_files import make_private_directory, write_private

logger = logging.getLogger(__name__)

_UNFINISHED_KEY = "kubelet-client.key.tmp"
"""The key of a request that was not yet answered: a kubelet that starts again waits for the same request."""
_HOUR = 3600.0


async def bootstrap(
    kubeconfig: Path,
    bootstrap_kubeconfig: Path,
    certificates: Path,
    node_name: str,
    clock: Clock,
    connect: Callable[[Path], Client],
    *,
    seconds: float = _HOUR,
) -> bool:
    """See that `kubeconfig` has a certificate that is valid, with the files in the directory `certificates`; returns whether one was asked for.

    connect: a client for a kubeconfig. Waits up to `seconds` for somebody to approve. Raises KubeconfigError, CertificateError, ApiError, TransportError,
    OSError.
    """
    if has_valid_certificate(kubeconfig, clock.now()):
        return False
    cluster = read_cluster(bootstrap_kubeconfig)
    store = CertificateStore(certificates, CLIENT)
    unfinished = certificates / _UNFINISHED_KEY
    key = _unfinished_key(unfinished)
    client = connect(bootstrap_kubeconfig)
    try:
        name = request_name(key, node_name, CLIENT_USAGES)
        logger.info("waiting for certificate signing request %s to be approved", name)
        certificate = await request_certificate(
            client, key, node_name, KUBELET_CLIENT, CLIENT_USAGES, name=name, seconds=seconds
        )
    finally:
        await client.close()
    store.update(certificate, key, clock.now())
    unfinished.unlink(missing_ok=True)
    write_kubeconfig(kubeconfig, cluster, store.current_path)
    return True


def _unfinished_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
        load_key(key)
        return key
    except (FileNotFoundError, CertificateError):
        make_private_directory(path.parent)
        key = new_key()
        write_private(path, key)
        return key


def _tree(path: Path) -> dict[str, Any]:
    """A kubeconfig as a mapping. Raises KubeconfigError."""
    try:
        config = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise KubeconfigError(f"{path}: {error}") from error
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path}: not a kubeconfig: expected a mapping")
    return config


def _current(path: Path, section: str, member: str) -> dict[str, Any]:
    """The cluster or user of the current context. Raises KubeconfigError."""
    config = _tree(path)

    def named(rows: object, name: object, key: str) -> dict[str, Any]:
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and row.get("name") == name and isinstance(row.get(key), dict):
                found: dict[str, Any] = row[key]
                return found
        raise KubeconfigError(f"{path}: there is no {key} named {name!r}")

    context = named(config.get("contexts"), config.get("current-context"), "context")
    return named(config.get(section), context.get(member), member)


def read_cluster(path: Path) -> dict[str, Any]:
    """How a kubeconfig reaches its server: server, certificate authority (a relative path made absolute), whether that is checked. Raises KubeconfigError."""
    cluster = _current(path, "clusters", "cluster")
    kept = (
        "server",
        "certificate-authority",
        "certificate-authority-data",
        "insecure-skip-tls-verify",
        "tls-server-name",
    )
    found = {name: cluster[name] for name in kept if cluster.get(name)}
    if "certificate-authority" in found:
        found["certificate-authority"] = str(path.parent.absolute() / str(found["certificate-authority"]))
    if not found.get("server"):
        raise KubeconfigError(f"{path}: the cluster has no server")
    return found


def has_valid_certificate(path: Path, now: float) -> bool:
    """Whether a kubeconfig is there whose client certificate has not ended. now: seconds since the epoch."""
    if not path.exists():
        return False
    try:
        user = _current(path, "users", "user")
        data = user.get("client-certificate-data")
        pem = base64.b64decode(data) if data else (path.parent / str(user.get("client-certificate"))).read_bytes()
        return load_certificate(pem).not_valid_after_utc.timestamp() > now
    except (KubeconfigError, CertificateError, OSError, binascii.Error, TypeError) as error:
        logger.warning("%s is written anew: %s", path, error)
        return False


def write_kubeconfig(path: Path, cluster: dict[str, Any], certificate: Path) -> None:
    """A kubeconfig for a certificate with its key in one file, as kubelet writes it. Raises OSError."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "users": [
            {
                "name": "default-auth",
                "user": {"client-certificate": str(certificate), "client-key": str(certificate)},
            }
        ],
        "contexts": [
            {
                "name": "default-context",
                "context": {"cluster": "default-cluster", "user": "default-auth", "namespace": "default"},
            }
        ],
        "current-context": "default-context",
    }
    make_private_directory(path.parent)
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())

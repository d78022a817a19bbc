"""The certificate with which a kubelet's server shows itself, and the authority of its clients."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.errors import ConfigurationError
from bayplan.support.private_files import write_private


def server_tls(
    configuration: KubeletConfiguration, directory: Path, name: str, addresses: Sequence[str], now: float
) -> ssl.SSLContext:
    """TLS of the kubelet's server: with the files of the configuration, else with a certificate of its own, made when there is none. Raises ConfigurationError."""
    certificate, key = Path(configuration.tls_cert_file), Path(configuration.tls_private_key_file)
    if not configuration.tls_cert_file:
        certificate, key = directory / "kubelet.crt", directory / "kubelet.key"
        if not certificate.exists():
            authority = make_authority(now)
            pair = sign(authority, now, name, hosts=(name, *addresses, "127.0.0.1"))
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(key, pair.key)
            write_private(certificate, pair.certificate + authority.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
        authorities = configuration.authentication.x509.client_ca_file
        if authorities:
            context.load_verify_locations(authorities)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:
        raise ConfigurationError(f"TLS of the kubelet's server: {certificate}, {key}: {error}") from error
    return context

"""Certificates of a kubelet: with which it shows itself to the API server, and to those who ask it."""

from __future__ import annotations

import functools
import ssl
from collections.abc import Callable
from pathlib import Path

from bayplan.api.types import core_v1
from bayplan.client import Client
from bayplan.kubelet.configuration import KubeletConfiguration
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.node.certificate_requests import (
    CLIENT_USAGES,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SERVING_USAGES,
    CertificateTemplate,
    request_certificate,
    serving_template,
)
from bayplan.kubelet.node.certificates import (
    CLIENT,
    SERVER,
    Certificate,
    CertificateManager,
    CertificateStore,
    serving_files,
)
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.web.trust import ask_for_client_certificates, trust


def client_manager(
    client: Client,
    directory: Path,
    node_name: str,
    clock: Clock,
    randomness: Randomness,
    changed: Callable[[Certificate], None],
) -> CertificateManager:
    """Who renews the certificate with which the kubelet shows itself to the API server."""
    request = functools.partial(_request, client, node_name, KUBELET_CLIENT, CLIENT_USAGES)
    return CertificateManager(CertificateStore(directory, CLIENT), request, clock, randomness, changed=changed)


async def _request(
    client: Client, node_name: str, signer: str, usages: tuple[str, ...], key: bytes, template: CertificateTemplate
) -> bytes:
    return await request_certificate(client, key, node_name, signer, usages, template)


class ServerTls:
    """TLS of the kubelet's server: with files of the configuration, a certificate that the cluster signs, or one of its own."""

    def __init__(self, configuration: KubeletConfiguration, directory: Path, name: str, clock: Clock) -> None:
        """directory: where certificates are kept. Raises ConfigurationError."""
        self._configuration = configuration
        self._directory = directory
        self._name = name
        self._clock = clock
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate, key = Path(configuration.tls_cert_file), Path(configuration.tls_private_key_file)
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not configuration.tls_cert_file:
                certificate, key = serving_files(directory, name, clock.now())
            self.context.load_cert_chain(certificate, key)
            authorities = configuration.authentication.x509.client_ca_file
            if authorities:
                trust(self.context, Path(authorities).read_text(errors="replace"))
                ask_for_client_certificates(self.context)
        except OSError as error:
            raise ConfigurationError(f"TLS of the kubelet's server: {certificate}, {key}: {error}") from error

    def manager(
        self, client: Client, node: Callable[[], core_v1.Node | None], randomness: Randomness
    ) -> CertificateManager | None:
        """Who has the server's certificate signed by the cluster and renewed; None where it is not to be (serverTLSBootstrap)."""
        if not self._configuration.server_tls_bootstrap or self._configuration.tls_cert_file:
            return None
        request = functools.partial(_request, client, self._name, KUBELET_SERVING, SERVING_USAGES)

        def template() -> CertificateTemplate | None:
            shown = node()
            return serving_template(shown.status.addresses) if shown is not None else None

        store = CertificateStore(self._directory, SERVER)
        manager = CertificateManager(
            store, request, self._clock, randomness, template=template, changed=lambda _: self._use(store)
        )
        if manager.current is not None:
            self._use(store)
        return manager

    def _use(self, store: CertificateStore) -> None:
        """Show a certificate to those who connect from now on."""
        self.context.load_cert_chain(store.current_path)

"""By which addresses a node is known, if nobody says so."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from bayplan.kubelet.errors import ConfigurationError


def local_addresses(server: str) -> tuple[str, ...]:
    """This machine's address on the way to the API server at a URL; nothing is sent. Raises ConfigurationError."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # of UDP: only the route is looked up
            found: str = probe.getsockname()[0]
    except OSError as error:
        raise ConfigurationError(
            f"cannot find the node's address on the way to {server} ({error}); give it with --node-ip"
        ) from error
    return (found,)

"""By which addresses a node is known, if nobody says so."""

from __future__ import annotations

from urllib.parse import urlsplit

from bayplan.kubelet.errors import ConfigurationError
from bayplan.support.system.machine import address_towards


def local_addresses(server: str) -> tuple[str, ...]:
    """This machine's address on the way to the API server at a URL; nothing is sent. Raises ConfigurationError."""
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        return (address_towards(parts.hostname or "", port),)
    except OSError as error:
        raise ConfigurationError(
            f"cannot find the node's address on the way to {server} ({error}); give it with --node-ip"
        ) from error

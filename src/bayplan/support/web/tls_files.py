"""The files of a TLS client."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files of a TLS client, read when a connection is made. Empty paths: the system's authorities, no certificate."""

    authority: str = ""
    certificate: str = ""
    key: str = ""

    def read(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Authority, key and certificate, in gRPC's order. Raises OSError."""
        authority, key, certificate = (
            Path(path).read_bytes() if path else None for path in (self.authority, self.key, self.certificate)
        )
        return authority, key, certificate

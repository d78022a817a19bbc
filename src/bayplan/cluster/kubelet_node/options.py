"""What flags say of a node on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayplan.kubelet.images.credential_plugins import CredentialPlugins


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions:
    """What flags say of a node besides its configuration. `addresses` are those that the API shows, the first family first."""

    name: str
    hostname: str
    addresses: tuple[str, ...]
    root: Path = Path("/var/lib/kubelet")
    labels: Mapping[str, str] = field(default_factory=dict)
    credential_plugins: CredentialPlugins | None = None
    container_log_links: Path = Path("/var/log/containers")

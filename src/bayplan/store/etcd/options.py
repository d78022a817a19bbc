"""What the URL of an etcd store does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayplan.support.web.tls_files import TlsFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdOptions:
    """Flags of the API server that are about etcd."""

    prefix: str = "/registry"
    """Prefix of all keys in etcd."""
    root: str = ""
    """How all keys of the store begin, which the prefix replaces; "" to put the prefix before them."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Folders of keys that have other names in etcd (see `layout`)."""
    tls: TlsFiles | None = None
    """Files for TLS; with None, https servers are trusted by the system's authorities."""
    user: str = ""
    password: str = field(default="", repr=False)
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Resources that are kept on servers of their own, as `group/resource` and servers with commas, such as ("/events", "http://10.0.0.1:2379")."""
    compaction_interval: float = 300.0
    """Seconds between two compactions; 0 for none by this server."""

"""The API services that lead to other servers, by group and version, and what is known of these servers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bayplan.api.kinds import KindTable
from bayplan.api.types import apiregistration_v1
from bayplan.apiserver.objects import ObjectStore

ApiService = apiregistration_v1.APIService
GroupVersion = tuple[str, str]
_LOCAL: Final = ("", "apiregistration.k8s.io")
"""Groups that nobody else answers."""


class ResourceRow(msgspec.Struct, frozen=True, rename="camel"):
    """A resource in an APIResourceList."""

    name: str
    """Plural, with a slash and the subresource if it is one."""
    singular_name: str = ""
    namespaced: bool = False
    group: str = ""
    version: str = ""
    kind: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class RemoteApi:
    """What is known of one group version of another server."""

    rows: tuple[ResourceRow, ...] = ()
    """Its resources, as an APIResourceList has them."""
    is_current: bool = False
    """Whether the last look succeeded."""
    openapi_v2: bytes = field(default=b"", repr=False)
    """The server's whole document; empty if it has none."""
    openapi_v3: str = ""
    """The query that names its document of version 3, such as `hash=...`, as the server says; "" if it has none."""
    read_at: float = 0.0
    """When these documents were read (Unix time)."""


class AggregatedApis:
    """Who answers which group version, if not this server. Read anew when an APIService changes.

    Those that are skipped, because their pods are simulated, are in no document of discovery and OpenAPI; what this server has itself of their group version
    is served instead.
    """

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        kind = kinds.of_kind("apiregistration.k8s.io/v1", "APIService")
        assert kind is not None
        self._objects, self._kind, self._kinds = objects, kind, kinds
        self._revision = -1
        self._found: dict[GroupVersion, ApiService] = {}
        """All of them."""
        self._skipped: dict[GroupVersion, str] = {}
        """Why some are not asked."""
        self._services: dict[GroupVersion, ApiService] = {}
        """All but those."""
        self._remotes: dict[GroupVersion, RemoteApi] = {}
        self.changes = 0
        """Grows whenever something else is known of what others answer."""

    def services(self) -> Mapping[GroupVersion, ApiService]:
        """The API services that lead to other servers, and are not skipped."""
        cache = self._objects.cache(self._kind)
        if cache.revision != self._revision:
            self._revision = cache.revision
            found = {}
            for entry in cache.all():
                one = cache.shared(entry)
                if one.spec.service is not None and one.spec.group not in _LOCAL:
                    found[one.spec.group, one.spec.version] = one
            if found != self._found:
                self._found = found
                self._skipped = {key: reason for key, reason in self._skipped.items() if key in found}
                self._remotes = {key: remote for key, remote in self._remotes.items() if key in found}
                self._changed()
        return self._services

    def _changed(self) -> None:
        self._services = {key: one for key, one in self._found.items() if key not in self._skipped}
        self.changes += 1

    def skip(self, key: GroupVersion, reason: str) -> None:
        """Do not ask who answers a group version, for a reason; "" to ask again."""
        if reason == self._skipped.get(key, ""):
            return
        if reason:
            self._skipped[key] = reason
        else:
            del self._skipped[key]
        self._changed()

    def skip_reason(self, service: ApiService) -> str:
        """Why nobody is asked; "" if somebody is."""
        return self._skipped.get((service.spec.group, service.spec.version), "")

    def is_served_here(self, key: GroupVersion) -> bool:
        """Whether this server has something of a group version itself."""
        group, version = key
        return version in self._kinds.groups().get(group, ())

    def find(self, path: str) -> ApiService | None:
        """Who answers a path: `/apis/GROUP/VERSION` and what is below it; None if this server does."""
        self.services()
        if not self._found or not path.startswith("/apis/"):
            return None
        parts = path.split("/", 4)
        if len(parts) < 4:
            return None
        key = parts[2], parts[3]
        found = self._found.get(key)
        return None if found is not None and key in self._skipped and self.is_served_here(key) else found

    def remote(self, key: GroupVersion) -> RemoteApi:
        """What is known of a group version that another server answers."""
        return self._remotes.get(key, RemoteApi())

    def note(self, key: GroupVersion, remote: RemoteApi) -> None:
        """Keep what was read from its server."""
        if key in self.services() and remote != self._remotes.get(key):
            self._remotes[key] = remote
            self.changes += 1


def is_available(service: ApiService) -> bool:
    """Whether its condition says so."""
    return any(one.type == "Available" and one.status == "True" for one in service.status.conditions)


def authority_of(service: ApiService) -> bytes:
    """Who may vouch for the server (PEM); empty for the authorities of the system. Raises ValueError."""
    try:
        return base64.b64decode(service.spec.ca_bundle or "", validate=True)
    except binascii.Error as error:
        raise ValueError(f"spec.caBundle: {error}") from error

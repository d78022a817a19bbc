"""Which resources are encrypted: by their own name, by group (`*.apps`, `*.` for the core) or all (`*.*`); the narrowest rule counts."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bayplan.api.kinds import DEFAULT_KINDS, resource_of_key
from bayplan.apiserver.encryption.envelopes import Envelopes
from bayplan.apiserver.encryption.metrics import TransformationMetrics
from bayplan.apiserver.encryption.providers import Provider, Providers
from bayplan.apiserver.etcd_layout import etcd_folders


@functools.cache
def _folders() -> dict[str, str]:
    return etcd_folders(DEFAULT_KINDS)


def etcd_key(key: str) -> str:
    """Where kube-apiserver keeps the object of a key: encrypted values are bound to that, so that they can change from one server to the other."""
    parts = key.split("/", 4)
    prefix = "/".join(parts[:4]) + "/"
    folder = _folders().get(prefix)
    return key if folder is None else f"/registry/{folder}{parts[4]}"


class Resource(NamedTuple):
    """A resource of a group, each perhaps `*`."""

    group: str
    resource: str


def parse_resource(name: str) -> Resource:
    """`secrets`, `deployments.apps`, `*.apps`, `*.`, `*.*`."""
    resource, _, group = name.partition(".")
    return Resource(group, resource)


class Resources:
    """The providers of each resource; what no rule names is kept as it is."""

    def __init__(
        self,
        rules: Mapping[Resource, Sequence[Provider]],
        envelopes: Sequence[Envelopes] = (),
        metrics: TransformationMetrics | None = None,
    ) -> None:
        """envelopes: the providers among them that ask a key management service."""
        self.envelopes = envelopes
        self._rules = {
            resource: Providers(providers, etcd_key, metrics, f"{resource.resource}.{resource.group}".rstrip("."))
            for resource, providers in rules.items()
        }
        self._known: dict[Resource, Providers | None] = {}

    def error(self) -> str:
        """Which key management services are not well, and why; "" if all are."""
        return "; ".join(one.error for one in self.envelopes if one.error)

    def close(self) -> None:
        """Ask no key management service any more."""
        for one in self.envelopes:
            one.close()

    def of_key(self, key: str) -> Providers | None:
        """The providers of an object by its key in the store; None if it is not to be encrypted."""
        resource = Resource(*resource_of_key(key))
        try:
            return self._known[resource]
        except KeyError:
            rules = self._rules
            found = rules.get(resource) or rules.get(Resource(resource.group, "*")) or rules.get(Resource("*", "*"))
            self._known[resource] = found
            return found

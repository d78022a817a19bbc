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


def bound_folders(key: str) -> tuple[str, str]:
    """What the key of an object begins with, and the folder in which kube-apiserver keeps such objects: encrypted values are bound to their keys there, so that they
    can change from one server to the other."""
    end = _end_of_resource(key) + 1
    folder = _folders().get(key[:end])
    return ("", "") if folder is None else (key[:end], f"/registry/{folder}")


def _end_of_resource(key: str) -> int:
    """Where the slash is behind the resource of a key (`/registry/GROUP/RESOURCE/...`); -1 without one. Cheaper than to split the key."""
    find = key.find
    return find("/", find("/", find("/", 1) + 1) + 1)


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
        self._rules = rules
        self._metrics = metrics
        self._known: dict[str, Providers | None] = {}
        """By what keys of a resource begin with."""

    def error(self) -> str:
        """Which key management services are not well, and why; "" if all are."""
        return "; ".join(one.error for one in self.envelopes if one.error)

    def close(self) -> None:
        """Ask no key management service any more."""
        for one in self.envelopes:
            one.close()

    def of_key(self, key: str) -> Providers | None:
        """The providers of an object by its key in the store; None if it is not to be encrypted."""
        place = key[: _end_of_resource(key)]
        try:
            return self._known[place]
        except KeyError:
            resource = Resource(*resource_of_key(key))
            self._known[place] = found = self._providers(
                key, resource, Resource(resource.group, "*"), Resource("*", "*")
            )
            return found

    def _providers(self, key: str, *resources: Resource) -> Providers | None:
        """Those of the first of these that a rule names."""
        for one in resources:
            providers = self._rules.get(one)
            if providers is not None:
                name = f"{one.resource}.{one.group}".rstrip(".")
                return Providers(providers, bound_folders(key), self._metrics, name)
        return None

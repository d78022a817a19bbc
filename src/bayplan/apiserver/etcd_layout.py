"""Where kube-apiserver keeps the objects of each kind in etcd, as names of folders for the etcd store.

Built-in resources stand under their plural alone (`/registry/pods/`), a few under other names, definitions and API services with their group before it, as custom
resources do (`/registry/example.com/cars/`). Source: `SpecialDefaultResourcePrefixes` of kube-apiserver's storage factory.
"""

from __future__ import annotations

from collections.abc import Iterable

from bayplan.api.kinds import Kind

_SPECIAL = {
    "/registry/core/replicationcontrollers/": "controllers/",
    "/registry/core/endpoints/": "services/endpoints/",
    "/registry/core/nodes/": "minions/",
    "/registry/core/services/": "services/specs/",
    "/registry/networking.k8s.io/ingresses/": "ingress/",
}
WITH_GROUP = frozenset(("apiextensions.k8s.io", "apiregistration.k8s.io"))
"""Built-in groups that kube-apiserver keeps as it keeps custom resources: the group stands in the key, and values are always JSON."""


def etcd_folders(kinds: Iterable[Kind]) -> dict[str, str]:
    """The prefix of each kind in the store -> its folder in etcd, of those where these differ."""
    found: dict[str, str] = {}
    for kind in kinds:
        if kind.is_stored and not kind.is_custom and kind.group not in WITH_GROUP:
            prefix = kind.storage_prefix
            found[prefix] = _SPECIAL.get(prefix, f"{kind.plural}/")
    return found

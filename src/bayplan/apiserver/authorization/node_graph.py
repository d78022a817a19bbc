"""What belongs to which node: pods on it, and what these pods refer to.

Kubernetes keeps a graph of objects with edges that lead to nodes. Here only the pods of each node are kept in an index; the rest of a path is followed
through the caches when a node asks, which is seldom compared with how often pods change.
"""

from __future__ import annotations

from bayplan.api.kinds import Kind, KindTable
from bayplan.api.pods.references import (
    CLAIMS,
    SECRETS,
    Reference,
    claim_names,
    references_of,
    volume_secrets,
)
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.reads.cache import ResourceCache
from bayplan.apiserver.reads.watching import Entry, Event, Watcher

_NODE_FIELD = "spec.nodeName"


class PodsOfNodes(Watcher):
    """The pods of each node, kept current by the events of the pods' cache."""

    __slots__ = ("nodes",)

    def __init__(self, cache: ResourceCache) -> None:
        super().__init__(cache.kind, None, 0)
        self.nodes: dict[str, dict[tuple[str, str], frozenset[Reference] | None]] = {}
        """Node -> namespace and name of its pods -> what the pod refers to (None until somebody asks)."""
        for entry in cache.all():
            self._add(entry)
        cache.watch(self)

    def offer(self, event: Event) -> None:
        """Follow one change of a pod."""
        if event.entry is not None:
            self._add(event.entry)
        elif event.previous is not None:
            node = event.previous.fields.get(_NODE_FIELD, "")
            self.nodes.get(node, {}).pop((event.previous.namespace, event.previous.name), None)

    def _add(self, entry: Entry) -> None:
        node = entry.fields.get(_NODE_FIELD, "")
        if node:
            self.nodes.setdefault(node, {})[entry.namespace, entry.name] = None


class NodeGraph:
    """Answers whether a path leads from an object to a node."""

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        self._objects = objects
        self._kinds = kinds
        self._pods: PodsOfNodes | None = None

    def _cache(self, api_version: str, kind_name: str) -> ResourceCache:
        kind = self._kinds.of_kind(api_version, kind_name)
        assert isinstance(kind, Kind)
        return self._objects.cache(kind)

    def _pods_of(self, node: str) -> dict[tuple[str, str], frozenset[Reference] | None]:
        if self._pods is None or self._pods.closed:
            self._pods = PodsOfNodes(self._cache("v1", "Pod"))
        return self._pods.nodes.get(node, {})

    def has_pod(self, node: str, namespace: str, name: str) -> bool:
        """Whether the pod is on the node."""
        return (namespace, name) in self._pods_of(node)

    def refers_to(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Whether a pod on the node needs this object of its namespace; a secret may also be needed to mount a pod's volume."""
        pods = self._pods_of(node)
        cache = self._cache("v1", "Pod")
        for (home, pod_name), known in pods.items():
            if home != namespace:
                continue
            entry = cache.get(home, pod_name)
            if known is None and entry is not None:
                known = pods[home, pod_name] = references_of(cache.shared(entry))
            if known is not None and (resource, name) in known:
                return True
        return resource == SECRETS and self._mounts_with(node, namespace, name)

    def _mounts_with(self, node: str, namespace: str, name: str) -> bool:
        pods, claims, volumes = (
            self._cache("v1", kind) for kind in ("Pod", "PersistentVolumeClaim", "PersistentVolume")
        )
        for home, pod_name in self._pods_of(node):
            entry = pods.get(home, pod_name)
            for claim_name in claim_names(pods.shared(entry)) if entry is not None else ():
                claim = claims.get(home, claim_name)
                volume = volumes.get("", claims.shared(claim).spec.volume_name) if claim is not None else None
                found = volumes.shared(volume) if volume is not None else None
                if found is None or found.spec.claim_ref is None:
                    continue
                bound = found.spec.claim_ref
                if (bound.namespace, bound.name) == (home, claim_name) and (namespace, name) in volume_secrets(found):
                    return True
        return False

    def mounts(self, node: str, volume_name: str) -> bool:
        """Whether a pod on the node uses the claim that a volume is bound to."""
        cache = self._cache("v1", "PersistentVolume")
        entry = cache.get("", volume_name)
        claim = cache.shared(entry).spec.claim_ref if entry is not None else None
        return claim is not None and self.refers_to(node, CLAIMS, claim.namespace, claim.name)

    def has_attachment(self, node: str, name: str) -> bool:
        """Whether a volume attachment is one to the node."""
        return self._names_node("storage.k8s.io/v1", "VolumeAttachment", name, node)

    def has_slice(self, node: str, name: str) -> bool:
        """Whether a resource slice is one of the node."""
        return self._names_node("resource.k8s.io/v1", "ResourceSlice", name, node)

    def _names_node(self, api_version: str, kind_name: str, name: str, node: str) -> bool:
        cache = self._cache(api_version, kind_name)
        entry = cache.get("", name)
        return entry is not None and cache.shared(entry).spec.node_name == node

"""The sets of a table whose elements follow from pods: peers by selectors, named ports. Pure.

Each address belongs to one pod, the newest one that has it: while a pod's end is not known yet, another one may have got its address. A set is kept from the
first chain on that names it to the last; a changed pod is held against the selectors of those sets only that look at its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from bayplan.network.policy.addresses import Family, family_of
from bayplan.network.policy.chains import NamedPorts, PeerPods, set_header
from bayplan.network.policy.objects import PodEntry, PodSelection
from bayplan.network.policy.table import Table

Namespaces = Mapping[str, Mapping[str, str]]
"""Labels by namespace."""


def selects(selection: PodSelection, pod: PodEntry, namespaces: Namespaces) -> bool:
    """Whether a peer of a rule chooses a pod. A namespace that is not known is not chosen."""
    if selection.namespaces is None:
        return pod.namespace == selection.namespace and selection.pods.matches(pod.labels)
    labels = namespaces.get(pod.namespace)
    return labels is not None and selection.namespaces.matches(labels) and selection.pods.matches(pod.labels)


class PodSets:
    """Who has which address of a family, and the sets that follow from it."""

    def __init__(self, table: Table, family: Family, namespaces: Namespaces) -> None:
        self._table = table
        self._family = family
        self._namespaces = namespaces
        self._claims: dict[str, dict[tuple[str, str], PodEntry]] = {}
        """Address -> namespace and name -> pod: all that say that it is theirs."""
        self.owners: dict[str, PodEntry] = {}
        self._by_namespace: dict[str, dict[str, PodEntry]] = {}
        """Namespace -> address -> owner."""
        self._peers: dict[PeerPods, str] = {}
        """Set -> its name."""
        self._narrow: dict[str, dict[PeerPods, None]] = {}
        """Namespace -> the sets that look at its pods because of their policy's namespace."""
        self._wide: dict[PeerPods, None] = {}
        """The sets that look at namespaces by selectors."""
        self._named: dict[NamedPorts, str] = {}

    def replace_pod(self, old: PodEntry | None, new: PodEntry | None) -> list[str]:
        """A pod comes, changes or goes. Returns the addresses whose owner is another one now, or has changed."""
        before, after = self._addresses(old), self._addresses(new)
        pod = new or old
        if pod is None:
            return []
        key = pod.namespace, pod.name
        for address in before:
            if address not in after:
                del self._claims[address][key]
        if new is not None:
            for address in after:
                self._claims.setdefault(address, {})[key] = new
        return [address for address in dict.fromkeys((*before, *after)) if self._settle(address)]

    def add_peers(self, key: PeerPods) -> None:
        """Keep a set of peers from now on."""
        name = self._peers[key] = key.name
        for selection in key.selections:
            if selection.namespaces is None:
                self._narrow.setdefault(selection.namespace, {})[key] = None
            else:
                self._wide[key] = None
        elements = (one for selection in key.selections for one in self._chosen(selection))
        self._table.add_set(name, set_header(key, self._family), elements)

    def add_named(self, key: NamedPorts) -> None:
        """Keep a set of named ports from now on."""
        name = self._named[key] = key.name
        elements = (
            one for address, pod in self.owners.items() if pod.ports for one in named_elements(key, address, pod)
        )
        self._table.add_set(name, set_header(key, self._family), elements)

    def drop_peers(self, key: PeerPods) -> None:
        """No chain names the set any more."""
        self._table.drop_set(self._peers.pop(key))
        for selection in key.selections:
            self._narrow.get(selection.namespace, {}).pop(key, None)
        self._wide.pop(key, None)

    def drop_named(self, key: NamedPorts) -> None:
        """No chain names the set any more."""
        self._table.drop_set(self._named.pop(key))

    def change_namespace(self, namespace: str) -> None:
        """The labels of a namespace have changed, or it has come or gone."""
        for address, pod in self._by_namespace.get(namespace, {}).items():
            for key in self._wide:
                self._set_member(key, address, pod)

    def unmatched_ports(self) -> list[NamedPorts]:
        """Sets of named ports that are empty: nobody has such a port."""
        return [key for key, name in self._named.items() if not self._table.sets[name].elements]

    def _addresses(self, pod: PodEntry | None) -> list[str]:
        return [one for one in pod.addresses if family_of(one) is self._family] if pod is not None else []

    def _settle(self, address: str) -> bool:
        """Find out who has an address, and bring that into the sets. Returns whether it has changed."""
        claims = self._claims[address]
        if not claims:
            del self._claims[address]
        old = self.owners.get(address)
        new = next(iter(claims.values()), None)
        if len(claims) > 1:
            new = max(claims.values(), key=lambda pod: (pod.created, pod.namespace, pod.name))
        if old is new:
            return False
        if old is not None:
            del self.owners[address]
            del self._by_namespace[old.namespace][address]
        if new is not None:
            self.owners[address] = new
            self._by_namespace.setdefault(new.namespace, {})[address] = new
        self._update_peers(address, old, new)
        self._update_named(address, old, new)
        return True

    def _update_peers(self, address: str, old: PodEntry | None, new: PodEntry | None) -> None:
        if old is not None and new is not None and old.labels == new.labels and old.namespace == new.namespace:
            return
        keys = dict(self._wide)
        for pod in (old, new):
            if pod is not None:
                keys.update(self._narrow.get(pod.namespace, {}))
        for key in keys:
            self._set_member(key, address, new)

    def _update_named(self, address: str, old: PodEntry | None, new: PodEntry | None) -> None:
        for key, name in self._named.items():
            before = set(named_elements(key, address, old)) if old is not None else set()
            after = set(named_elements(key, address, new)) if new is not None else set()
            for element in before - after:
                self._table.discard(name, element)
            for element in after - before:
                self._table.put(name, element)

    def _set_member(self, key: PeerPods, address: str, pod: PodEntry | None) -> None:
        if pod is not None and any(selects(one, pod, self._namespaces) for one in key.selections):
            self._table.put(self._peers[key], address)
        else:
            self._table.discard(self._peers[key], address)

    def _chosen(self, selection: PodSelection) -> Iterator[str]:
        namespaces: Iterable[str] = (selection.namespace,)
        if selection.namespaces is not None:
            matches = selection.namespaces.matches
            namespaces = [name for name, labels in self._namespaces.items() if matches(labels)]
        matches = selection.pods.matches
        for namespace in namespaces:
            for address, pod in self._by_namespace.get(namespace, {}).items():
                if matches(pod.labels):
                    yield address


def named_elements(key: NamedPorts, address: str, pod: PodEntry) -> Iterator[str]:
    """The elements that a pod has in a set of named ports."""
    if pod.is_local or not key.local_only:
        for port in pod.ports:
            if port.protocol == key.protocol and port.name == key.port_name:
                yield f"{address} . {port.number}"

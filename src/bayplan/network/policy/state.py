"""All pods, namespaces and policies, and the tables that follow from them. Pure: changes go in, tables come out.

state.put_policy(...); state.put_pod(...); state.update()
for table in state.tables: partial(table.family, table.take_changes())
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayplan.network.policy.addresses import Family
from bayplan.network.policy.chains import Direction
from bayplan.network.policy.family_state import FamilyState, Policies
from bayplan.network.policy.objects import PodEntry, PolicyEntry
from bayplan.network.policy.table import Table


class PolicyState:
    """What is known of the cluster. Methods that take a change return whether the kernel has to learn of it now: without policies no rule looks at pods, so
    that those which come and go are in the transaction that brings the first policy, or in the next of any other cause."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._families = tuple(FamilyState(family, self._namespaces) for family in families)
        self._pods: dict[str, PodEntry] = {}
        self._local: dict[str, dict[str, PodEntry]] = {}
        """Namespace -> key -> pod of this node."""
        self._starting: dict[str, PodEntry] = {}
        """Key -> pod of this node whose address is not known yet."""
        self._policies: dict[str, dict[str, PolicyEntry]] = {}
        """Namespace -> key -> policy."""
        self._changed_policies: dict[str, list[PolicyEntry]] = {}
        """Namespace -> what has come and gone since the last `update`."""
        self._selected: dict[tuple[str, frozenset[tuple[str, str]]], Policies] = {}
        """Namespace and labels -> the policies of pods that have them, in the order of keys. Kept during `update` only."""
        self._pod_networks: tuple[str, ...] = ()
        self._hold_changed = False

    @property
    def tables(self) -> list[Table]:
        """One for each family. They are up to date after `update`."""
        return [family.table for family in self._families]

    @property
    def isolated(self) -> int:
        """Addresses of this node that policies isolate."""
        return sum(family.isolated for family in self._families)

    @property
    def policies(self) -> int:
        """How many policies there are."""
        return sum(map(len, self._policies.values()))

    def local_addresses(self) -> list[str]:
        """Known addresses of this node's pods."""
        return [address for pods in self._local.values() for pod in pods.values() for address in pod.addresses]

    def problems(self) -> list[str]:
        """What of the policies cannot be enforced, one sentence each."""
        found = [
            f"NetworkPolicy {policy.key}: {problem}; that part of it allows nothing"
            for policies in self._policies.values()
            for policy in policies.values()
            for problem in policy.problems
        ]
        found += [problem for family in self._families for problem in family.problems()]
        return list(dict.fromkeys(found))

    def put_pod(self, pod: PodEntry) -> bool:
        """A pod is there, or has changed."""
        return self._replace_pod(f"{pod.namespace}/{pod.name}", pod)

    def remove_pod(self, namespace: str, name: str) -> bool:
        """A pod is gone, or does not concern policies any more."""
        return self._replace_pod(f"{namespace}/{name}", None)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> bool:
        """A namespace is there, or has changed."""
        if self._namespaces.get(name) == labels:
            return False
        self._namespaces[name] = labels
        for family in self._families:
            family.pods.change_namespace(name)
        return True

    def remove_namespace(self, name: str) -> bool:
        """A namespace is gone."""
        if self._namespaces.pop(name, None) is None:
            return False
        for family in self._families:
            family.pods.change_namespace(name)
        return True

    def put_policy(self, policy: PolicyEntry) -> bool:
        """A policy is there, or has changed."""
        return self._replace_policy(policy.namespace, policy.key, policy)

    def remove_policy(self, namespace: str, name: str) -> bool:
        """A policy is gone."""
        return self._replace_policy(namespace, f"{namespace}/{name}", None)

    def set_pod_networks(self, networks: tuple[str, ...]) -> bool:
        """The CIDRs from which this node's pods get addresses; none if nobody knows."""
        if networks == self._pod_networks:
            return False
        self._pod_networks = networks
        self._hold_changed = True
        return True

    def update(self) -> None:
        """Bring all changes into the tables."""
        self._select_anew()
        for family in self._families:
            touched, family.touched = family.touched, set()
            for address in touched:
                owner = family.pods.owners.get(address)
                is_local = owner is not None and owner.is_local
                family.assign(address, self._selecting(owner) if owner is not None and is_local else None)
            family.collect()
        if self._hold_changed:
            self._hold_changed = False
            selecting = [self._selecting(pod) for pod in self._starting.values()]
            for family in self._families:
                directions = set[Direction]().union(*map(family.isolates, selecting))
                family.hold_starting(self._pod_networks, directions)
        self._selected.clear()

    def _replace_pod(self, key: str, new: PodEntry | None) -> bool:
        old = self._pods.get(key)
        if old == new:
            return False
        for pod in (old, new):
            if pod is not None and pod.is_local:
                self._local.setdefault(pod.namespace, {}).pop(key, None)
                self._starting.pop(key, None)
                self._hold_changed |= not pod.addresses
        if new is None:
            del self._pods[key]
        else:
            self._pods[key] = new
            if new.is_local:
                self._local[new.namespace][key] = new
                if not new.addresses:
                    self._starting[key] = new
        for family in self._families:
            family.replace_pod(old, new)
        return any(self._policies.values())

    def _replace_policy(self, namespace: str, key: str, new: PolicyEntry | None) -> bool:
        policies = self._policies.setdefault(namespace, {})
        old = policies.get(key)
        if old == new:
            return False
        if new is None:
            del policies[key]
        else:
            policies[key] = new
        for family in self._families:
            family.forget_policy(key)
        self._changed_policies.setdefault(namespace, []).extend(one for one in (old, new) if one is not None)
        return True

    def _select_anew(self) -> None:
        """Note the pods of this node that changed policies select, or did."""
        changed, self._changed_policies = self._changed_policies, {}
        for namespace, policies in changed.items():
            for pod in self._local.get(namespace, {}).values():
                if any(one.pods.matches(pod.labels) for one in policies):
                    self._hold_changed |= not pod.addresses
                    for family in self._families:
                        family.touch(pod)

    def _selecting(self, pod: PodEntry) -> Policies:
        """The policies that isolate a pod."""
        key = pod.namespace, frozenset(pod.labels.items())
        found = self._selected.get(key)
        if found is None:
            policies = self._policies.get(pod.namespace, {}).values()
            selecting = sorted((one for one in policies if one.pods.matches(pod.labels)), key=lambda one: one.key)
            by_direction = {one: [each for each in selecting if one.rules(each) is not None] for one in Direction}
            found = self._selected[key] = {one: some for one, some in by_direction.items() if some}
        return found

"""Who owns whom, and what becomes of an object whose owners go.

The graph holds every object that has owners or is one, by uid. Decisions are in `verdict`, a pure function of one node and what is known of its owners.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


@dataclass(slots=True)
class Node:
    """One object of the graph."""

    uid: str
    kind: Kind
    namespace: str
    name: str
    owners: tuple[meta_v1.OwnerReference, ...] = ()
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    dependents: dict[str, None] = field(default_factory=dict)
    """Uids of objects that name this one as owner, in the order in which they came."""
    seen: bool = True
    """False for an owner that is known only from references to it."""


class Graph:
    """Who owns whom."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}

    def put(self, kind: Kind, obj: Any) -> Node:
        """Take in an object as it is now."""
        metadata = obj.metadata
        known = self.nodes.get(metadata.uid)
        node = Node(
            metadata.uid,
            kind,
            metadata.namespace,
            metadata.name,
            metadata.owner_references,
            bool(metadata.deletion_timestamp),
            metadata.finalizers,
        )
        if known is not None:
            node.dependents = known.dependents
            self._leave_owners(known)
        self.nodes[node.uid] = node
        for owner in node.owners:
            self._owner(kind, metadata.namespace, owner).dependents[node.uid] = None
        return node

    def _leave_owners(self, node: Node) -> None:
        """An object is no dependent any more; owners that were known from it alone are forgotten."""
        for owner in node.owners:
            known = self.nodes.get(owner.uid)
            if known is not None:
                known.dependents.pop(node.uid, None)
                if not known.dependents and not known.seen:
                    del self.nodes[owner.uid]

    def _owner(self, kind: Kind, namespace: str, reference: meta_v1.OwnerReference) -> Node:
        node = self.nodes.get(reference.uid)
        if node is None:
            node = self.nodes[reference.uid] = Node(reference.uid, kind, namespace, reference.name, seen=False)
        return node

    def remove(self, uid: str) -> Node | None:
        """Take an object out; its dependents stay and miss it. Returns it."""
        node = self.nodes.pop(uid, None)
        if node is not None:
            self._leave_owners(node)
        return node


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with an object that has owners."""

    delete: str = ""
    """Propagation policy of the deletion; "" to keep the object."""
    drop: tuple[str, ...] = ()
    """Uids of owner references to take out."""


def verdict(node: Node, absent: set[str], waiting: set[str]) -> Verdict:
    """Decide about an object whose owners with uids `absent` are gone and those with uids `waiting` wait for their dependents to go first."""
    solid = [owner for owner in node.owners if owner.uid not in absent and owner.uid not in waiting]
    if solid:
        return Verdict(drop=tuple(owner.uid for owner in node.owners if owner.uid in absent or owner.uid in waiting))
    if waiting and node.dependents:
        return Verdict(delete="Foreground")
    if ORPHAN in node.finalizers:
        return Verdict(delete="Orphan")
    return Verdict(delete="Foreground" if FOREGROUND in node.finalizers else "Background")


def unblocked(before: Iterable[meta_v1.OwnerReference], after: Iterable[meta_v1.OwnerReference]) -> list[str]:
    """Uids of owners that an object kept from going, and does not any more: it let go of them, or does not block them."""
    still = {owner.uid for owner in after if owner.block_owner_deletion}
    return [owner.uid for owner in before if owner.block_owner_deletion and owner.uid not in still]

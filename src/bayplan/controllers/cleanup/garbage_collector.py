"""Garbage collector: what an owner owns goes with it (background), before it (foreground), or stays behind (orphan).

What is known and what follows from it are in `garbage_collector_rules`. An owner that is not in the graph is looked up on the server before anything is
deleted, so a stale cache never deletes a live object.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.types import meta_v1
from bayplan.client.client import MERGE_PATCH, STRATEGIC_PATCH
from bayplan.controllers.base import Controller
from bayplan.controllers.cleanup.garbage_collector_rules import FOREGROUND, ORPHAN, Graph, Node, unblocked, verdict
from bayplan.informers import Informer

logger = logging.getLogger(__name__)

_SYNC_SECONDS = 30.0
"""For so long the first lists of all kinds are waited for; a kind that cannot be listed must not stop all collection."""
_ABSENT_KEPT = 2000
"""Uids of objects that are known to be gone; older ones are asked for again."""


class GarbageCollector(Controller):
    """See the module. Keys are uids."""

    name = "garbage-collector-controller"
    workers = 20

    def setup(self) -> None:
        self.graph = Graph()
        self._absent: dict[str, None] = {}
        self._ended: set[tuple[str, str]] = set()
        """Custom kinds, as `apiVersion` and `kind`, that were served once: if they are not now, their objects are gone."""
        self._complete = asyncio.Event()
        """Set when the graph shows every kind: before, what looks alone may have dependents."""

    async def run_background(self) -> None:
        """Follow every kind that can be deleted. Kinds are taken one after the other, so that start-up of the cluster is not held up."""
        followed: list[Informer[Any]] = []
        for kind in self.client.kinds.one_of_each():
            if not kind.is_custom and kind.kind != "Event" and "delete" in kind.verbs and kind.type is not None:
                self._follow(kind)
                followed.append(self.informer(kind.type))
                await asyncio.sleep(0)
        patience = asyncio.create_task(self.clock.sleep(_SYNC_SECONDS))
        everything = asyncio.create_task(self._in_step(followed))
        try:
            await asyncio.wait({patience, everything}, return_when=asyncio.FIRST_COMPLETED)
            if not everything.done():
                logger.warning("not all kinds could be listed; going on without them")
        finally:
            patience.cancel()
            everything.cancel()
        self._complete.set()

    async def _in_step(self, followed: list[Informer[Any]]) -> None:
        """Return once the graph shows every kind, the custom ones included."""
        custom = self.context.informers.custom_kinds
        await custom.informer.wait_for_sync()
        custom.follow(self._follow, self._forget)
        await _all_in_step([*followed, *(self.informer(kind.type) for kind in self.client.kinds if kind.is_custom)])

    def _forget(self, kind: Kind) -> None:
        """A custom kind is served no more, or otherwise. If its objects are gone, that has been told."""
        for node in [node for node in self.graph.nodes.values() if node.kind is kind]:
            self.graph.remove(node.uid)
        ended = kind.api_version, kind.kind
        self._ended.add(ended)
        for node in self.graph.nodes.values():
            if any((owner.api_version, owner.kind) == ended for owner in node.owners):
                self.queue.add(node.uid)

    def _follow(self, kind: Kind) -> None:
        def put(obj: Any) -> None:
            node = self.graph.put(kind, obj)
            self._consider(node)

        def change(old: Any, new: Any) -> None:
            before, after = old.metadata, new.metadata
            if (
                before.owner_references != after.owner_references
                or before.deletion_timestamp != after.deletion_timestamp
                or before.finalizers != after.finalizers
            ):
                put(new)
                self._consider_owners(unblocked(before.owner_references, after.owner_references))

        def remove(obj: Any) -> None:
            node = self.graph.remove(obj.metadata.uid)
            if node is None:
                return
            if node.dependents:
                self._remember_absent(node.uid)
            for uid in node.dependents:
                self.queue.add(uid)
            self._consider_owners(owner.uid for owner in node.owners)

        self.informer(kind.type).on_change(add=put, update=change, delete=remove)

    def _consider(self, node: Node) -> None:
        """Queue what this object's state makes necessary."""
        if node.owners and not node.deleting:
            self.queue.add(node.uid)
        if node.deleting and (FOREGROUND in node.finalizers or ORPHAN in node.finalizers):
            self.queue.add(node.uid)
            if FOREGROUND in node.finalizers:
                for uid in node.dependents:
                    self.queue.add(uid)

    def _consider_owners(self, uids: Iterable[str]) -> None:
        """Queue those that wait for their dependents: one of these is out of their way."""
        for uid in uids:
            above = self.graph.nodes.get(uid)
            if above is not None and above.deleting and FOREGROUND in above.finalizers:
                self.queue.add(uid)

    async def reconcile(self, key: str) -> None:
        await self._complete.wait()
        node = self.graph.nodes.get(key)
        if node is None or not node.seen:
            return
        if node.deleting:
            if ORPHAN in node.finalizers:
                await self._orphan(node)
            elif FOREGROUND in node.finalizers:
                await self._finish_foreground(node)
            return
        if node.owners:
            await self._judge(node)

    async def _judge(self, node: Node) -> None:
        absent, waiting = set(), set()
        for owner in node.owners:
            known = self.graph.nodes.get(owner.uid)
            if known is not None and known.seen:
                if known.kind.namespaced and known.namespace != node.namespace:
                    self._tell_bad_reference(node, owner)
                    absent.add(owner.uid)
                elif known.deleting and FOREGROUND in known.finalizers:
                    waiting.add(owner.uid)
            elif owner.uid in self._absent or await self._is_absent(node, owner):
                absent.add(owner.uid)
        if not absent and not waiting:
            return
        decision = verdict(node, absent, waiting)
        if decision.delete:
            latest = await self._latest(node)
            if latest is None:
                return
            if (latest.owner_references, latest.finalizers) != (node.owners, node.finalizers):
                self.queue.add_rate_limited(node.uid)  # the graph is behind: what it says would be wrong
                return
            if waiting and any(one.deleting and FOREGROUND in one.finalizers for one in self._dependents(node)):
                await self._unblock(node)  # a circle: the dependents wait for this one as much as it for them
                latest = None
            await self._delete(node, decision.delete, latest.resource_version if latest is not None else "")
        elif decision.drop:
            await self._drop_owners(node, decision.drop)

    async def _is_absent(self, node: Node, owner: meta_v1.OwnerReference) -> bool:
        """Ask the server: an owner is absent if nothing of that name, or something with another uid, is there."""
        kind = self.client.kinds.of_kind(owner.api_version, owner.kind)
        if kind is None:
            return (owner.api_version, owner.kind) in self._ended
        if kind.namespaced and not node.namespace:
            self._tell_bad_reference(node, owner)
            return True
        try:
            found: Any = await self.client.get(kind.type, owner.name, node.namespace if kind.namespaced else "")
        except ApiError as error:
            if error.code != 404:
                raise
            self._remember_absent(owner.uid)
            return True
        return bool(found.metadata.uid != owner.uid)

    def _remember_absent(self, uid: str) -> None:
        self._absent[uid] = None
        while len(self._absent) > _ABSENT_KEPT:
            del self._absent[next(iter(self._absent))]

    def _tell_bad_reference(self, node: Node, owner: meta_v1.OwnerReference) -> None:
        known = self.informer(node.kind.type).cache.get(node.namespace, node.name)
        if known is not None:
            shown = f"ownerRef [{owner.api_version}/{owner.kind}, namespace: {node.namespace}, name: {owner.name}, uid: {owner.uid}]"
            text = f"{shown} does not exist in namespace {node.namespace!r}".replace("'", '"')
            self.recorder.event(known, "Warning", "OwnerRefInvalidNamespace", text)

    async def _latest(self, node: Node) -> meta_v1.ObjectMeta | None:
        """The metadata of an object as the server has it; None if it is gone. Raises ApiError."""
        try:
            found: Any = await self.client.get(node.kind.type, node.name, node.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None
        metadata: meta_v1.ObjectMeta = found.metadata
        return metadata if metadata.uid == node.uid else None

    async def _delete(self, node: Node, policy: str, revision: str) -> None:
        """Delete an object, if nobody has changed it since it was looked at."""
        try:
            await self.client.delete(
                node.kind.type,
                node.name,
                node.namespace,
                propagation_policy=policy,
                uid=node.uid,
                resource_version=revision,
            )
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(node.uid)
            elif error.code != 404:
                raise

    def _dependents(self, node: Node) -> list[Node]:
        return [self.graph.nodes[uid] for uid in node.dependents if uid in self.graph.nodes]

    async def _drop_owners(self, node: Node, uids: Iterable[str]) -> bool:
        """Take references out; those that others write meanwhile stay. Whether that is done, or the object is gone."""
        if node.kind.is_custom:
            return await self._keep_owners(node, lambda owner: owner.uid not in uids)
        return await self._patch(node, {"ownerReferences": [{"$patch": "delete", "uid": uid} for uid in uids]})

    async def _keep_owners(self, node: Node, keep: Callable[[meta_v1.OwnerReference], bool], **changes: object) -> bool:
        """Write the references that are to stay, changed, for kinds that know no strategic patches: only if nobody writes meanwhile."""
        latest = await self._latest(node)
        if latest is None:
            return True
        kept = [msgspec.structs.replace(owner, **changes) for owner in latest.owner_references if keep(owner)]
        metadata = {"resourceVersion": latest.resource_version, "ownerReferences": kept or None}
        return await self._patch(node, metadata, MERGE_PATCH)

    async def _unblock(self, node: Node) -> None:
        """Let the owners of an object go before it."""
        blocking = [owner for owner in node.owners if owner.block_owner_deletion]
        if node.kind.is_custom:
            await self._keep_owners(node, lambda owner: True, block_owner_deletion=False)
            return
        references = [msgspec.structs.replace(owner, block_owner_deletion=False) for owner in blocking]
        await self._patch(node, {"ownerReferences": references})

    async def _drop_finalizer(self, node: Node, finalizer: str) -> None:
        try:
            found: Any = await self.client.get(node.kind.type, node.name, node.namespace)
            if found.metadata.uid != node.uid or finalizer not in found.metadata.finalizers:
                return
            left = [name for name in found.metadata.finalizers if name != finalizer]
            metadata = {"resourceVersion": found.metadata.resource_version, "uid": node.uid, "finalizers": left or None}
            await self.client.patch(node.kind.type, node.name, node.namespace, {"metadata": metadata})
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(node.uid)
            elif error.code != 404:
                raise

    async def _patch(self, node: Node, metadata: dict[str, Any], patch_type: str = STRATEGIC_PATCH) -> bool:
        """Change an object if it is still that one; whether that is done, or it is gone. If not, it comes again."""
        patch = {"metadata": {"uid": node.uid, **metadata}}
        try:
            await self.client.patch(node.kind.type, node.name, node.namespace, patch, patch_type=patch_type)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(node.uid)
                return False
            if error.code != 404:
                raise
        return True

    async def _orphan(self, node: Node) -> None:
        """Let the dependents stay: they lose their reference, and only when all have, the owner goes."""
        for uid in tuple(node.dependents):
            dependent = self.graph.nodes.get(uid)
            if dependent is not None and dependent.seen and not await self._drop_owners(dependent, (node.uid,)):
                self.queue.add_rate_limited(node.uid)
                return
        await self._drop_finalizer(node, ORPHAN)

    async def _finish_foreground(self, node: Node) -> None:
        """Let the owner go once no dependent blocks it any more."""
        blocking = [
            one
            for one in self._dependents(node)
            if any(owner.uid == node.uid and owner.block_owner_deletion for owner in one.owners)
        ]
        for one in blocking:
            if not (one.deleting and FOREGROUND in one.finalizers):
                self.queue.add(one.uid)
        if not blocking:
            await self._drop_finalizer(node, FOREGROUND)


async def _all_in_step(informers: Iterable[Informer[Any]]) -> None:
    for one in informers:
        await one.wait_for_sync()

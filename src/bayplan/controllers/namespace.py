"""Namespace: empties a namespace that is being deleted, then lets it go."""

from __future__ import annotations

import logging

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.base import Controller, with_condition
from bayplan.support.timestamps import rfc3339

logger = logging.getLogger(__name__)

_FINALIZER = "kubernetes"
_RETRY_SECONDS = 1.0


class _Items(msgspec.Struct):
    class Item(msgspec.Struct):
        metadata: meta_v1.ObjectMeta

    items: list[Item] | None = None


_decode_items = msgspec.json.Decoder(_Items).decode


class NamespaceController(Controller):
    """See the module."""

    name = "namespace-controller"

    def setup(self) -> None:
        self.namespaces = self.informer(core_v1.Namespace)
        self.watch_keys(self.namespaces)

    async def reconcile(self, key: str) -> None:
        namespace: core_v1.Namespace | None = self.namespaces.cache.by_key(key)
        if (
            namespace is None
            or not namespace.metadata.deletion_timestamp
            or _FINALIZER not in namespace.spec.finalizers
        ):
            return
        remaining: dict[str, int] = {}
        finalizers: dict[str, int] = {}
        for kind in self.client.kinds:
            if (
                kind.namespaced
                and kind.is_stored
                and "deletecollection" in kind.verbs
                and self.client.kinds.storage_kind(kind) is kind
            ):
                await self._empty(kind, key, remaining, finalizers)
        if remaining:
            await self._tell(namespace, remaining, finalizers)
            self.queue.add_after(key, _RETRY_SECONDS)
            return
        changed = clone(namespace)
        changed.spec.finalizers = tuple(name for name in namespace.spec.finalizers if name != _FINALIZER)
        try:
            await self.client.finalize_namespace(changed)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise

    async def _empty(self, kind: Kind, namespace: str, remaining: dict[str, int], finalizers: dict[str, int]) -> None:
        """Delete every object of a kind; count what is still there."""
        path = kind.path(namespace)
        data = await self.client.raw("GET", path, {"limit": "1"})
        if not _decode_items(data).items:
            return
        await self.client.raw("DELETE", path)
        for item in _decode_items(await self.client.raw("GET", path)).items or ():
            name = f"{kind.plural}.{kind.group}"
            remaining[name] = remaining.get(name, 0) + 1
            for finalizer in item.metadata.finalizers:
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1

    async def _tell(self, namespace: core_v1.Namespace, remaining: dict[str, int], finalizers: dict[str, int]) -> None:
        """Say in the conditions what the deletion waits for."""
        now = rfc3339(self.clock.now())
        changed = clone(namespace)

        def set_condition(name: str, status: str, reason: str, message: str) -> None:
            condition = core_v1.NamespaceCondition(
                type=name, status=status, reason=reason, message=message, last_transition_time=now
            )
            changed.status.conditions = with_condition(changed.status.conditions, condition)

        set_condition(
            "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", "All resources successfully discovered"
        )
        set_condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        )
        set_condition(
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        )
        content = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(remaining.items()))
        set_condition(
            "NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {content}"
        )
        if finalizers:
            held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
            text = f"Some content in the namespace has finalizers remaining: {held}"
            set_condition("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", text)
        else:
            set_condition(
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
            )
        if changed.status.conditions != namespace.status.conditions:
            try:
                await self.client.update_status(changed)
            except ApiError as error:
                logger.debug("namespace %s: conditions not written: %s", namespace.metadata.name, error)

"""Namespace: empties a namespace that is being deleted, pods first, then lets it go. What its conditions say is in `namespace_rules`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.strategies.base import clone
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, index_by_namespace
from bayplan.controllers.cleanup.namespace_rules import Content, conditions
from bayplan.support.timestamps import rfc3339

_FINALIZER = "kubernetes"
_FIRST_RETRY, _LONGEST_RETRY = 0.25, 15.0
"""Seconds after which what remains is looked at again: soon at first, later if it stays."""
_TELL_SECONDS = 2.0
"""Between two times that all pods of a namespace are told to go."""


class _Metadata(msgspec.Struct):
    finalizers: tuple[str, ...] = ()


class _Item(msgspec.Struct):
    metadata: _Metadata


class _Items(msgspec.Struct):
    items: list[_Item] | None = None


_decode_items = msgspec.json.Decoder(_Items).decode


class NamespaceController(Controller):
    """See the module."""

    name = "namespace-controller"

    def setup(self) -> None:
        self.namespaces = self.informer(core_v1.Namespace)
        self.custom_kinds = self.context.informers.custom_kinds
        """They keep the client's table: custom resources go with their namespace, too."""
        self.pods = self.informer(core_v1.Pod)
        index_by_namespace(self.pods)
        self._emptying: dict[str, int] = {}
        """Namespace that waits for what remains -> looks so far."""
        self._told: dict[str, float] = {}
        """Namespace -> monotonic time when all its pods were last told to go."""
        self.namespaces.on_change(
            add=lambda one: self.queue.add(one.metadata.name),
            update=lambda old, new: self.queue.add(new.metadata.name),
            delete=lambda one: self._forget(one.metadata.name),
        )
        self.pods.on_change(delete=self._pod_gone)

    def _forget(self, name: str) -> None:
        self._emptying.pop(name, None)
        self._told.pop(name, None)

    def _pod_gone(self, pod: core_v1.Pod) -> None:
        """The last pod of a namespace is the news that one waits for."""
        namespace = pod.metadata.namespace
        if namespace in self._emptying and not self.pods.cache.count_by_index("namespace", namespace):
            self.queue.add(namespace)

    async def reconcile(self, key: str) -> None:
        namespace: core_v1.Namespace | None = self.namespaces.cache.by_key(key)
        if (
            namespace is None
            or not namespace.metadata.deletion_timestamp
            or _FINALIZER not in namespace.spec.finalizers
        ):
            return
        content = await self._empty(key)
        if content.remaining or content.failures:
            await self._tell(namespace, content)
            looks = self._emptying[key] = self._emptying.get(key, 0) + 1
            self.queue.add_after(key, min(_FIRST_RETRY * 2 ** min(looks - 1, 10), _LONGEST_RETRY))
            return
        namespace = await self._tell(namespace, content)
        changed = clone(namespace)
        changed.spec.finalizers = tuple(name for name in namespace.spec.finalizers if name != _FINALIZER)
        try:
            await self.client.finalize_namespace(changed)
        except ApiError as error:
            if error.code == 409:
                self.queue.add_rate_limited(key)
            elif error.code != 404:
                raise

    async def _empty(self, namespace: str) -> Content:
        """Delete everything, pods before the rest; returns what is still there."""
        content = Content()
        pods = self.client.kinds.of_type(core_v1.Pod)
        await self._empty_kind(pods, namespace, content)
        if content.remaining or content.failures:
            return content
        for kind in self.client.kinds.one_of_each():
            if kind.namespaced and kind is not pods and "deletecollection" in kind.verbs:
                await self._empty_kind(kind, namespace, content)
        return content

    async def _empty_kind(self, kind: Kind, namespace: str, content: Content) -> None:
        """Delete every object of a kind and count what is still there. What fails does not keep the other kinds from going."""
        path = kind.path(namespace)
        try:
            if not _decode_items(await self.client.raw("GET", path, {"limit": "1"})).items:
                return
            if kind.type is not core_v1.Pod or self._is_to_be_told(namespace):
                await self.client.raw("DELETE", path)
            content.count(f"{kind.plural}.{kind.group}", await self._left(kind, namespace))
        except ApiError as error:
            if error.code not in (404, 405):
                content.failures.append(error.message)

    def _is_to_be_told(self, namespace: str) -> bool:
        """Whether pods are to be told to go (again): not those that know it already, nor so soon that the cache cannot show what they know."""
        now = self.clock.monotonic()
        if namespace in self._told and now - self._told[namespace] < _TELL_SECONDS:
            return False
        known = self.pods.cache.by_index("namespace", namespace)
        if known and all(pod.metadata.deletion_timestamp for pod in known):
            return False
        self._told[namespace] = now
        return True

    async def _left(self, kind: Kind, namespace: str) -> Sequence[Sequence[str]]:
        """The finalizers of each object of a kind. Of pods, which may be many and take their time, the cache knows them."""
        if kind.type is core_v1.Pod and (pods := self.pods.cache.by_index("namespace", namespace)):
            return [pod.metadata.finalizers for pod in pods]
        items = _decode_items(await self.client.raw("GET", kind.path(namespace))).items
        return [item.metadata.finalizers for item in items or ()]

    async def _tell(self, namespace: core_v1.Namespace, content: Content) -> core_v1.Namespace:
        """Say in the conditions what the deletion waits for. Returns the namespace as it is then."""
        told = conditions(namespace.status.conditions, content, rfc3339(self.clock.now()))
        if told == namespace.status.conditions:
            return namespace
        changed = clone(namespace)
        changed.status.conditions = told
        try:
            return await self.client.update_status(changed)
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            return namespace  # whoever changed it queues it again

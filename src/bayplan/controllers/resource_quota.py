"""ResourceQuotas: the status says what is limited and what is used. Admission charges against it; this corrects it when objects go or a quota changes.

Usage of what exists is counted by the same evaluators that admission uses (`bayplan.api.quota`). Kinds are followed only while a quota limits them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.quota.amounts import to_wire
from bayplan.api.quota.evaluators import evaluator_for
from bayplan.api.quota.usage import usage
from bayplan.api.types import core_v1
from bayplan.controllers.base import Controller, index_by_namespace
from bayplan.informers import Informer
from bayplan.informers.cache import key_of

RESYNC_SECONDS = 300.0
"""Between two full counts, in case something was missed."""
_GATHER_SECONDS = 0.1
"""Changes of objects within this time are counted together."""


class ResourceQuotaController(Controller):
    """See the module."""

    name = "resourcequota-controller"

    def setup(self) -> None:
        self.quotas = self.informer(core_v1.ResourceQuota)
        index_by_namespace(self.quotas)
        self.evaluators = {
            kind: evaluator_for(kind)
            for kind in self.client.kinds.one_of_each()
            if kind.namespaced and kind.type is not None
        }
        self._followed: dict[Kind, Informer[Any]] = {}
        self.context.informers.custom_kinds.follow(self._begin, self._end)
        self.quotas.on_change(add=lambda quota: self.queue.add(key_of(quota)), update=self._changed)

    def _begin(self, kind: Kind) -> None:
        """A custom kind can be counted from now on."""
        if kind.namespaced:
            self.evaluators[kind] = evaluator_for(kind)
            name = self.evaluators[kind].count_name
            for quota in self.quotas.cache:
                if name in quota.spec.hard:
                    self.queue.add(key_of(quota))

    def _end(self, kind: Kind) -> None:
        """A custom kind is no more."""
        self.evaluators.pop(kind, None)
        self._followed.pop(kind, None)

    def _changed(self, old: core_v1.ResourceQuota, new: core_v1.ResourceQuota) -> None:
        """Charges by admission change the status only and need no count."""
        if old.spec != new.spec or new.status.hard != new.spec.hard:
            self.queue.add(key_of(new))

    async def run_background(self) -> None:
        while True:
            await self.clock.sleep(RESYNC_SECONDS)
            for quota in self.quotas.cache:
                self.queue.add(key_of(quota))

    def _follow(self, kind: Kind) -> Informer[Any]:
        """The informer of a kind that a quota limits."""
        found = self._followed.get(kind)
        if found is None:
            found = self._followed[kind] = self.informer(kind.type)
            index_by_namespace(found)
            evaluator = self.evaluators[kind]

            def changed(old: Any, new: Any) -> None:
                """Some kinds give back what they used without going, or come to count elsewhere."""
                if old.metadata.namespace in self._namespaces():
                    now = self.clock.now()
                    if evaluator.usage(old, now) != evaluator.usage(new, now) or evaluator.moves(old, new):
                        self._recount(new)

            found.on_change(update=changed, delete=self._recount)
        return found

    def _namespaces(self) -> set[str]:
        return {quota.metadata.namespace for quota in self.quotas.cache}

    def _recount(self, obj: Any) -> None:
        for quota in self.quotas.cache.by_index("namespace", obj.metadata.namespace):
            self.queue.add_after(key_of(quota), _GATHER_SECONDS)

    async def reconcile(self, key: str) -> None:
        quota = self.quotas.cache.by_key(key)
        if quota is None or quota.metadata.deletion_timestamp:
            return
        namespace = quota.metadata.namespace
        counted = []
        for kind, evaluator in tuple(self.evaluators.items()):
            if evaluator.matching(quota.spec.hard):
                informer = self._follow(kind)
                await informer.wait_for_sync()
                counted.append((evaluator, informer.cache.by_index("namespace", namespace)))
        used = usage(quota, counted, self.clock.now())
        status = core_v1.ResourceQuotaStatus(hard=quota.spec.hard, used=to_wire(used))
        if status == quota.status:
            return
        try:
            await self.client.update_status(msgspec.structs.replace(quota, status=status))
        except ApiError as error:
            if error.code not in (404, 409):
                raise
            self.queue.add_rate_limited(key)

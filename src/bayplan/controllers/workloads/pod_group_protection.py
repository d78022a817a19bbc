"""Pod group protection: a PodGroup stays as long as a pod that has not ended names it.

The API server puts a finalizer on each new one (admission plugin PodGroupProtection). Here those that are older get it while pods use them, and it is taken off once
the group is being deleted and nobody needs it. Nothing runs where the server has no pod groups.

Source of the behaviour: Kubernetes' `pkg/controller/scheduling/podgroupprotection`.
"""

from __future__ import annotations

from typing import Any

from bayplan.api.optional_kinds import NEWER_POD_GROUP, POD_GROUP, POD_GROUP_FINALIZER
from bayplan.api.types import core_v1
from bayplan.controllers.base import set_finalizers
from bayplan.controllers.optional_kinds import OptionalController
from bayplan.controllers.pods import has_ended
from bayplan.informers import Informer, InformerFactory
from bayplan.informers.cache import SPEC


def group_of(pod: core_v1.Pod) -> tuple[str, ...]:
    """The key of the group that a pod names; empty if it names none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ()
    return (f"{pod.metadata.namespace}/{group.pod_group_name}",)


class PodGroupProtectionController(OptionalController):
    """See the module. Keys are those of groups."""

    name = "podgroup-protection-controller"
    workers = 2
    kinds = (POD_GROUP, NEWER_POD_GROUP)

    def setup(self) -> None:
        self._groups: Informer[Any] | None = None
        self.pods = self.informer(core_v1.Pod)
        self.pods.add_index("pod-group", group_of, SPEC)
        self.pods.on_change(
            add=self._seen,
            update=self._changed,
            delete=self._touch,
        )

    def begin(self, informers: InformerFactory) -> None:
        assert self.kind is not None
        self._groups = informers.informer(self.kind.type)
        self.watch_keys(self._groups)

    def _seen(self, pod: core_v1.Pod) -> None:
        if has_ended(pod) or not pod.spec.node_name:
            self._touch(pod)

    def _changed(self, old: core_v1.Pod, new: core_v1.Pod) -> None:
        self._seen(new)
        if old.metadata.uid != new.metadata.uid:
            self._touch(old)

    def _touch(self, pod: core_v1.Pod) -> None:
        for key in group_of(pod):
            self.queue.add(key)

    async def reconcile(self, key: str) -> None:
        group = self._groups.cache.by_key(key) if self._groups is not None else None
        if group is None:
            return
        finalizers = group.metadata.finalizers
        is_protected, is_going = POD_GROUP_FINALIZER in finalizers, bool(group.metadata.deletion_timestamp)
        if is_protected is not is_going or self._is_used(key) is is_going:
            return
        wanted = (
            [one for one in finalizers if one != POD_GROUP_FINALIZER]
            if is_going
            else [*finalizers, POD_GROUP_FINALIZER]
        )
        if not await set_finalizers(self.client, group, wanted):
            self.queue.add_rate_limited(key)

    def _is_used(self, key: str) -> bool:
        return any(not has_ended(pod) for pod in self.pods.cache.by_index("pod-group", key))

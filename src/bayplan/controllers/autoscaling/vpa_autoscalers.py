"""The VerticalPodAutoscaler objects of a cluster, by the workloads that they scale. Their custom resource may come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.controllers.autoscaling.vpa_objects import GROUP, KIND, AutoscalerError, target_of
from bayplan.informers import InformerFactory
from bayplan.informers.cache import key_of


class Autoscalers:
    """Follows them. `changed` is told the key (`Kind/namespace/name`) of each workload whose autoscalers change."""

    def __init__(self, informers: InformerFactory, kinds: Collection[str], changed: Callable[[str], None]) -> None:
        """kinds: the workloads that can be scaled."""
        self.has_status = False
        """Whether the custom resource has the subresource `status`."""
        self._informers = informers
        self._kinds = kinds
        self._changed = changed
        self._by_target: dict[str, dict[str, CustomObject]] = {}
        informers.custom_kinds.follow(self._kind_came, self._kind_went)

    def __contains__(self, key: str) -> bool:
        return key in self._by_target

    def of(self, key: str) -> CustomObject | None:
        """The autoscaler for a workload, of several the oldest; or one that names no workload that can be scaled, by its own key."""
        found = self._by_target.get(key)
        if not found:
            return None
        return min(found.values(), key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))

    def why_no_target(self, autoscaler: CustomObject, key: str) -> str:
        """Why an autoscaler has no workload."""
        try:
            target_of(autoscaler.metadata, autoscaler.content, self._kinds)
        except AutoscalerError as error:
            return str(error)
        kind, _, name = key.partition("/")
        return f"Cannot read targetRef. Reason: {kind} {name} does not exist"

    def _kind_came(self, kind: CustomKind) -> None:
        if (kind.group, kind.kind) != (GROUP, KIND):
            return
        self.has_status = bool(kind.subresources)
        self._informers.informer(kind.type).on_change(add=self._put, update=self._replace, delete=self._remove)

    def _kind_went(self, kind: CustomKind) -> None:
        if (kind.group, kind.kind) == (GROUP, KIND):
            self._by_target.clear()

    def _target_of(self, obj: CustomObject) -> str:
        try:
            return target_of(obj.metadata, obj.content, self._kinds)
        except AutoscalerError:
            return f"{KIND}/{key_of(obj)}"

    def _put(self, obj: CustomObject) -> None:
        target = self._target_of(obj)
        self._by_target.setdefault(target, {})[key_of(obj)] = obj
        self._changed(target)

    def _replace(self, old: CustomObject, new: CustomObject) -> None:
        if old.content.get("spec") != new.content.get("spec"):
            self._remove(old)
            self._put(new)
            return
        # Our own status, mostly.
        self._by_target.setdefault(self._target_of(new), {})[key_of(new)] = new

    def _remove(self, obj: CustomObject) -> None:
        target = self._target_of(obj)
        known = self._by_target.get(target, {})
        known.pop(key_of(obj), None)
        if not known:
            self._by_target.pop(target, None)
        self._changed(target)

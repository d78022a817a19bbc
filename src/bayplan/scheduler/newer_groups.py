"""Pod groups of Kubernetes 1.37 in a live cluster: `v1beta1` PodGroup and `v1alpha3` CompositePodGroup, where there is no `v1alpha2`.

They are read into the form of 1.36, which all else knows. A server may have them of its own, or as custom resources
(`deploy/pod-groups-1.37.yaml`), which may come after the scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from bayplan.api.codec import DecodeError, from_tree
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS, GENERIC_WORKLOAD
from bayplan.api.types import apiextensions_v1
from bayplan.api.types.scheduling_v1alpha2 import PodGroup
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers import InformerFactory
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.custom_group_follower import Deliver, Refuse
from bayplan.scheduler.snapshot.group_trees import CompositeGroup, NewerPodGroup
from bayplan.support.clock import Clock

if TYPE_CHECKING:
    from bayplan.api.custom_resources.objects import CustomObject

logger = logging.getLogger(__name__)

Follow = Callable[[str, "CustomObject | None", "CustomObject | None"], None]
"""(kind of event, the object before, the object now)"""

GROUP: Final = "scheduling.k8s.io"
_SEARCH_SECONDS: Final = 5.0
_KEPT: Final = ("schedulingPolicy", "schedulingConstraints", "resourceClaims", "priorityClassName", "priority")
"""Fields that are the same in both versions."""


def _kind(version: str, kind: str, plural: str) -> CustomKind:
    names = apiextensions_v1.CustomResourceDefinitionNames(
        plural=plural, singular=kind.lower(), kind=kind, list_kind=f"{kind}List"
    )
    return CustomKind(GROUP, version, kind, plural, True, names=names)


POD_GROUPS: Final = _kind("v1beta1", "PodGroup", "podgroups")
COMPOSITES: Final = _kind("v1alpha3", "CompositePodGroup", "compositepodgroups")


class NewerGroups:
    """Those of one scheduler. With the gate CompositePodGroup off, each pod group stands alone."""

    def __init__(self, core: SchedulerCore, clock: Clock, deliver: Deliver, refuse: Refuse) -> None:
        self._core = core
        self._clock = clock
        self._deliver = deliver
        self._refuse = refuse
        gates = {gate for cycle in core.cycles.values() for gate in cycle.profile.settings.feature_gates}
        self.are_expected = GENERIC_WORKLOAD in gates
        """Whether it is worth looking for them again and again."""
        self._has_trees = COMPOSITE_POD_GROUPS in gates
        self._missing = [POD_GROUPS, *([COMPOSITES] if self._has_trees else ())]

    async def find(self, client: Client, informers: InformerFactory) -> None:
        """Follow the kinds that are there. The client's table of kinds is extended."""
        for kind in list(self._missing):
            try:
                await client.raw("GET", kind.path(), {"limit": "1"})
            except (ApiError, TransportError) as error:
                if not isinstance(error, ApiError) or error.code != 404:
                    logger.warning("looking for %s: %s", kind.path(), error)
                continue
            self._missing.remove(kind)
            client.kinds.add(kind)
            follow = self._take_group if kind is POD_GROUPS else self._take_composite
            informers.informer(kind.type).on_change(
                add=self._taking(follow, "Add"), update=self._updating(follow), delete=self._losing(follow)
            )

    async def search(self, client: Client, informers: InformerFactory) -> None:
        """Look for the kinds that were not there, until all are."""
        while self._missing:
            await self._clock.sleep(_SEARCH_SECONDS)
            await self.find(client, informers)

    def _taking(self, follow: Follow, event: str) -> Callable[[CustomObject], None]:
        return lambda obj: follow(event, None, obj)

    def _updating(self, follow: Follow) -> Callable[[CustomObject, CustomObject], None]:
        return lambda old, new: follow("Update", old, new)

    def _losing(self, follow: Follow) -> Callable[[CustomObject], None]:
        return lambda obj: follow("Delete", obj, None)

    def _take_group(self, event: str, old: CustomObject | None, new: CustomObject | None) -> None:
        before, after = self._read(old, self._group_from), self._read(new, self._group_from)
        if before is not None or after is not None:
            self._deliver(f"PodGroup{event}", lambda: self._core.handle("PodGroup", before, after))

    def _take_composite(self, event: str, old: CustomObject | None, new: CustomObject | None) -> None:
        before, after = self._read(old, composite_from), self._read(new, composite_from)
        known = after if after is not None else before
        if known is not None:
            self._deliver(f"CompositePodGroup{event}", lambda: self._core.put_composite(known.key, after))

    def _read(self, obj: CustomObject | None, read: Callable[[CustomObject], Any]) -> Any:
        """An object in the form of 1.36; None if there is none, or it cannot be understood."""
        if obj is None:
            return None
        try:
            return read(obj)
        except (DecodeError, ValueError) as error:
            self._refuse(obj, str(error))
            return None

    def _group_from(self, obj: CustomObject) -> NewerPodGroup:
        return group_from(obj, has_trees=self._has_trees)


def group_from(obj: CustomObject, *, has_trees: bool) -> NewerPodGroup:
    """A pod group. Raises DecodeError, ValueError."""
    spec = _spec_of(obj)
    found = from_tree(NewerPodGroup, _tree(obj, spec))
    found.metadata = obj.metadata
    found.parent = _parent(obj, spec) if has_trees else ""
    found.preempts = spec.get("preemptionPolicy") != "Never"
    return found


def composite_from(obj: CustomObject) -> CompositeGroup:
    """A composite group. Raises DecodeError, ValueError."""
    spec = dict(_spec_of(obj))
    policy = spec.pop("schedulingPolicy", None) or {}
    gang = policy.get("gang") if isinstance(policy, Mapping) else None
    needed = (gang or {}).get("minGroupCount", 0)
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 0:
        raise ValueError(f"spec.schedulingPolicy.gang.minGroupCount: {needed!r} must be a whole number of at least 1")
    group = from_tree(PodGroup, _tree(obj, spec))
    group.metadata = obj.metadata
    return CompositeGroup(group, _parent(obj, spec), needed, spec.get("preemptionPolicy") != "Never")


def _spec_of(obj: CustomObject) -> Mapping[str, Any]:
    spec = obj.content.get("spec") or {}
    if not isinstance(spec, Mapping):
        raise ValueError("spec: must be an object")
    return spec


def _tree(obj: CustomObject, spec: Mapping[str, Any]) -> dict[str, Any]:
    """An object's specification and conditions in the form of 1.36."""
    kept = {name: spec[name] for name in _KEPT if spec.get(name) is not None}
    mode = spec.get("disruptionMode")
    kept["disruptionMode"] = "PodGroup" if isinstance(mode, Mapping) and mode.get("all") is not None else "Pod"
    status = obj.content.get("status") or {}
    conditions = status.get("conditions") or [] if isinstance(status, Mapping) else []
    return {"spec": kept, "status": {"conditions": conditions}}


def _parent(obj: CustomObject, spec: Mapping[str, Any]) -> str:
    name = spec.get("parentCompositePodGroupName")
    return f"{obj.metadata.namespace}/{name}" if name else ""

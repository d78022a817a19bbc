"""Pod groups of Kubernetes 1.37 in a live cluster: `v1beta1` PodGroup, which is followed instead of `v1alpha2` where both are served, and `v1alpha3`
CompositePodGroup.

They are read into the form of 1.36, which all else knows. A server may have them of its own, or as custom resources
(`deploy/pod-groups-1.37.yaml`), which may come after the scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from bayplan.api.codec import DecodeError, from_tree
from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.errors import ApiError
from bayplan.api.feature_gates import COMPOSITE_POD_GROUPS, GENERIC_WORKLOAD
from bayplan.api.kinds import Kind
from bayplan.api.optional_kinds import COMPOSITE_POD_GROUP, NEWER_POD_GROUP
from bayplan.api.types import apiextensions_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers import InformerFactory
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.gangs.custom_group_follower import Deliver, Refuse
from bayplan.scheduler.snapshot.newer_groups import composite_from, group_from
from bayplan.support.clock import Clock

logger = logging.getLogger(__name__)

Follow = Callable[[str, Any, Any], None]
"""(kind of event, the object before, the object now)"""

_SEARCH_SECONDS: Final = 5.0


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
        self._missing = [NEWER_POD_GROUP, *([COMPOSITE_POD_GROUP] if self._has_trees else ())]

    def leave_groups(self) -> None:
        """Pod groups of 1.36 are followed: those of 1.37, should they come, are not."""
        self._missing.remove(NEWER_POD_GROUP)

    async def find(self, client: Client, informers: InformerFactory) -> None:
        """Follow the kinds that are there. The client's table of kinds is extended."""
        for kind in list(self._missing):
            if not await _is_there(client, kind):
                continue
            self._missing.remove(kind)
            follow = self._take_group if kind is NEWER_POD_GROUP else self._take_composite
            informers.informer(_type_of(kind, client)).on_change(
                add=self._taking(follow, "Add"), update=self._updating(follow), delete=self._losing(follow)
            )

    async def search(self, client: Client, informers: InformerFactory) -> None:
        """Look for the kinds that were not there, until all are."""
        while self._missing:
            await self._clock.sleep(_SEARCH_SECONDS)
            await self.find(client, informers)

    def _taking(self, follow: Follow, event: str) -> Callable[[Any], None]:
        return lambda obj: follow(event, None, obj)

    def _updating(self, follow: Follow) -> Callable[[Any, Any], None]:
        return lambda old, new: follow("Update", old, new)

    def _losing(self, follow: Follow) -> Callable[[Any], None]:
        return lambda obj: follow("Delete", obj, None)

    def _take_group(self, event: str, old: Any, new: Any) -> None:
        before, after = self._read(old, NEWER_POD_GROUP), self._read(new, NEWER_POD_GROUP)
        if before is not None or after is not None:
            self._deliver(f"PodGroup{event}", lambda: self._core.handle("PodGroup", before, after))

    def _take_composite(self, event: str, old: Any, new: Any) -> None:
        before, after = self._read(old, COMPOSITE_POD_GROUP), self._read(new, COMPOSITE_POD_GROUP)
        known = after if after is not None else before
        if known is not None:
            self._deliver(f"CompositePodGroup{event}", lambda: self._core.put_composite(known.key, after))

    def _read(self, obj: Any, kind: Kind) -> Any:
        """An object in the form of 1.36; None if there is none, or it cannot be understood."""
        if obj is None:
            return None
        try:
            typed = _typed(kind, obj) if isinstance(obj, CustomObject) else obj
            if kind is NEWER_POD_GROUP:
                return group_from(typed, has_trees=self._has_trees)
            return composite_from(typed)
        except (DecodeError, ValueError) as error:
            self._refuse(obj, str(error))
            return None


def _type_of(kind: Kind, client: Client) -> Any:
    """The type of a kind's objects. They are those of a custom resource unless the client knows that the server has the kind of its own."""
    if client.kinds.of_resource(kind.group, kind.version, kind.plural) is kind:
        return kind.type
    names = apiextensions_v1.CustomResourceDefinitionNames(
        plural=kind.plural, singular=kind.singular, kind=kind.kind, list_kind=kind.list_kind
    )
    custom = CustomKind(kind.group, kind.version, kind.kind, kind.plural, True, names=names)
    client.kinds.add(custom)
    return custom.type


def _typed(kind: Kind, obj: CustomObject) -> Any:
    """A custom resource as a built-in object. Raises DecodeError."""
    typed = from_tree(kind.type, obj.content)
    typed.metadata = obj.metadata
    return typed


async def _is_there(client: Client, kind: Kind) -> bool:
    try:
        await client.raw("GET", kind.path(), {"limit": "1"})
    except (ApiError, TransportError) as error:
        if not isinstance(error, ApiError) or error.code != 404:
            logger.warning("looking for %s: %s", kind.path(), error)
        return False
    return True

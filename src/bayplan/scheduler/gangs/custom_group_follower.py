"""Custom pod groups in a live cluster: found, followed, and given their status.

An API group that the server lacks (or does not let us read) is looked for again from time to time, since custom resources come later than
schedulers. The status of a group follows from its pods, which are here as the API shows them; it is written when it changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from bayplan.api.custom_resources.kinds import CustomKind
from bayplan.api.errors import ApiError
from bayplan.api.kinds import STATUS
from bayplan.api.types import apiextensions_v1, core_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.informers import InformerFactory
from bayplan.scheduler.core import SchedulerCore
from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin, GroupProgress, MalformedGroup
from bayplan.scheduler.gangs.gang_cycle import GroupResult
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup
from bayplan.support.clock import Clock
from bayplan.support.randomness import Randomness
from bayplan.support.timestamps import rfc3339

if TYPE_CHECKING:
    from bayplan.api.custom_resources.objects import CustomObject

logger = logging.getLogger(__name__)

QUEUES: Final = "queues"
_INDEX: Final = "custom-group"
_SEARCH_SECONDS: Final = 5.0
"""Between two looks for API groups that were not there."""
_RECHECK_SECONDS: Final = 1.0
"""Between two looks at groups that are refused: what they lack comes with any pod that ends."""

Deliver = Callable[[str, Callable[[], None]], None]
"""(name of the event, in metrics; what takes it in): takes an event in as soon as that may be."""

Refuse = Callable[[Any, str], None]
"""(a custom resource, what is wrong with it): tells its users that it cannot be understood."""


class CustomGroupFollower:
    """Those of one scheduler. Nothing happens without plugins for custom groups."""

    def __init__(
        self, core: SchedulerCore, clock: Clock, randomness: Randomness, deliver: Deliver, refuse: Refuse
    ) -> None:
        self._core = core
        self._clock = clock
        self._randomness = randomness
        self._deliver = deliver
        self._refuse = refuse
        self._plugins = dict(core.custom_groups.plugins)
        self._kinds: dict[tuple[str, str], CustomKind] = {}
        """By API group and plural: the kinds that are followed."""
        self._warned: set[str] = set()
        self._pods: Any = None
        self._results: dict[str, GroupResult] = {}
        """What became of groups that were tried."""
        self._refused: dict[str, None] = {}
        self._written: dict[str, str] = {}
        """Group -> the version of its custom resource that was known when its status was last written."""
        self._dirty: dict[str, None] = {}
        self._wake = asyncio.Event()

    # Finding and following

    async def find(self, client: Client, informers: InformerFactory) -> None:
        """Follow the API groups that are there, and the pods that name groups. The client's table of kinds is extended."""
        self._pods = informers.informer(core_v1.Pod)
        groups = self._core.custom_groups
        self._pods.add_index(_INDEX, lambda pod: (key,) if (key := groups.key_of(pod)) else ())
        changed = self._pod_changed
        self._pods.on_change(add=changed, update=lambda _, new: changed(new), delete=changed)
        await self._find(client, informers)

    async def search(self, client: Client, informers: InformerFactory) -> None:
        """Look for what was not there, until all is."""
        while len(self._kinds) < sum(1 + plugin.has_queues for plugin in self._plugins.values()):
            await self._clock.sleep(_SEARCH_SECONDS)
            await self._find(client, informers)

    async def _find(self, client: Client, informers: InformerFactory) -> None:
        for plugin in self._plugins.values():
            wanted = [plugin.plural, *([QUEUES] if plugin.has_queues else ())]
            missing = [plural for plural in wanted if (plugin.api_group, plural) not in self._kinds]
            resources = await self._resources(client, plugin) if missing else ()
            for plural in missing:
                if plural in resources:
                    await self._follow(
                        client, informers, plugin, _kind(plugin, plural, f"{plural}/status" in resources)
                    )

    async def _follow(
        self, client: Client, informers: InformerFactory, plugin: CustomGroupsPlugin, kind: CustomKind
    ) -> None:
        try:
            await client.raw("GET", kind.path(), {"limit": "1"})
        except (ApiError, TransportError) as error:
            self._warn(f"doing without {kind.group_resource}: {error}")
            return
        self._kinds[plugin.api_group, kind.plural] = kind
        client.kinds.add(kind)
        if kind.plural == plugin.plural:
            self._follow_groups(plugin, informers.informer(kind.type))
        else:
            self._core.snapshot.catalog.put_queue("", None)
            self._follow_queues(plugin, informers.informer(kind.type))

    async def _resources(self, client: Client, plugin: CustomGroupsPlugin) -> set[str]:
        """The names of the resources of a plugin's API group; none if it is not there."""
        path = f"/apis/{plugin.api_group}/{plugin.version}"
        try:
            answer = msgspec.json.decode(await client.raw("GET", path))
        except (ApiError, TransportError) as error:
            if not isinstance(error, ApiError) or error.code != 404:
                self._warn(f"looking for {path}: {error}")
            return set()
        return {str(one.get("name")) for one in answer.get("resources") or ()}

    def _warn(self, text: str) -> None:
        """Log what goes wrong at every search, once."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("%s", text)

    def _follow_groups(self, plugin: CustomGroupsPlugin, informer: Any) -> None:
        def take(event: str, old: CustomObject | None, new: CustomObject | None) -> None:
            before, after = self._read(plugin, old), self._read(plugin, new)
            if before is None and after is None:
                return

            def handle() -> None:
                self._core.handle("PodGroup", before, after)
                self._group_changed(after if after is not None else before, is_gone=after is None)

            self._deliver(f"PodGroup{event}", handle)

        informer.on_change(
            add=lambda obj: take("Add", None, obj),
            update=lambda old, new: take("Update", old, new),
            delete=lambda obj: take("Delete", obj, None),
        )

    def _follow_queues(self, plugin: CustomGroupsPlugin, informer: Any) -> None:
        def take(event: str, obj: CustomObject, *, is_gone: bool = False) -> None:
            try:
                queue = None if is_gone else plugin.read_queue(obj.metadata, obj.content)
            except MalformedGroup as error:
                self._refuse(obj, str(error))
                return
            self._deliver(f"Queue{event}", lambda: self._core.put_queue(obj.metadata.name, queue))

        informer.on_change(
            add=lambda obj: take("Add", obj),
            update=lambda _, new: take("Update", new),
            delete=lambda obj: take("Delete", obj, is_gone=True),
        )

    def _read(self, plugin: CustomGroupsPlugin, obj: CustomObject | None) -> CustomPodGroup | None:
        """A group from its custom resource; None if there is none, or it cannot be understood."""
        if obj is None:
            return None
        try:
            return plugin.read_group(obj.metadata, obj.content)
        except MalformedGroup as error:
            self._refuse(obj, str(error))
            return None

    # Status

    def _pod_changed(self, pod: core_v1.Pod) -> None:
        self._touch(self._core.custom_groups.key_of(pod))

    def _group_changed(self, group: CustomPodGroup | None, *, is_gone: bool) -> None:
        if group is None:
            return
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        if is_gone:
            for known in (self._results, self._refused, self._written):
                known.pop(key, None)
        else:
            self._touch(key)

    def decided(self, result: GroupResult) -> None:
        """A group was tried."""
        self._results[result.key] = result
        self._touch(result.key)

    def _touch(self, key: str) -> None:
        if key:
            self._dirty[key] = None
            self._wake.set()

    async def run(self, client: Client) -> None:
        """Write the status of groups when it changes, until cancelled."""
        while True:
            timer = self._clock.call_later(_RECHECK_SECONDS, self._recheck) if self._refused else None
            try:
                await self._wake.wait()
            finally:
                if timer is not None:
                    timer.cancel()
            self._wake.clear()
            while self._dirty:
                key = next(iter(self._dirty))
                del self._dirty[key]
                await self._write(client, key)

    def _recheck(self) -> None:
        for key in self._refused:
            self._touch(key)

    async def _write(self, client: Client, key: str) -> None:
        group = self._core.snapshot.catalog.pod_groups.get(key)
        if not isinstance(group, CustomPodGroup):
            return
        version = group.metadata.resource_version
        if version and self._written.get(key) == version:
            return  # what was written has not come back yet: it brings the group here again
        plugin, kind = self._plugins[group.origin], self._kinds[group.origin, self._plugins[group.origin].plural]
        if not plugin.has_own_status:
            return
        status = plugin.status_of(group, self._progress(plugin, key, group))
        if status == group.written_status:
            return
        path = kind.path(group.metadata.namespace, group.own_name, "status" if kind.subresources else "")
        body = msgspec.json.encode({"metadata": {"uid": group.metadata.uid}, "status": status})
        try:
            await client.raw("PATCH", path, {}, body, "application/merge-patch+json")
        except (ApiError, TransportError) as error:
            if not isinstance(error, ApiError) or error.code not in (404, 409):
                logger.warning("status of pod group %s: %s", key, error)
                self._clock.call_later(_RECHECK_SECONDS, self._touch, key)
            return
        self._written[key] = version

    def _progress(self, plugin: CustomGroupsPlugin, key: str, group: CustomPodGroup) -> GroupProgress:
        refusal = self._refusal(plugin, key, group)
        if refusal:
            self._refused[key] = None
        else:
            self._refused.pop(key, None)
        return GroupProgress(
            pods=self._pods.cache.by_index(_INDEX, key),
            placed=self._core.snapshot.gangs.count_placed(key),
            refusal=refusal,
            now=rfc3339(self._clock.now()),
            transition_id=self._randomness.uuid4(),
        )

    def _refusal(self, plugin: CustomGroupsPlugin, key: str, group: CustomPodGroup) -> str:
        gangs = self._core.snapshot.gangs
        if 0 < group.min_count <= gangs.count_placed(key):
            return ""
        result = self._results.get(key)
        if result is not None and not result.scheduled:
            return result.message
        return plugin.refusal(group)


def _kind(plugin: CustomGroupsPlugin, plural: str, has_status: bool) -> CustomKind:
    """The row for a custom resource whose definition is not read."""
    is_group = plural == plugin.plural
    kind = plugin.kind if is_group else "Queue"
    names = apiextensions_v1.CustomResourceDefinitionNames(
        plural=plural, singular=kind.lower(), kind=kind, list_kind=f"{kind}List"
    )
    subresources = (STATUS,) if has_status else ()
    return CustomKind(plugin.api_group, plugin.version, kind, plural, is_group, subresources=subresources, names=names)

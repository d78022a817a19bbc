"""The custom pod groups of all profiles: which pods belong to which, and what their custom resources say.

Pods come in here as the API has them, and go on as members of groups; what follows knows one kind of group only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from bayplan.api.types import meta_v1
from bayplan.scheduler.configuration.settings import DEFAULT_SCHEDULER_NAME
from bayplan.scheduler.framework.custom_groups import CustomGroupsPlugin
from bayplan.scheduler.profile import Profile
from bayplan.scheduler.snapshot.custom_groups import CustomPodGroup, custom_name, in_custom_group

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Pod


class CustomGroups:
    """What the plugins of some profiles say together."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._by_scheduler: dict[str, list[CustomGroupsPlugin]] = {}
        self.plugins: dict[str, CustomGroupsPlugin] = {}
        """By API group: the plugin of the first profile that has one."""
        for profile in profiles:
            found = [plugin for plugin in profile.pre_enqueue if isinstance(plugin, CustomGroupsPlugin)]
            if found:
                self._by_scheduler[profile.name] = found
            for plugin in found:
                self.plugins.setdefault(plugin.api_group, plugin)

    def __bool__(self) -> bool:
        return bool(self.plugins)

    def joined(self, pod: Pod) -> Pod:
        """The pod as a member of its custom group; as it is if it names none, or names a pod group of Kubernetes."""
        origin, name = self._group_of(pod)
        return in_custom_group(pod, origin, name) if name else pod

    def key_of(self, pod: Pod) -> str:
        """`namespace/name` of a pod's custom group, as it is kept; empty if it belongs to none."""
        origin, name = self._group_of(pod)
        return f"{pod.metadata.namespace}/{custom_name(origin, name)}" if name else ""

    def _group_of(self, pod: Pod) -> tuple[str, str]:
        """API group and name of the custom group that a pod names; an empty name if it names none."""
        if not self._by_scheduler or pod.spec.scheduling_group is not None:
            return "", ""
        for plugin in self._by_scheduler.get(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME, ()):
            name = plugin.group_name(pod)
            if name:
                return plugin.api_group, name
        return "", ""

    def group_from(self, tree: Mapping[str, Any]) -> CustomPodGroup | None:
        """A group from a plain dict; None if no plugin knows it. Raises MalformedGroup."""
        plugin = self.plugins.get(str(tree.get("apiVersion", "")).partition("/")[0])
        if plugin is None or tree.get("kind") != plugin.kind:
            return None
        given = tree.get("metadata") or {}
        metadata = meta_v1.ObjectMeta(
            name=str(given.get("name", "")),
            namespace=str(given.get("namespace") or "default"),
            annotations=dict(given.get("annotations") or {}),
        )
        return plugin.read_group(metadata, tree)

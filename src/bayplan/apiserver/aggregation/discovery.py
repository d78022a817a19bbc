"""What other servers have: read from their discovery documents, and shown among what this server has itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from bayplan.api.kinds import version_priority
from bayplan.apiserver.aggregation.registry import ApiService, GroupVersion, RemoteApi, ResourceRow

_CUSTOM_PRIORITY = 1000
"""`groupPriorityMinimum` of the groups of custom resources."""


class ResourceList(msgspec.Struct, rename="camel"):
    """An APIResourceList."""

    group_version: str = ""
    resources: tuple[ResourceRow, ...] = ()


def read_resources(body: bytes, group_version: str) -> tuple[ResourceRow, ...]:
    """The resources of a group version in the answer of its server. Raises ValueError."""
    found = msgspec.json.decode(body, type=ResourceList)
    if found.group_version != group_version:
        raise ValueError(f"it is about {found.group_version!r}")
    return found.resources


def merged_groups(
    own: Mapping[str, list[str]], services: Mapping[GroupVersion, ApiService], custom: Iterable[str]
) -> dict[str, list[str]]:
    """Group -> versions in order of preference, of this server and of others. custom: groups of this server that are of custom resources alone."""
    if not services:
        return dict(own)
    customs = set(custom)
    priorities = dict.fromkeys(customs, _CUSTOM_PRIORITY)
    versions = {group: list(found) for group, found in own.items()}
    for (group, version), service in services.items():
        if group in customs or group not in own:
            priorities[group] = max(priorities.get(group, 0), service.spec.group_priority_minimum)
        if version not in versions.setdefault(group, []):
            versions[group].append(version)
    for group in {group for group, _ in services}:
        ranks = {version: -services[group, version].spec.version_priority for _, version in services if _ == group}
        if group not in own:
            versions[group].sort(key=lambda version: (ranks.get(version, 0), *version_priority(version)))
    fixed = [group for group in own if group not in customs]
    return {group: versions[group] for group in (*fixed, *sorted(priorities, key=lambda one: (-priorities[one], one)))}


def remote_version(version: str, remote: RemoteApi) -> dict[str, Any]:
    """A version of another server's group in the aggregated form of discovery."""
    resources = {row.name: _resource(row) for row in remote.rows if "/" not in row.name}
    for row in remote.rows:
        parent, slash, name = row.name.partition("/")
        if slash:
            resource = resources.setdefault(parent, {"resource": parent, "scope": _scope(row), "verbs": ()})
            shown = {"subresource": name, "responseKind": _kind(row), "verbs": row.verbs}
            resource.setdefault("subresources", []).append(shown)
    freshness = "Current" if remote.is_current else "Stale"
    return {"version": version, "resources": list(resources.values()), "freshness": freshness}


def _resource(row: ResourceRow) -> dict[str, Any]:
    found: dict[str, Any] = {
        "resource": row.name,
        "responseKind": _kind(row),
        "scope": _scope(row),
        "singularResource": row.singular_name,
        "verbs": row.verbs,
    }
    if row.short_names:
        found["shortNames"] = row.short_names
    if row.categories:
        found["categories"] = row.categories
    return found


def _scope(row: ResourceRow) -> str:
    return "Namespaced" if row.namespaced else "Cluster"


def _kind(row: ResourceRow) -> dict[str, str]:
    return {"group": row.group, "version": row.version, "kind": row.kind}

"""The patch and the commands that make the changes of a fix.

The patch is a strategic merge patch, what `kubectl patch` takes by default, and has nothing but the fields that change:
containers and volumes are named, so that what a copy does not hold of them stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bayplan.api.codec import to_tree
from bayplan.api.types import core_v1
from bayplan.simulation.fixes.base import Change

_BY_NAME: Final = frozenset({"containers", "initContainers", "volumes", "schedulingGates"})
"""Lists whose items are merged by name."""
_MERGED: Final = frozenset({"ports", "topologySpreadConstraints"})
"""Lists that are merged by other keys; they are replaced as a whole."""
_INJECTED: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that the API server lets every pod tolerate for a while; templates need not say so."""
_FIXED_TEMPLATES: Final = frozenset({"Job"})


def spec_patch(before: core_v1.PodSpec, after: core_v1.PodSpec) -> dict[str, Any]:
    """The strategic merge patch from one pod spec to another; empty if they are equal."""
    old, new = to_tree(before), to_tree(after)
    patch = _difference(old, new)
    if "tolerations" in patch:
        patch["tolerations"] = [
            one for one in new["tolerations"] if one.get("key") not in _INJECTED or one.get("tolerationSeconds") is None
        ]
    return patch


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = _difference(before, value)
        elif name in _BY_NAME and isinstance(before, list):
            patch[name] = _named(before, value)
        elif name in _MERGED:
            patch[name] = [*value, {"$patch": "replace"}]
        else:
            patch[name] = value
    for name in _BY_NAME & patch.keys():
        if patch[name] is None:
            patch[name] = _named(old[name], [])
    return patch


def _named(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What changes in items that have names."""
    left = {one["name"]: one for one in new}
    changed = []
    for one in old:
        name = one["name"]
        if name not in left:
            changed.append({"name": name, "$patch": "delete"})
        elif left[name] != one:
            changed.append({"name": name, **_difference(one, left[name])})
    return changed


def commands_for(
    pod: core_v1.Pod, owner: tuple[str, str], changes: Sequence[Change], patch: dict[str, Any]
) -> tuple[str, ...]:
    """The commands of kubectl that make some changes; for what kubectl cannot do, a comment says what to do.

    owner: kind and name of what makes such pods; empty for a pod of its own.
    """
    import msgspec

    namespace = pod.metadata.namespace or "default"
    commands = [str(change.detail["command"]) for change in changes if "command" in change.detail]
    for change in changes:
        if change.kind == "evict":
            commands += [
                f"kubectl delete pod {key.partition('/')[2]} -n {key.partition('/')[0]}"
                for key in change.detail["pods"]
            ]
        elif change.kind == "add-node":
            commands.append(f"# {change.text}")
    if not patch:
        return tuple(commands)
    kind, name = owner
    if not kind or kind in _FIXED_TEMPLATES:
        what = f"{kind.lower()} {name}" if kind else f"pod {pod.metadata.name}"
        text = msgspec.json.encode({"spec": patch if not kind else {"template": {"spec": patch}}}).decode()
        commands.append(f"# the spec of {what} cannot be changed: delete it and make it again with {text}")
    else:
        text = msgspec.json.encode({"spec": {"template": {"spec": patch}}}).decode()
        commands.append(
            f"kubectl patch {kind.lower()} {name} -n {namespace} -p '{text.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'"
        )
    return tuple(commands)

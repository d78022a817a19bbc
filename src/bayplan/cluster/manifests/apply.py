"""Putting manifests into a cluster as `kubectl apply` does: create what is missing, merge into what is there, remember what was applied.

The annotation `kubectl.kubernetes.io/last-applied-configuration` is the one of kubectl, so that both can take turns on one object.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bayplan.api.codec import encode
from bayplan.api.errors import ApiError
from bayplan.api.kinds import Kind
from bayplan.api.schema import definition_of, definitions
from bayplan.client import Client
from bayplan.client.client import MERGE_PATCH, STRATEGIC_PATCH
from bayplan.client.discovery import find_kind
from bayplan.cluster.manifests.apply_patch import merge_apply_patch, strategic_apply_patch
from bayplan.cluster.manifests.reading import ManifestError, read_manifests
from bayplan.cluster.manifests.unserved import UnservedKinds, is_custom, meant

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FIRST = (
    "Namespace",
    "CustomResourceDefinition",
    "LimitRange",
    "ResourceQuota",
    "PriorityClass",
    "StorageClass",
    "ServiceAccount",
)
_STRICT = {"fieldValidation": "Strict", "fieldManager": "bayplan-up"}
_ESCAPED = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}

_LOOKS, _PAUSE = 100, 0.05
"""How often, and how many seconds apart, it is looked whether a definition is in force."""

Tree = dict[str, Any]


async def apply_manifests(
    client: Client, objects: Iterable[tuple[Path, Tree]], unserved: UnservedKinds | None = None
) -> int:
    """Create or update all objects, those that others need first. Returns their number. Raises ManifestError.

    unserved: objects of custom kinds that the server does not serve are left out and counted there. Without it such an object is an error.
    """
    applied = 0
    for file, obj in in_order(objects):
        applied += await _apply_one(client, file, obj, unserved)
    return applied


def nothing_served(client: Client, objects: Iterable[tuple[Path, Tree]]) -> bool:
    """Whether all objects are of custom kinds that the server does not serve."""
    kinds = {(obj["apiVersion"], obj["kind"]) for _, obj in objects}
    return all(client.kinds.of_kind(*kind) is None and is_custom(*kind) for kind in kinds)


def in_order(objects: Iterable[tuple[Path, Tree]]) -> list[tuple[Path, Tree]]:
    """The objects, those that others need or that bound others first."""
    return sorted(objects, key=lambda pair: _FIRST.index(pair[1]["kind"]) if pair[1]["kind"] in _FIRST else len(_FIRST))


def last_applied(obj: Tree) -> str:
    """The annotation's value for a manifest: compact JSON with sorted keys and a line end, without the annotation itself."""
    metadata = obj.get("metadata") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    bare = {**obj, "metadata": {**metadata, "annotations": annotations}}
    return json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPED) + "\n"


def annotated(obj: Tree) -> Tree:
    """A manifest that remembers itself."""
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), LAST_APPLIED: last_applied(obj)}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def apply_patch(kind: Kind, live: Tree, obj: Tree) -> tuple[Tree, str]:
    """The patch that brings a live object to an (annotated) manifest, and its type."""
    before = _applied_before(live)
    definition = "" if kind.is_custom else definition_of(kind.type)
    if definition in definitions():
        return strategic_apply_patch(before, obj, definition), STRATEGIC_PATCH
    return merge_apply_patch(before, obj), MERGE_PATCH


def _applied_before(live: Tree) -> Tree:
    """What was applied last time, with the annotation; empty if the object was made in another way."""
    text = live.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED, "")
    try:
        before = json.loads(text) if text else {}
    except ValueError:
        return {}
    return before if isinstance(before, dict) else {}


async def _apply_one(client: Client, file: Path, obj: Tree, unserved: UnservedKinds | None) -> bool:
    """Returns whether the object was applied and not left out."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name")
    shown = f"{file}: {obj['kind']} {name or metadata.get('generateName') or '?'}"
    kind = client.kinds.of_kind(obj["apiVersion"], obj["kind"]) or await _custom_kind(client, shown, obj)
    if kind is None:
        if unserved is not None and is_custom(obj["apiVersion"], obj["kind"]):
            unserved.add(obj["apiVersion"], obj["kind"])
            return False
        raise ManifestError(f"{shown}: this server has no {obj['kind']} in {obj['apiVersion']}{_hint(obj)}")
    namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
    if namespace:
        metadata = {**metadata, "namespace": namespace}
    obj = {**obj, "metadata": metadata}
    try:
        if not name:
            await client.raw("POST", kind.path(namespace), _STRICT, encode(obj))
        else:
            await _create_or_merge(client, kind, namespace, name, annotated(obj))
        if kind.kind == "CustomResourceDefinition":
            await _served(client, obj)
    except ApiError as error:
        raise ManifestError(f"{shown}: {error.message}") from error
    return True


async def _custom_kind(client: Client, shown: str, obj: Tree) -> Kind | None:
    """The kind, if the server serves it as a custom one. Raises ManifestError."""
    try:
        return await find_kind(client, obj["apiVersion"], obj["kind"])
    except ApiError as error:
        raise ManifestError(f"{shown}: {error.message}") from error


async def _served(client: Client, definition: Tree) -> None:
    """Wait until a definition is in force, so that what comes next may use it. Raises ManifestError if it does not come to that."""
    spec = definition["spec"]
    versions = [f"{spec['group']}/{one['name']}" for one in spec["versions"] if one.get("served")]
    if not versions:
        return
    for _ in range(_LOOKS):
        if await find_kind(client, versions[0], spec["names"]["kind"]) is not None:
            return
        await asyncio.sleep(_PAUSE)
    raise ManifestError(
        f"CustomResourceDefinition {definition['metadata']['name']}: it is not established; see its conditions"
    )


def _hint(obj: Tree) -> str:
    found = meant(obj["apiVersion"], obj["kind"])
    return f"; did you mean {found.kind} in {found.api_version}?" if found is not None else ""


async def _create_or_merge(client: Client, kind: Kind, namespace: str, name: str, obj: Tree) -> None:
    path = kind.path(namespace, name)
    live = await _live(client, path)
    if live is None:
        try:
            await client.raw("POST", kind.path(namespace), _STRICT, encode(obj))
            return
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        live = (
            await _live(client, path) or {}
        )  # somebody was faster, such as the controller that makes default accounts
    patch, content_type = apply_patch(kind, live, obj)
    await client.raw("PATCH", path, _STRICT, encode(patch), content_type)


async def _live(client: Client, path: str) -> Tree | None:
    try:
        live: Tree = json.loads(await client.raw("GET", path))
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return live


__all__ = [
    "ManifestError",
    "apply_manifests",
    "apply_patch",
    "in_order",
    "last_applied",
    "nothing_served",
    "read_manifests",
]

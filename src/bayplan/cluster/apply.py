"""Putting manifests into a cluster as `kubectl apply` does: create what is missing, merge into what is there, remember what was applied.

The annotation `kubectl.kubernetes.io/last-applied-configuration` is the one of kubectl, so that both can take turns on one object.
"""

from __future__ import annotations

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
from bayplan.cluster.apply_patch import merge_apply_patch, strategic_apply_patch
from bayplan.cluster.manifests import ManifestError, read_manifests

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

Tree = dict[str, Any]


async def apply_manifests(client: Client, objects: Iterable[tuple[Path, Tree]]) -> int:
    """Create or update all objects, those that others need first. Returns their number. Raises ManifestError."""
    ordered = in_order(objects)
    for file, obj in ordered:
        await _apply_one(client, file, obj)
    return len(ordered)


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
    definition = definition_of(kind.type) if kind.type is not None else ""
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


async def _apply_one(client: Client, file: Path, obj: Tree) -> None:
    metadata = obj.get("metadata") or {}
    name = metadata.get("name")
    shown = f"{file}: {obj['kind']} {name or metadata.get('generateName') or '?'}"
    kind = client.kinds.of_kind(obj["apiVersion"], obj["kind"])
    if kind is None:
        raise ManifestError(f"{shown}: this server has no {obj['kind']} in {obj['apiVersion']}")
    namespace = (metadata.get("namespace") or "default") if kind.namespaced else ""
    if namespace:
        metadata = {**metadata, "namespace": namespace}
    obj = {**obj, "metadata": metadata}
    try:
        if not name:
            await client.raw("POST", kind.path(namespace), _STRICT, encode(obj))
        else:
            await _create_or_merge(client, kind, namespace, name, annotated(obj))
    except ApiError as error:
        raise ManifestError(f"{shown}: {error.message}") from error


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


__all__ = ["ManifestError", "apply_manifests", "apply_patch", "in_order", "last_applied", "read_manifests"]

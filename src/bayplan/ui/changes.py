"""The changes that a page may make if it was started with `--allow-changes`: the pod template of a workload gets the patch of a fix."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from bayplan.api.errors import ApiError
from bayplan.client.client import STRATEGIC_PATCH
from bayplan.client.errors import TransportError
from bayplan.ui.cluster_source import ClusterSource, kind_of
from bayplan.ui.errors import RequestError
from bayplan.ui.questions import named

PATCHED: Final = frozenset({"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController"})
"""Kinds whose pod template may be changed."""


async def patch_template(cluster: ClusterSource, change: Any, *, allowed: bool) -> str:
    """Patch the pod template of a workload. change: `kind`, `namespace`, `name`, `patch` (a strategic merge patch of the pod's spec). Returns what was
    done. Raises RequestError."""
    if not allowed:
        raise RequestError(403, "this page is read-only; start bayplan with --allow-changes")
    if cluster.client is None:
        raise RequestError(403, "a copy cannot be changed")
    if not isinstance(change, dict) or change.get("kind") not in PATCHED or not isinstance(change.get("patch"), dict):
        raise RequestError(400, f"a kind ({', '.join(sorted(PATCHED))}), a namespace, a name and a patch are expected")
    kind = kind_of(cluster, change["kind"])
    path = kind.path(named(change.get("namespace")), named(change.get("name")))
    body = msgspec.json.encode({"spec": {"template": {"spec": change["patch"]}}})
    try:
        await cluster.client.raw("PATCH", path, {"fieldManager": "bayplan-ui"}, body, STRATEGIC_PATCH)
    except ApiError as error:
        raise RequestError(error.code if error.code in (403, 404, 409, 422) else 502, error.message) from error
    except TransportError as error:
        raise RequestError(502, str(error)) from error
    return f"{kind.kind} {change['namespace']}/{change['name']} is patched"

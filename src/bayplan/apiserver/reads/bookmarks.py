"""BOOKMARK events: how far a watch is, and that what was there at its start has been sent."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from bayplan.api.codec import encode
from bayplan.api.kinds import Kind
from bayplan.apiserver.reads.watching import Entry

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
DEPRECATED_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


def bookmark_entry(stored: Kind, revision: int, *, ends_initial_events: bool = False) -> Entry:
    """The object of a BOOKMARK event: an empty one, of the kind in whose version objects are kept, with a resourceVersion."""
    annotations = {INITIAL_EVENTS_END: "true"} if ends_initial_events else {}
    if (stored.group, stored.kind) == ("apps", "DaemonSet"):
        annotations = {DEPRECATED_TEMPLATE_GENERATION: "0", **annotations}  # a field of the internal type
    metadata: dict[str, Any] = {"resourceVersion": str(revision)} | (
        {"annotations": annotations} if annotations else {}
    )
    body = msgspec.json.encode({"metadata": metadata})[1:-1]
    return Entry("", "", revision, revision, body + (b"}" if stored.is_custom else _rest_of_empty(stored)), {}, {}, "")


@cache
def _rest_of_empty(kind: Kind) -> bytes:
    """What follows the metadata of an empty object of a built-in kind, as Go writes one of the internal type: lists are null."""
    return encode(empty_object(kind)).replace(b"[]", b"null").removeprefix(b'{"metadata":{}')


def empty_object(kind: Kind) -> Any:
    """A new empty object of a built-in kind: what a bookmark shows, but for its metadata."""
    obj = kind.type()
    if (kind.group, kind.kind) in _COUNTING:
        obj.spec.replicas = 0
    return obj


_COUNTING: Final = (("apps", "Deployment"), ("apps", "ReplicaSet"), ("apps", "StatefulSet"))
"""Kinds whose internal type has a number of replicas where the published one may have none."""

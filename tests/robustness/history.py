"""What clients did and were told, and what really happened.

Objects are ConfigMaps of one namespace. Every write has a token of its own and adds it to `data`; no writer takes one out. So an object tells which writes
made it, in which order they came, and whether one was lost or made twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"
"""Outcomes of a request: acknowledged, refused by a 4xx, or no telling (5xx, a lost connection, a deadline)."""
NAMESPACE = "robust"
_FOLDER = f"/api/v1/namespaces/{NAMESPACE}"
PATH, SERVICES, SECRETS, QUOTAS = (
    f"{_FOLDER}/{plural}" for plural in ("configmaps", "services", "secrets", "resourcequotas")
)
KEYS = f"/registry/configmaps/{NAMESPACE}/"
SERVICE_KEYS, SECRET_KEYS = "/registry/services/specs/", f"/registry/secrets/{NAMESPACE}/"
MOST_SECRETS = 5
"""As many as the quota permits. Nobody deletes any."""


@dataclass(frozen=True, slots=True)
class Version:
    """An object as of one revision."""

    revision: int
    uid: str
    tokens: frozenset[str]


@dataclass(frozen=True, slots=True)
class Change:
    """One change that really happened to an object. `now` and `before`: None where there is none."""

    revision: int
    name: str
    now: Version | None
    before: Version | None


@dataclass(slots=True)
class Write:
    """A request that changes something. Times are seconds of one clock for all clients."""

    client: str
    verb: str
    """create, update, patch or delete"""
    name: str
    token: str
    started: float
    base: int = 0
    """The revision that an update was made of, 0 for other verbs."""
    ended: float = 0.0
    outcome: str = UNKNOWN
    code: int = 0
    revision: int = 0
    """As the answer tells; 0 for deletes, whose answers do not."""
    uid: str = ""


@dataclass(slots=True)
class Read:
    """A get (of `name`) or a list."""

    client: str
    name: str
    started: float
    at_least: int = 0
    """The resourceVersion that was asked for, "not older than"; 0 for the present."""
    ended: float = 0.0
    outcome: str = UNKNOWN
    code: int = 0
    revision: int = 0
    """That of the list, or of the object."""
    items: dict[str, Version] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seen:
    """An event of a watch. `version`: None for a bookmark; of a deletion, the last state."""

    time: float
    kind: str
    name: str
    revision: int
    version: Version | None


@dataclass(slots=True)
class Session:
    """All that an informer was told from one list on, over any number of watches, each of which went on where the last one ended."""

    client: str
    start: int
    events: list[Seen] = field(default_factory=list)


@dataclass(slots=True)
class History:
    """All that the clients did and were told."""

    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    servers_errors: list[str] = field(default_factory=list)
    """Answers with a 500: there is no excuse for those."""


def version_of(tree: dict[str, Any]) -> Version:
    """An object of an answer."""
    metadata = tree["metadata"]
    return Version(int(metadata["resourceVersion"]), metadata["uid"], frozenset(tree.get("data") or ()))


def changes_of(raw: Iterable[tuple[int, list[Any]]]) -> list[Change]:
    """What happened to the objects, from etcd's events: (revision, mvccpb.Event messages) in order."""
    found: list[Change] = []
    known: dict[str, Version] = {}
    for revision, events in raw:
        for event in events:
            key = event.kv.key.decode()
            if not key.startswith(KEYS):
                continue
            name, before = key.removeprefix(KEYS), known.get(key)
            now = None
            if not event.type:
                tree = msgspec.json.decode(event.kv.value)
                now = Version(revision, tree["metadata"]["uid"], frozenset(tree.get("data") or ()))
                known[key] = now
            else:
                known.pop(key, None)
            found.append(Change(revision, name, now, before))
    return found

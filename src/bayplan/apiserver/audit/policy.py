"""How much of a request is recorded: the rules of an audit policy. Pure.

Source: `audit.k8s.io/v1` `Policy`; `k8s.io/apiserver/pkg/audit/policy/checker.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from bayplan.apiserver.authorization.attributes import Attributes

REQUEST_RECEIVED = "RequestReceived"
RESPONSE_STARTED = "ResponseStarted"
RESPONSE_COMPLETE = "ResponseComplete"
PANIC = "Panic"
STAGES = (REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC)
_ANY = "*"


class Level(IntEnum):
    """How much is recorded; each level has what those below it have."""

    NONE = 0
    METADATA = 1
    REQUEST = 2
    """With the object in the request."""
    REQUEST_RESPONSE = 3
    """And with that in the answer."""

    @property
    def word(self) -> str:
        """As policies and events name it."""
        return _WORDS[self]


_WORDS = ("None", "Metadata", "Request", "RequestResponse")
LEVELS = {level.word: level for level in Level}


class Decision(NamedTuple):
    """What a policy says of a request."""

    level: Level
    omitted: frozenset[str] = frozenset()
    """Stages without an event."""
    omits_managed_fields: bool = False


UNRECORDED = Decision(Level.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupResources:
    """Resources of a group."""

    group: str = ""
    """`*` for all groups."""
    resources: Sequence[str] = ()
    """`pods`, `pods/log`, `pods/*`, `*/scale`, `*`; none for all of the group."""
    names: frozenset[str] = frozenset()
    """Names of objects; none for all."""

    def matches(self, asked: Attributes) -> bool:
        """Whether a request is about one of these."""
        if self.group not in (asked.group, _ANY):
            return False
        if not self.resources:
            return True
        if self.names and asked.name not in self.names:
            return False
        return any(_resource_matches(one, asked) for one in self.resources)


def _resource_matches(rule: str, asked: Attributes) -> bool:
    if rule in (_ANY, asked.combined):
        return True
    if asked.subresource and rule == f"*/{asked.subresource}":
        return True
    return rule == f"{asked.resource}/*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Which requests are recorded at a level. What is empty fits all."""

    decision: Decision
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: Sequence[GroupResources] = ()
    namespaces: frozenset[str] = frozenset()
    """"" stands for what belongs to no namespace."""
    paths: Sequence[str] = ()
    """Of what is no resource; a `*` at the end stands for the rest."""

    def matches(self, asked: Attributes) -> bool:
        """Whether a request is one of these."""
        if self.users and asked.user.name not in self.users:
            return False
        if self.groups and self.groups.isdisjoint(asked.user.groups):
            return False
        if self.verbs and asked.verb not in self.verbs:
            return False
        if self.namespaces or self.resources:
            return self._resource_matches(asked)
        if self.paths:
            return not asked.is_resource and any(_path_matches(one, asked.path) for one in self.paths)
        return True

    def _resource_matches(self, asked: Attributes) -> bool:
        if not asked.is_resource or (self.namespaces and asked.namespace not in self.namespaces):
            return False
        return not self.resources or any(one.matches(asked) for one in self.resources)


def _path_matches(rule: str, path: str) -> bool:
    return rule in (_ANY, path) or (rule.endswith(_ANY) and path.startswith(rule.rstrip(_ANY)))


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order."""

    rules: tuple[Rule, ...]
    default: Decision = UNRECORDED
    """For requests that no rule fits."""

    def decide(self, asked: Attributes) -> Decision:
        """What the first rule says that fits."""
        for rule in self.rules:
            if rule.matches(asked):
                return rule.decision
        return self.default

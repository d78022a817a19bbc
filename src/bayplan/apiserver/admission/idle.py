"""Plugins that let requests pass without a look at the object, which most of them do with most requests: they are not asked about these one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bayplan.apiserver.admission.chain import CREATE, DELETE, Plan, Step
from bayplan.apiserver.admission.observation import ObservedRequest, Reads, Untouched, ask
from bayplan.support.memory.memo import Memo

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

_MOST_BYTES: Final = 4 << 20
_ENTRY_BYTES: Final = 1000


class _Asked(NamedTuple):
    """What plugins said to requests that have resource, operation, subresource, namespace and user in common."""

    reads: Reads
    """By which they decided whether to look at the object."""
    left: Plan
    """The steps of those that look."""


class IdleAdmission:
    """What is known of idle plugins, for one API server."""

    def __init__(self) -> None:
        self._asked: Memo[tuple[str, str, str, str, str], _Asked] = Memo("idle_admission", most_bytes=_MOST_BYTES)

    def plan(self, call: Call, operation: str, subresource: str = "") -> Plan:
        """The steps of plugins that have to be asked about such a request."""
        user = call.request.user
        key = (call.stored.storage_prefix, operation, subresource, call.path.namespace, user.name)
        asked = self._asked.get(key)
        if asked is None or not asked.reads.hold(user):
            asked = _ask_all(call, operation, subresource)
            self._asked.put(key, asked, _ENTRY_BYTES)
        return asked.left

    def lets_pass(self, call: Call, operation: str, subresource: str = "") -> bool:
        """Whether such a request passes as it is, whatever object it is about."""
        return self.plan(call, operation, subresource).is_empty


def _ask_all(call: Call, operation: str, subresource: str) -> _Asked:
    """Ask each plugin about some object that it cannot look at."""
    plan = call.context.admission.plan(call.stored, operation, subresource)
    reads, obj = Reads(), Untouched()
    new, old = (None if operation == DELETE else obj), (None if operation == CREATE else obj)

    def looks(step: Step) -> bool:
        own = Reads()
        passes = ask((step,), ObservedRequest(call, operation, new, old, subresource, own))
        reads.add(own)
        return not passes or bool(own.drawn)

    return _Asked(reads, Plan(tuple(filter(looks, plan.mutating)), tuple(filter(looks, plan.validating))))

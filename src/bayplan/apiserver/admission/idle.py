"""Requests that admission lets pass without a look at the object, which is most of them: no plugin is asked about these one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bayplan.apiserver.admission.chain import CREATE, DELETE
from bayplan.apiserver.admission.observation import ObservedRequest, Reads, Untouched, ask
from bayplan.support.memo import Memo

if TYPE_CHECKING:
    from bayplan.apiserver.context import Call

_MOST_BYTES: Final = 4 << 20
_ENTRY_BYTES: Final = 500


class IdleAdmission:
    """What admission decides by that such requests pass, whatever the object; by resource, operation, subresource, namespace and user."""

    def __init__(self) -> None:
        self._reads: Memo[tuple[str, str, str, str, str], Reads] = Memo("idle_admission", most_bytes=_MOST_BYTES)

    def lets_pass(self, call: Call, operation: str, subresource: str = "") -> bool:
        """Whether a request passes as it is, whatever object it is about."""
        user = call.request.user
        key = (call.stored.storage_prefix, operation, subresource, call.path.namespace, user.name)
        reads = self._reads.get(key)
        if reads is None or not reads.hold(user):
            reads = _asked(call, operation, subresource)
            self._reads.put(key, reads, _ENTRY_BYTES)
        return reads.is_repeatable and not reads.drawn


def _asked(call: Call, operation: str, subresource: str) -> Reads:
    """Ask all plugins about some object that they cannot look at."""
    plan = call.context.admission.plan(call.stored, operation, subresource)
    reads = Reads()
    obj = Untouched()
    request = ObservedRequest(
        call,
        operation,
        None if operation == DELETE else obj,
        None if operation == CREATE else obj,
        subresource,
        reads,
    )
    ask((*plan.mutating, *plan.validating), request)
    return reads

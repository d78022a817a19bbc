"""Requests whose write is submitted without waiting for its commit: changes of pods and pod groups that the write memo knows (see `write_memo`), and
writes that repeat an earlier one but for times (`repeated_writes`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from bayplan.apiserver.admission.chain import DELETE
from bayplan.apiserver.context import Call
from bayplan.apiserver.objects import SubmittedWrite
from bayplan.apiserver.requests import Request
from bayplan.apiserver.subresources import binding
from bayplan.apiserver.writes.write_memo import STATUS
from bayplan.store.errors import Conflict

_RESOURCES: Final = frozenset(("pods", "podgroups", "leases"))


class SubmittedRequest(NamedTuple):
    """A request whose write is submitted."""

    code: int
    """HTTP status code of its response."""
    write: SubmittedWrite


def may_submit(request: Request) -> bool:
    """Whether it is worth while to try. Requests whose response is read, or that impersonate, take the slow path."""
    if request.reads_answer or request.impersonation is not None:
        return False
    return request.info.resource in _RESOURCES and request.info.name != ""


def submit(call: Call) -> SubmittedRequest | None:
    """Submit the write of a request; None if only the slow path can do it. Raises ApiError."""
    verb, subresource = call.path.verb, call.path.subresource
    name = subresource.name if subresource is not None else ""
    memo = call.context.write_memo
    if verb in ("update", "patch") and not name:
        return _repeated(call)
    removes = verb == "delete" and not name
    code = 200
    if verb == "patch" and name == "status":
        change = memo.change(call, STATUS)
    elif removes:
        change = memo.change(call, DELETE)
    elif verb == "create" and name == "binding":
        change, code = binding.known_change(call), 201
    else:
        return None
    if change is None:
        return None
    try:
        write = change.submit(removes=removes)
    except Conflict:
        return None
    return None if write is None else SubmittedRequest(code, write)


def _repeated(call: Call) -> SubmittedRequest | None:
    """The same for a write of the object itself."""
    context = call.context
    repeated = context.repeated_writes.find(call)
    if repeated is None:
        return None
    try:
        write = repeated.submit()
    except Conflict:
        return None
    return None if write is None else SubmittedRequest(200, write)

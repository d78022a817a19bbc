"""Requests that have begun before anybody waits: changes of pods that are made to one after the other (see `repeated_changes`)."""

from __future__ import annotations

from typing import NamedTuple

from bayplan.apiserver.admission.chain import DELETE
from bayplan.apiserver.context import Call
from bayplan.apiserver.objects import Writing
from bayplan.apiserver.repeated_changes import STATUS
from bayplan.apiserver.requests import Request
from bayplan.apiserver.subresources import binding
from bayplan.store.errors import Conflict


class Begun(NamedTuple):
    """What a request does."""

    code: int
    """HTTP status code of its answer."""
    writing: Writing


def may_begin(request: Request) -> bool:
    """Whether it is worth while to look closer. Who reads the answer, or asks as somebody else, waits for it."""
    if request.reads_answer or request.impersonation is not None:
        return False
    return request.info.resource == "pods" and request.info.name != ""


def begin(call: Call) -> Begun | None:
    """Begin with what a request asks for; None if that is to be done the long way. Raises ApiError."""
    verb, subresource = call.path.verb, call.path.subresource
    name = subresource.name if subresource is not None else ""
    memory = call.context.repeated_changes
    removes = verb == "delete" and not name
    code = 200
    if verb == "patch" and name == "status":
        change = memory.change(call, STATUS)
    elif removes:
        change = memory.change(call, DELETE)
    elif verb == "create" and name == "binding":
        change, code = binding.known_change(call), 201
    else:
        return None
    if change is None:
        return None
    try:
        writing = change.begin(removes=removes)
    except Conflict:
        return None
    return None if writing is None else Begun(code, writing)

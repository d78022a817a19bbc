"""Requests that are begun without waiting for those before them: changes of pods that are made to one after the other."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from bayplan.apiserver.admission.chain import DELETE
from bayplan.apiserver.context import Call
from bayplan.apiserver.repeated_changes import STATUS
from bayplan.apiserver.watching import Entry
from bayplan.store.errors import Conflict


def begin(call: Call) -> Coroutine[Any, Any, Entry] | None:
    """What a request is going to do, which has begun when this returns. None if it is to be done the long way. Raises ApiError."""
    method, subresource = call.request.method, call.path.subresource
    removes = method == "DELETE" and subresource is None
    if not (removes or (method == "PATCH" and subresource is not None and subresource.name == "status")):
        return None
    change = call.context.repeated_changes.change(call, DELETE if removes else STATUS)
    if change is None:
        return None
    try:
        return change.begin(removes=removes)
    except Conflict:
        return None

"""Empty values in messages: Go tells lists and maps that a client has sent empty from missing ones, typed objects here do not.

So where a message would say `null` of a field, the body of the request is asked whether it has `{}` or `[]` there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bayplan.api.errors import ErrorType, FieldError
from bayplan.apiserver.requests import Request

_STEP: Final = re.compile(r"([A-Za-z]\w*)|\[(\d+)\]")
_NO_RULES: Final = re.compile(rb'"rules"\s*:\s*\[\s*\]')
"""In the body of an Ingress, whose rules an error of its spec shows."""
_WHOLE_OBJECT: Final = ("POST", "PUT")
"""Methods whose bodies are objects, not changes of them."""


def as_given(errors: Sequence[FieldError], obj: Any, request: Request) -> list[FieldError]:
    """The errors of a request's object; values that are shown as null are shown as `{}` or `[]` where the request has that. obj: what the request's body says."""
    if not any(map(_shows_null, errors)):
        return list(errors)
    if _NO_RULES.search(request.body) is not None:
        errors = [
            msgspec.structs.replace(error, value=[]) if error.field == "spec" and _shows_null(error) else error
            for error in errors
        ]
    if request.method not in _WHOLE_OBJECT:
        return list(errors)
    try:
        tree = msgspec.json.decode(request.body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # another form, which does not keep the difference
        return list(errors)
    return [_error_as_given(error, obj, tree) if _shows_null(error) else error for error in errors]


def _shows_null(error: FieldError) -> bool:
    return error.type in (ErrorType.INVALID, ErrorType.NOT_SUPPORTED) and error.value is None


def _error_as_given(error: FieldError, obj: Any, tree: Any) -> FieldError:
    found, typed = tree, obj
    for name, index in _STEP.findall(error.field):
        if name and isinstance(found, dict):
            found, typed = found.get(name), _member(typed, name)
        elif index and isinstance(found, list) and int(index) < min(len(found), len(typed or ())):
            found, typed = found[int(index)], typed[int(index)]
        else:
            return error
    shows_part = isinstance(typed, msgspec.Struct)  # which is never null itself
    return error if shows_part or found not in ({}, []) else msgspec.structs.replace(error, value=found)


def _member(typed: Any, name: str) -> Any:
    """A member of an object by its name on the wire; None if it is not known."""
    if isinstance(typed, dict):
        return typed.get(name)
    if not isinstance(typed, msgspec.Struct):
        return None
    fields = msgspec.structs.fields(typed)
    return next((getattr(typed, one.name) for one in fields if one.encode_name == name), None)

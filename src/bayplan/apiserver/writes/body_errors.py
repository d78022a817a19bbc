"""Bodies that are no objects at all: what is said of them before anybody looks at the fields of their kind.

Source: apimachinery's `runtime/serializer/json` (`Interpret`), apiserver's `endpoints/handlers/rest.go` (`transformDecodeError`).
"""

from __future__ import annotations

import json
from typing import Final

from bayplan.api.codec import json_type
from bayplan.api.errors import ApiError, bad_request
from bayplan.api.json_syntax import syntax_problem

_HEAD: Final = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_UNREADABLE: Final = "couldn't get version/kind; json parse error: "
_SHOWN: Final = 30
"""So many bytes of a body are told at most."""


def head_problem(data: bytes) -> str:
    """Why kind and version of what should be an object in JSON cannot be told; "" if they can."""
    if problem := syntax_problem(data):
        return _UNREADABLE + problem
    tree = json.loads(data.decode(errors="replace"), parse_int=float)
    if tree is None:
        return ""
    if not isinstance(tree, dict):
        return f"{_UNREADABLE}json: cannot unmarshal {json_type(tree)} into Go value of type {_HEAD}"
    for key, value in tree.items():
        if key in ("kind", "apiVersion") and not isinstance(value, str | None):
            found = f"json: cannot unmarshal {json_type(value)} into Go struct field .{key} of type string"
            return _UNREADABLE + found
    return version_problem(tree.get("apiVersion") or "")


def version_problem(api_version: str) -> str:
    """What is wrong with the form of a version; "" if nothing is."""
    return f"unexpected GroupVersion string: {api_version}" if api_version.count("/") > 1 else ""


class Unrecognized(ApiError):
    """400: what was sent as an object of a kind is none."""

    def __init__(self, kind_name: str, why: str, body: bytes) -> None:
        text = f"the object provided is unrecognized (must be of type {kind_name}): {why} ({_summary(body)})"
        super().__init__(bad_request(text).status)
        self.why = why
        """The reason alone."""


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    begin, more = body[:_SHOWN], " ..." if len(body) > _SHOWN else ""
    return (begin.decode(errors="replace") if body[:1] == b"{" else begin.hex()) + more

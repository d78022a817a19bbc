"""Which answers say that the server is broken. Answers of 5xx are faults but for those that kube-apiserver gives as well, listed with the reason."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.fuzz.wire import Answer


class Expected(NamedTuple):
    """An answer of 5xx that is right."""

    code: int
    message: re.Pattern[bytes]
    reason: str


def _row(code: int, message: bytes, reason: str) -> Expected:
    return Expected(code, re.compile(message), reason)


EXPECTED = (
    _row(
        500,
        b"list element types are not identical",
        "a strategic merge patch with items of another type; its plain error",
    ),
    _row(501, b"Unsupported transfer encoding", "an encoding of a body that there is not; net/http's answer"),
    _row(
        500,
        b"does not contain declared merge key",
        "a strategic merge patch without the key of a list; its plain error",
    ),
    _row(
        500,
        b"failed to create typed patch object",
        "an applied configuration with fields that there are not; the field manager's plain error",
    ),
    _row(
        500,
        b"failed to create manager for existing fields: failed to convert new object .* to smd typed",
        "a configuration applied to an object with list items that have no key; the field manager's plain error",
    ),
    _row(
        500,
        b"failed to convert new object .* to proper version",
        "an applied configuration with values that its Go type cannot hold; the field manager's plain error",
    ),
    _row(505, b"HTTP Version Not Supported", "a version of HTTP that there is not; net/http's answer"),
    _row(
        500,
        b"resourceVersion: Invalid value: ",
        "a resourceVersion of a get that is no number; the storage layer's plain error",
    ),
    _row(
        500,
        b"strconv.ParseUint: parsing",
        "an object's resourceVersion that is no number; the storage layer's plain error",
    ),
    _row(
        500,
        b"invalid resource name .* \\[may not ",
        "a namespace that is no name, which admission looks up; the client library's plain error",
    ),
    _row(
        500,
        b"target.(name|kind): (Required|Unsupported) value",
        "a Binding without a target; its validation is a plain error",
    ),
    _row(500, b"etcdserver: request is too large", "an object larger than etcd takes; etcd's plain error"),
    _row(503, b"no endpoints available for service", "a proxied service that nothing serves"),
    _row(503, b"error trying to reach service", "a proxied address that nothing listens on"),
    _row(503, b"no service port .* found for service", "a proxied service without that port"),
    _row(503, b"runs no containers that", "a simulated node has no kubelet"),
)
"""See the module."""


def is_fault(answer: Answer, *, is_head: bool = False) -> bool:
    """Whether an answer is not one that a working server gives. is_head: it has no body that could say why."""
    if answer.code < 500:
        return False
    text = b" ".join(answer.body.split())  # YAML breaks long lines
    return not any(one.code == answer.code and (is_head or one.message.search(text)) for one in EXPECTED)

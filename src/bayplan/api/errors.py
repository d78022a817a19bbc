"""Errors as Kubernetes gives them: `Status` objects with reason, message and causes, and the field errors they are made of.

Source: apimachinery's `api/errors` and `util/validation/field` packages; the wording is what clients and people see and search for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

from bayplan.api.json.writing import escaped
from bayplan.api.types import meta_v1

MOST_ERRORS = 10_000
"""Errors after which rules may stop: more than `MAX_ERROR_BYTES` lets an answer tell."""


class TooManyErrors(Exception):
    """Rules made more than `MOST_ERRORS` errors, see `stopping_at_many_errors`."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(f"more than {MOST_ERRORS} errors")
        self.errors = errors
        """What was made, in this order."""


_collected: list[FieldError] | None = None
"""What was made inside of `stopping_at_many_errors`."""


@contextlib.contextmanager
def stopping_at_many_errors() -> Iterator[None]:
    """Within, the error that is one too many raises TooManyErrors: a body of 3 MiB can break rules a million times.

    Not for rules that make errors and drop them, such as those of schemas with alternatives. What is within neither waits nor nests.
    """
    global _collected
    _collected = []
    try:
        yield
    finally:
        _collected = None


class ErrorType(Enum):
    """Kind of a field error: the text in messages; `reason` is the one in causes."""

    NOT_FOUND = "Not found"
    REQUIRED = "Required value"
    DUPLICATE = "Duplicate value"
    INVALID = "Invalid value"
    NOT_SUPPORTED = "Unsupported value"
    FORBIDDEN = "Forbidden"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"
    INTERNAL = "Internal error"
    TYPE_INVALID = "Invalid value "

    @property
    def reason(self) -> str:
        """The cause's reason on the wire."""
        return _REASONS[self]


_REASONS = {
    ErrorType.NOT_FOUND: "FieldValueNotFound",
    ErrorType.REQUIRED: "FieldValueRequired",
    ErrorType.DUPLICATE: "FieldValueDuplicate",
    ErrorType.INVALID: "FieldValueInvalid",
    ErrorType.NOT_SUPPORTED: "FieldValueNotSupported",
    ErrorType.FORBIDDEN: "FieldValueForbidden",
    ErrorType.TOO_LONG: "FieldValueTooLong",
    ErrorType.TOO_MANY: "FieldValueTooMany",
    ErrorType.INTERNAL: "InternalError",
    ErrorType.TYPE_INVALID: "FieldValueTypeInvalid",
}
_WITHOUT_VALUE = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


OMITTED: Any = object()
"""Stands for a value that an error does not show, because the field as a whole says nothing about what is wrong."""


class Deferred(msgspec.Struct, frozen=True):
    """A value that costs work to show, which is done when an error tells it: of large objects an answer tells few errors."""

    make: Callable[[], Any]


class FieldError(msgspec.Struct, frozen=True):
    """One thing that is wrong with one field."""

    type: ErrorType
    field: str
    """Path such as `spec.containers[0].name`."""
    value: Any = None
    detail: str = ""
    supported: Sequence[str] | None = None
    """The values that are allowed, for which there is no detail yet: thousands of errors may share a long list."""

    def __post_init__(self) -> None:
        if _collected is not None:
            _collected.append(self)
            if len(_collected) > MOST_ERRORS:
                raise TooManyErrors(_collected)

    @property
    def body(self) -> str:
        """The message without the field."""
        text = self.type.value.rstrip()
        if self.type not in _WITHOUT_VALUE and self.value is not OMITTED:
            text += f": {show_value(self.value)}"
        detail = self.detail if self.supported is None else _supported_text(self.supported)
        return f"{text}: {detail}" if detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def quoted(text: str) -> str:
    """A text in quotes as Go's `%q` writes it."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    text = text.translate(_ESCAPES)
    return f'"{text if text.isprintable() else "".join(map(_escaped, text))}"'


_ESCAPES = {ord(letter): "\\" + short for letter, short in zip('\a\b\f\n\r\t\v"\\', 'abfnrtv"\\', strict=True)}


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show_value(value: Any) -> str:
    """A value as Go prints it in field errors: strings quoted, objects as Go's JSON."""
    if isinstance(value, Deferred):
        value = value.make()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        from bayplan.api.custom_resources.go_values import shown_float  # which quotes as this module does

        return shown_float(value)
    if isinstance(value, TypedText):
        return escaped(msgspec.json.encode(str(value))).decode()
    if isinstance(value, str):
        return quoted(value)
    return escaped(msgspec.json.encode(value, order="deterministic")).decode()


def required(field: str, detail: str = "") -> FieldError:
    """A value must be given."""
    return FieldError(ErrorType.REQUIRED, field, None, detail)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """A value is malformed or out of bounds."""
    return FieldError(ErrorType.INVALID, field, value, detail)


class TypedText(str):
    """A text of a type of its own, such as that of a restart policy: errors show it as JSON, not as Go shows texts."""

    __slots__ = ()


def unsupported(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """A value is not one of a closed set, which has a type of its own; the set is told in the order given."""
    return unsupported_text(field, TypedText(value) if isinstance(value, str) else value, supported)


def unsupported_text(field: str, value: Any, supported: Iterable[str]) -> FieldError:
    """The same for a field of the type of all texts."""
    return FieldError(
        ErrorType.NOT_SUPPORTED, field, value, supported=supported if isinstance(supported, tuple) else tuple(supported)
    )


def _supported_text(supported: Sequence[str]) -> str:
    return "supported values: " + ", ".join(map(quoted, supported))


def duplicate(field: str, value: Any) -> FieldError:
    """A value that must be unique stands twice."""
    return FieldError(ErrorType.DUPLICATE, field, value)


def forbidden(field: str, detail: str) -> FieldError:
    """A value may not be given here."""
    return FieldError(ErrorType.FORBIDDEN, field, None, detail)


def not_found(field: str, value: Any) -> FieldError:
    """A value refers to something that is not there."""
    return FieldError(ErrorType.NOT_FOUND, field, value)


def too_long(field: str, limit: int) -> FieldError:
    """A string has more than `limit` bytes."""
    detail = f"may not be more than {limit} bytes" if limit >= 0 else "value is too long"
    return FieldError(ErrorType.TOO_LONG, field, None, detail)


def too_many(field: str, actual: int, limit: int) -> FieldError:
    """A list has more than `limit` items."""
    detail = f"must have at most {limit} item{'' if limit == 1 else 's'}" if limit >= 0 else "has too many items"
    return FieldError(ErrorType.TOO_MANY, field, actual, detail)


class ApiError(Exception):
    """An answer other than success, on either side of the wire."""

    def __init__(self, status: meta_v1.Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> int:
        """HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """Machine-readable reason such as `NotFound`; "" if the server gave none."""
        return self.status.reason

    @property
    def message(self) -> str:
        """Text for people."""
        return self.status.message

    @property
    def retry_after(self) -> int:
        """Seconds to wait before trying again; 0 if the server did not say."""
        return self.status.details.retry_after_seconds if self.status.details else 0


def failure(
    code: int,
    reason: str,
    message: str,
    *,
    name: str = "",
    group: str = "",
    kind: str = "",
    uid: str = "",
    causes: Sequence[meta_v1.StatusCause] = (),
    retry_after: int = 0,
    details: bool = True,
) -> ApiError:
    """An ApiError with a `Status` of these members."""
    found = meta_v1.StatusDetails(
        name=name, group=group, kind=kind, uid=uid, causes=tuple(causes), retry_after_seconds=retry_after
    )
    return ApiError(
        meta_v1.Status(
            kind="Status",
            api_version="v1",
            status="Failure",
            message=message,
            reason=reason,
            details=found if details else None,
            code=code,
        )
    )


def _resource(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found_error(plural: str, group: str, name: str) -> ApiError:
    """404: there is no such object."""
    return failure(
        404, "NotFound", f"{_resource(plural, group)} {quoted(name)} not found", name=name, group=group, kind=plural
    )


def already_exists(plural: str, group: str, name: str) -> ApiError:
    """409: the name is taken."""
    return failure(
        409,
        "AlreadyExists",
        f"{_resource(plural, group)} {quoted(name)} already exists",
        name=name,
        group=group,
        kind=plural,
    )


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(plural: str, group: str, name: str, detail: str = MODIFIED) -> ApiError:
    """409: somebody else was faster, or a precondition does not hold."""
    message = f"Operation cannot be fulfilled on {_resource(plural, group)} {quoted(name)}: {detail}"
    return failure(409, "Conflict", message, name=name, group=group, kind=plural)


MAX_ERROR_BYTES = 256 * 1024
"""Letters of field errors that one answer tells, besides the first error, which is told whatever its length."""


def invalid_object(
    kind: str, group: str, name: str, errors: Sequence[FieldError], *, stopped: bool = False
) -> ApiError:
    """422: the object breaks rules. Equal errors are told once; of very many, the first ones and how many there are besides.

    stopped: the rules stopped at these errors, there may be more.
    """
    told: dict[str, None] = {}
    causes: list[meta_v1.StatusCause] = []
    letters = 0
    for error in errors:
        if letters >= MAX_ERROR_BYTES:
            break
        body = error.body
        text = f"{error.field}: {body}"
        letters += len(text) + len(body)
        if letters > MAX_ERROR_BYTES and causes:
            break
        told[text] = None
        causes.append(meta_v1.StatusCause(reason=error.type.reason, message=body, field=error.field))
    unique = list(told)
    if len(causes) < len(errors):
        unique.append(f"and {'at least ' if stopped else ''}{len(errors) - len(causes)} more")
    text = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
    shown = f"{kind}.{group}" if group else kind
    return failure(
        422, "Invalid", f"{shown} {quoted(name)} is invalid: {text}", name=name, group=group, kind=kind, causes=causes
    )


def forbidden_error(plural: str, group: str, name: str, detail: str) -> ApiError:
    """403: authorization or admission says no."""
    if not plural:
        return failure(403, "Forbidden", f"forbidden: {detail}")
    shown = f"{_resource(plural, group)} {quoted(name)}" if name else _resource(plural, group)
    return failure(403, "Forbidden", f"{shown} is forbidden: {detail}", name=name, group=group, kind=plural)


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return failure(400, "BadRequest", message, details=False)


def unauthorized() -> ApiError:
    """401: nobody, or nobody we know."""
    return failure(401, "Unauthorized", "Unauthorized", details=False)


def method_not_allowed() -> ApiError:
    """405: the resource has no such verb."""
    return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def resource_not_found() -> ApiError:
    """404: there is no such resource."""
    return failure(404, "NotFound", "the server could not find the requested resource")


def gone(message: str) -> ApiError:
    """410: the revision asked for is no longer kept."""
    return failure(410, "Expired", message, details=False)


def too_many_requests(message: str, retry_after: int = 1) -> ApiError:
    """429: try later."""
    return failure(429, "TooManyRequests", message, retry_after=retry_after)


def internal_error(message: str) -> ApiError:
    """500: the server failed."""
    causes = [meta_v1.StatusCause(message=message)]
    return failure(500, "InternalError", f"Internal error occurred: {message}", causes=causes)


def request_too_large(limit: int) -> ApiError:
    """413: the body is larger than the server takes."""
    return failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}", details=False)


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body is of a type that this resource does not take."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return failure(415, "UnsupportedMediaType", message, details=False)


def not_acceptable(offered: Sequence[str]) -> ApiError:
    """406: none of the types that the client takes can be given."""
    message = "only the following media types are accepted: " + ", ".join(offered)
    return failure(406, "NotAcceptable", message, details=False)


def service_unavailable(message: str) -> ApiError:
    """503: the server cannot answer now."""
    return failure(503, "ServiceUnavailable", message, retry_after=1)

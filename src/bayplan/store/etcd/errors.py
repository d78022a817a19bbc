"""What a client of etcd raises, made from gRPC's codes and etcd's messages (`api/v3rpc/rpctypes/error.go`)."""

from __future__ import annotations

from bayplan.support.grpc.errors import RpcError


class EtcdError(Exception):
    """Base. `code` is gRPC's name, such as UNAVAILABLE; `message` is etcd's."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class EtcdUnavailable(EtcdError):
    """No member answers, or there is no quorum. `maybe_done`: whether a request that changes something may have been carried out."""

    def __init__(self, message: str, code: str = "UNAVAILABLE", *, maybe_done: bool = False) -> None:
        super().__init__(message, code)
        self.maybe_done = maybe_done


class EtcdCompacted(EtcdError):
    """The revision is not kept any more. `compact_revision`: the oldest that is, 0 if the server did not say."""

    def __init__(self, message: str, compact_revision: int = 0) -> None:
        super().__init__(message, "OUT_OF_RANGE")
        self.compact_revision = compact_revision


class EtcdFutureRevision(EtcdError):
    """The revision does not exist yet."""


class EtcdNoSpace(EtcdError):
    """The database has reached its quota: nothing can be written until it is compacted and defragmented and the alarm is disarmed."""


class EtcdTooLarge(EtcdError):
    """The request is larger than the server takes (its flag --max-request-bytes)."""


class EtcdAccessDenied(EtcdError):
    """Wrong user or password, or a user without the permission."""


class EtcdLeaseNotFound(EtcdError):
    """The lease has expired or was revoked."""


def error_of(error: RpcError, *, maybe_done: bool = False) -> EtcdError:
    """The error that a failed call stands for."""
    code, text = error.code, error.message
    if "required revision has been compacted" in text:
        return EtcdCompacted(text)
    if "required revision is a future revision" in text:
        return EtcdFutureRevision(text, code)
    if "database space exceeded" in text:
        return EtcdNoSpace(text, code)
    if "request is too large" in text or "message larger than max" in text:
        return EtcdTooLarge(text, code)
    if "requested lease not found" in text:
        return EtcdLeaseNotFound(text, code)
    if code in ("PERMISSION_DENIED", "UNAUTHENTICATED") or "authentication" in text or "user name is empty" in text:
        return EtcdAccessDenied(text, code)
    if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
        return EtcdUnavailable(text, code, maybe_done=maybe_done)
    return EtcdError(text, code)


def is_stale_token(error: RpcError) -> bool:
    """Whether the call succeeds after authenticating again: the token has expired, or users have changed."""
    return "invalid auth token" in error.message or "revision of auth store is old" in error.message

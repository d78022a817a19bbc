"""What calls of a driver fail with."""

from __future__ import annotations

from typing import Final

from bayplan.support.grpc.errors import RefusedError, RpcError

_UNDECIDED: Final = frozenset(
    {
        "CANCELLED",  # the caller or a proxy gave up; the driver may go on
        "DEADLINE_EXCEEDED",
        "UNAVAILABLE",  # the driver has gone, perhaps in the middle
        "RESOURCE_EXHAUSTED",  # here: too many calls wait; see `is_final`
        "ABORTED",  # another call for the same volume is under way
    }
)


class CsiError(RpcError):
    """A driver refused or failed a call, or did not answer it. `code` is gRPC's name, `message` the driver's text."""

    @property
    def is_final(self) -> bool:
        """Whether it is certain that nothing goes on in the driver, as external-provisioner, external-attacher and the kubelet decide it: after any other error
        the volume may exist (or be mounted) in a moment, so the same call has to be made until its end is known."""
        return self.code not in _UNDECIDED

    @property
    def is_infeasible(self) -> bool:
        """Whether the call would fail for ever, as external-resizer decides it."""
        return self.code in ("INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND")


class DriverError(RefusedError):
    """A driver's own refusal: raised in a driver, sent to its client."""


class InvalidArgument(DriverError):
    """A request lacks something, or has a value that no driver takes."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "INVALID_ARGUMENT")


class NotFound(DriverError):
    """There is no such volume, snapshot or path."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "NOT_FOUND")

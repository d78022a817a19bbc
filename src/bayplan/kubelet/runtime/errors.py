"""What container runtimes answer when something does not work."""

from __future__ import annotations

from bayplan.support.grpc.errors import rpc_text


class RuntimeRequestError(Exception):
    """A runtime refused or failed a request; `str()` is its own message, `code` the gRPC status name such as UNKNOWN."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code

    @property
    def rpc_text(self) -> str:
        """The text that kubelet shows where it shows a gRPC error as it is."""
        return rpc_text(self.code, str(self))


class NotFoundError(RuntimeRequestError):
    """The sandbox, container or image does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "NOT_FOUND")


class RuntimeTimeoutError(RuntimeRequestError):
    """No answer came in time. What was asked for may still happen."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "DEADLINE_EXCEEDED")


class RuntimeUnavailableError(RuntimeRequestError):
    """There is no runtime at the endpoint, or it has just gone."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "UNAVAILABLE")


class UnsupportedError(RuntimeRequestError):
    """The runtime has no such call."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "UNIMPLEMENTED")

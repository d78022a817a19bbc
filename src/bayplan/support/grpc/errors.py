"""Errors of gRPC: what a call or a connection failed with, and how Go prints that. This needs no gRPC."""

from __future__ import annotations

_GO_NAMES = {"Ok": "OK", "Cancelled": "Canceled"}
"""Codes that Go spells in another way than their names say."""


def go_name(code: str) -> str:
    """A code as Go prints it, such as NotFound. code: gRPC's name, such as NOT_FOUND."""
    name = "".join(word.capitalize() for word in code.split("_"))
    return _GO_NAMES.get(name, name)


def rpc_text(code: str, message: str) -> str:
    """An error of gRPC as Go prints it: `rpc error: code = NotFound desc = ...`. code: gRPC's name, such as NOT_FOUND."""
    return f"rpc error: code = {go_name(code)} desc = {message}"


INVALID_TEXT = "grpc: error while marshaling: string field contains invalid UTF-8"
"""What a call fails with (INTERNAL) whose request has text that is no UTF-8. It does not repeat the text, which may be secret."""


class RpcError(Exception):
    """A call failed. `code` is gRPC's name, such as NOT_FOUND, `message` what the other side said; `str()` is Go's text of both."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(rpc_text(code, message))
        self.code = code
        self.message = message


class UnsentError(RpcError):
    """The other side has not seen the request, so that it may be sent again, also elsewhere."""


class DialError(RpcError):
    """Nobody listens at a socket, or not yet; `str()` is the message alone."""

    def __init__(self, message: str) -> None:
        super().__init__("UNAVAILABLE", message)
        self.args = (message,)


class RefusedError(Exception):
    """A server does not do what it is asked for; the text is for the client."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        """code: gRPC's name of the kind of error."""
        super().__init__(message)
        self.code = code

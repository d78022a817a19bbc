"""Errors of the page's server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class UiError(Exception):
    """The page cannot be served; the message says what to do."""


class RequestError(Exception):
    """A request of the page that cannot be answered: HTTP status and a message that the page shows as text."""

    def __init__(self, status: int, message: str, fields: Sequence[Mapping[str, str]] = ()) -> None:
        """fields: what is wrong with single fields of what was sent: `field` and `problem`."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.fields = fields

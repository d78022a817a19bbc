"""Why a node's pod network cannot be set up. Messages name the object and the next step."""

from __future__ import annotations


class NetworkError(Exception):
    """The pod network cannot be set up."""


class NotYetError(NetworkError):
    """Somebody else has still to do something, as always when a node joins."""


class SettingsError(NetworkError):
    """An option has a value that makes no sense; the message names the option and what it takes."""

"""Why a node's pod network cannot be set up. Messages name the object and the next step."""

from __future__ import annotations


class NetworkError(Exception):
    """The pod network cannot be set up."""


class SettingsError(NetworkError):
    """An option has a value that makes no sense; the message names the option and what it takes."""

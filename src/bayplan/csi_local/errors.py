"""Why the local driver cannot start."""

from __future__ import annotations


class LocalDriverError(Exception):
    """The driver cannot start; the message says what to change."""

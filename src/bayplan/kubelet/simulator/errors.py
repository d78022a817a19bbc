"""What can go wrong while pods are simulated."""

from __future__ import annotations


class StageError(ValueError):
    """A stage cannot be read or carried out; the message names stage and field."""


class KwokFileError(ValueError):
    """An object of kwok in a file cannot be read or carried out; the message names file or object, and field."""

"""What can go wrong while pods are simulated."""

from __future__ import annotations


class StageError(ValueError):
    """A stage cannot be read or carried out; the message names stage and field."""

"""Why nothing could be given out; the messages are Kubernetes' own."""

from __future__ import annotations


class AllocationError(Exception):
    """Base of all."""


class Taken(AllocationError):
    """Somebody else has what was asked for."""


class OutOfRange(AllocationError):
    """What was asked for is nothing that is given out."""


class Full(AllocationError):
    """Nothing is left."""

    def __init__(self) -> None:
        super().__init__("range is full")

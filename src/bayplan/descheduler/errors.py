"""What can be wrong with a policy."""

from __future__ import annotations

from collections.abc import Sequence


class DeschedulerError(Exception):
    """Base of the descheduler's errors."""


class PolicyError(DeschedulerError, ValueError):
    """A DeschedulerPolicy is wrong; each of `errors` starts with the path of the field."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        self.errors = tuple(errors)


class UsageError(DeschedulerError):
    """The metrics API does not say what nodes and pods use."""


class StrategyError(DeschedulerError):
    """A strategy cannot run in this pass, such as one that needs usage figures that nobody has."""

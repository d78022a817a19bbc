"""What an authorizer is, and the ones that need no objects to decide."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, Protocol

from bayplan.apiserver.authorization.attributes import Attributes

MASTERS = "system:masters"
"""Members may do everything, whatever the modes are: the way back in when rules went wrong."""


class Decision(Enum):
    """What one authorizer says."""

    ALLOW = "allow"
    DENY = "deny"
    """No, whatever the authorizers behind it think."""
    NO_OPINION = "no opinion"
    """Ask the next one; from the last one it means no."""


class Verdict(NamedTuple):
    """A decision and why."""

    decision: Decision
    reason: str = ""
    general: bool = False
    """Whether it is allowed whatever the object's name is, until a role or binding changes; such verdicts are remembered."""

    @property
    def allowed(self) -> bool:
        """Whether the answer is yes."""
        return self.decision is Decision.ALLOW


NO_OPINION = Verdict(Decision.NO_OPINION)


class Authorizer(Protocol):
    """Judges requests. Must not wait: everything it needs is in the caches."""

    def authorize(self, attributes: Attributes) -> Verdict:
        """May this user do this?"""


class AlwaysAllow:
    """Everybody may do everything."""

    def authorize(self, attributes: Attributes) -> Verdict:
        """Yes."""
        return Verdict(Decision.ALLOW, general=True)


class AlwaysDeny:
    """Nobody may do anything (but the masters)."""

    def authorize(self, attributes: Attributes) -> Verdict:
        """No."""
        return Verdict(Decision.NO_OPINION, "Everything is forbidden.")

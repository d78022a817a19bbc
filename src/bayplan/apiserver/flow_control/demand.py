"""What a priority level has wanted since the last adjustment of the limits, and what it is expected to want.

Source: `seatDemandStats` of Kubernetes' `apiserver/pkg/util/flowcontrol/apf_controller.go`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bayplan.apiserver.flow_control.parameters import SMOOTHING


class Demand:
    """Seats that one level has occupied or wanted."""

    __slots__ = ("average", "deviation", "highest", "smoothed")

    def __init__(self) -> None:
        self.average = 0.0
        """Over time."""
        self.deviation = 0.0
        """Standard deviation over time."""
        self.highest = 0
        self.smoothed = 0.0
        """Average and deviation, which falls slowly when they fall, and rises with them at once."""

    def update(self, durations: Mapping[int, float], highest: int) -> None:
        """A period is over. durations: seconds by seats wanted; highest: most seats wanted, however shortly."""
        self.highest = highest
        elapsed = sum(durations.values())
        if elapsed <= 0.0:
            return
        self.average = sum(seats * seconds for seats, seconds in durations.items()) / elapsed
        squares = sum((seats - self.average) ** 2 * seconds for seats, seconds in durations.items())
        self.deviation = math.sqrt(squares / elapsed)
        envelope = self.average + self.deviation
        self.smoothed = max(envelope, SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope)

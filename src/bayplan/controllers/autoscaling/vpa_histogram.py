"""A histogram that forgets: weights of samples halve with every half-life of their age.

Buckets grow exponentially: the first holds [0, first), each further one is 5 % larger than the one before it.

    first 10, ratio 2:   [0, 10)  [10, 30)  [30, 70)  ...      start(n) = first * (ratio**n - 1) / (ratio - 1)

Old samples are not made smaller; new ones are made larger: a sample at time t weighs `2**((t - reference) / half_life)`, and the reference moves when that gets too
large. Source of the behaviour: `util.decayingHistogram` of the Kubernetes vertical pod autoscaler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

_MAX_EXPONENT = 100
"""Half-lives between the reference and a sample after which the reference moves."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """How values are put into buckets."""

    maximum: float
    """Larger values count as in the last bucket."""
    first: float
    """Size of the first bucket."""
    ratio: float = 1.05
    """How much larger each bucket is than the one before it."""
    epsilon: float = 0.0001
    """Weights below this count as none."""

    @property
    def count(self) -> int:
        """Number of buckets."""
        return math.ceil(math.log(self.maximum * (self.ratio - 1) / self.first + 1, self.ratio)) + 1

    def find(self, value: float) -> int:
        """The bucket of a value."""
        if value < self.first:
            return 0
        return min(int(math.log(value * (self.ratio - 1) / self.first + 1, self.ratio)), self.count - 1)

    def start(self, bucket: int) -> float:
        """The least value of a bucket."""
        return self.first * (self.ratio**bucket - 1) / (self.ratio - 1) if bucket else 0.0


@dataclass(slots=True)
class DecayingHistogram:
    """Weights per bucket."""

    buckets: Buckets
    half_life: float
    """Seconds."""
    weights: dict[int, float] = field(default_factory=dict)
    """Bucket -> weight, relative to the reference."""
    reference: float | None = None
    """Unix time at which a sample weighs what it says."""

    def add(self, value: float, weight: float, time: float) -> None:
        """Count a sample. A negative weight takes away one that was counted before at the same time."""
        if self.reference is None:
            self.reference = time
        if abs(time - self.reference) > self.half_life * _MAX_EXPONENT:
            self._move_reference(time)
        bucket = self.buckets.find(value)
        total = self.weights.get(bucket, 0.0) + weight * self._factor(time)
        if total > self.buckets.epsilon:
            self.weights[bucket] = total
        else:
            self.weights.pop(bucket, None)

    def _factor(self, time: float) -> float:
        factor: float = 2.0 ** ((time - (self.reference or 0.0)) / self.half_life)
        return factor

    def _move_reference(self, time: float) -> None:
        before = self.reference or 0.0
        self.reference = round(time / self.half_life) * self.half_life
        factor = 2.0 ** ((before - self.reference) / self.half_life)
        scaled = {bucket: weight * factor for bucket, weight in self.weights.items()}
        self.weights = {bucket: weight for bucket, weight in scaled.items() if weight > self.buckets.epsilon}

    def percentile(self, part: float) -> float:
        """The upper end of the bucket in which this part (0 to 1) of all weight is reached; 0 of an empty histogram."""
        if not self.weights:
            return 0.0
        threshold, reached = part * sum(self.weights.values()), 0.0
        ordered = sorted(self.weights)
        last = ordered[-1]
        for bucket in ordered:
            reached += self.weights[bucket]
            if reached >= threshold:
                last = bucket
                break
        return self.buckets.start(min(last + 1, self.buckets.count - 1))

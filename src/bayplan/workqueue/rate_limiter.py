"""How long a failed key waits before its next try."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from bayplan.support.clock import Clock

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)


class RateLimiter(Protocol[K_contra]):
    """Gives out delays; each answer counts as one more failure of the key."""

    def when(self, key: K_contra) -> float:
        """Seconds that the key has to wait this time."""

    def forget(self, key: K_contra) -> None:
        """The key succeeded (or was given up): start over with it."""

    def num_requeues(self, key: K_contra) -> int:
        """How often `when` was asked since the last `forget`."""


class ExponentialBackoff(Generic[K]):
    """`base * 2**failures` seconds per key, at most `longest`."""

    def __init__(self, base: float = 0.005, longest: float = 1000.0) -> None:
        self._base = base
        self._longest = longest
        self._failures: dict[K, int] = {}

    def when(self, key: K) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # Beyond 2**64 the result is `longest` for any sensible base, and floats would overflow.
        return min(self._base * 2.0 ** min(failures, 64), self._longest)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        return self._failures.get(key, 0)


class TokenBucket(Generic[K]):
    """`rate` keys per second over all keys, after a first burst of `burst`."""

    def __init__(self, clock: Clock, rate: float = 10.0, burst: int = 100) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate must be positive and burst at least 1, got {rate} and {burst}")
        self._clock = clock
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        """May be negative: tokens that are promised to keys which still wait."""
        self._filled_at: float | None = None

    def when(self, key: K) -> float:
        now = self._clock.monotonic()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: K) -> None:
        """Does nothing: the bucket does not know keys."""

    def num_requeues(self, key: K) -> int:
        return 0


class MaxOf(Generic[K]):
    """The longest of several limiters' delays."""

    def __init__(self, *limiters: RateLimiter[K]) -> None:
        self._limiters = limiters

    def when(self, key: K) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: K) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        return max(limiter.num_requeues(key) for limiter in self._limiters)


def default_rate_limiter(clock: Clock) -> RateLimiter[Hashable]:
    """What Kubernetes' controllers use: 5 ms to 1000 s per key, and 10 per second (burst 100) over all."""
    return MaxOf[Hashable](ExponentialBackoff(), TokenBucket(clock))

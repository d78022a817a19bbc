"""The queue between an informer's events and a controller's workers: de-duplicating, delaying, rate-limited.

Semantics and metric names are those of client-go's `util/workqueue`. Keys are any hashable value; nothing here knows
what they stand for.
"""

from bayplan.workqueue.metrics import WorkQueueMetrics
from bayplan.workqueue.queue import QueueShutDown, WorkQueue
from bayplan.workqueue.rate_limiter import (
    ExponentialBackoff,
    MaxOf,
    RateLimiter,
    TokenBucket,
    default_rate_limiter,
)

__all__ = [
    "ExponentialBackoff",
    "MaxOf",
    "QueueShutDown",
    "RateLimiter",
    "TokenBucket",
    "WorkQueue",
    "WorkQueueMetrics",
    "default_rate_limiter",
]

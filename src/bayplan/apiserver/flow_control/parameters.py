"""The numbers of API Priority and Fairness that no object configures; all are kube-apiserver 1.36's, unless they say otherwise."""

from __future__ import annotations

from typing import Final

SERVICE_SECONDS: Final = 0.003
"""How long a request is expected to execute: what its queue is charged when it starts, and corrected by when it finishes."""
ADJUSTMENT_SECONDS: Final = 10.0
"""Seconds between two adjustments of the concurrency limits to the demand."""
SMOOTHING: Final = 0.977
"""Share of the former smoothed demand that is left after an adjustment: half of it after five minutes."""
SEAT_SHARE: Final = 0.15
"""Share of a level's nominal limit that one request may occupy at most."""
MINIMUM_SEATS: Final = 1
MAXIMUM_LIST_SEATS: Final = 100
MAXIMUM_MUTATING_SEATS: Final = 10
BYTES_PER_SEAT: Final = 100_000
"""Bytes of objects that a list holds in memory for each of its seats."""
CACHED_LIST_BYTES: Final = 1_000_000
"""Bytes that a list from the cache holds in memory at once at most, since it is sent in pieces."""
UNKNOWN_OBJECT_BYTES: Final = 1_500_000
"""Size of an object of which nothing is known."""
WATCHES_PER_SEAT: Final = 10
"""Watches that one seat serves with the event of a write."""
EVENT_SECONDS: Final = 0.005
"""How long the watches that one seat serves take for an event."""
MAXIMUM_RETRY_AFTER: Final = 32
"""Seconds after which a rejected client is asked to come back at most."""
WAIT_SHARE: Final = 0.25
"""Share of its timeout that a request may wait in its queue."""
MAXIMUM_WAIT_SECONDS: Final = 60.0
SIZES_KEPT_SECONDS: Final = 60.0
"""How long the average size of a resource's objects is taken for the present one."""
SEATS_PER_TURN: Final = 1
"""Seats of a level that may be taken before the event loop looks for input again. Bayplan's own: one thread executes all requests, so that a burst of one client
would otherwise be executed whole before the server has read what others sent."""
RESUMPTIONS_PER_TURN: Final = 2
"""Requests of a level that go on after a wait before the event loop looks for input again, while others of the level wait to start. Bayplan's own, as
`SEATS_PER_TURN`: a store commits many writes at once."""
REFUSALS_PER_TURN: Final = 2
"""Rejected requests of a level that are answered before the event loop looks for input again; more if one would wait for `LONGEST_REFUSAL` turns otherwise.
Bayplan's own: clients that are all sent away at once all come back at once."""
LONGEST_REFUSAL: Final = 64
EXPRESS_SEATS_PER_TURN: Final = 2
"""Further seats that requests may take which find an empty queue among those of their flow. Bayplan's own: they need not wait for what others do."""

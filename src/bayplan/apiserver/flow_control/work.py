"""How much work a request is: the seats that it occupies while it executes, and those that its consequences occupy afterwards.

Work is counted in integers, so that sums do not depend on the order of their parts.
"""

from __future__ import annotations

from typing import Final

from bayplan.apiserver.flow_control.parameters import SERVICE_SECONDS

SCALE: Final = 100_000_000
"""Units of work of one seat in one second."""


def seat_seconds(seats: float, seconds: float) -> int:
    """Work of so many seats in a time, in units."""
    return round(seats * seconds * SCALE)


def work_text(work: int) -> str:
    """Work as debug pages show it: seat-seconds with eight digits."""
    sign, (whole, rest) = "-" if work < 0 else "", divmod(abs(work), SCALE)
    return f"{sign}{whole}.{rest:08d}ss"


class Work:
    """An estimate. It is shared by requests that are alike, and never changed."""

    __slots__ = ("additional_seconds", "final_seats", "final_work", "initial_seats", "seats", "total_work")

    def __init__(self, initial_seats: int, final_seats: int = 0, additional_seconds: float = 0.0) -> None:
        self.initial_seats = initial_seats
        """Seats while the request executes."""
        self.final_seats = final_seats
        """Seats afterwards, while watches get the event of a write."""
        self.additional_seconds = additional_seconds
        """How long those are occupied; the client does not wait for it."""
        self.seats = max(initial_seats, final_seats)
        """Seats that are reserved from the start to the end."""
        self.final_work = seat_seconds(final_seats, additional_seconds)
        """Units of work after the request."""
        self.total_work = seat_seconds(initial_seats, SERVICE_SECONDS) + self.final_work
        """Units of work in all, if the request executes for as long as expected."""

    def limited_to(self, seats: int) -> Work:
        """The same work with at most so many final seats, which are occupied for longer in exchange."""
        if self.final_seats <= seats or seats <= 0:
            return self
        return Work(self.initial_seats, seats, self.final_work / seats / SCALE)


ONE_SEAT: Final = Work(1)

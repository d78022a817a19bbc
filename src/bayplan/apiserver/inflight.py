"""How many requests may be worked on at once if priority and fairness is off: beyond it the rest are told to come back, so that nobody waits for ever.

Source: kube-apiserver's `--max-requests-inflight` and `--max-mutating-requests-inflight`. Requests that last (watches, logs, exec, proxies) are not counted
against it; administrators and health checks always get in.
"""

from __future__ import annotations

from bayplan.apiserver.requests import TEXT, Request, Response

READING = frozenset(("get", "head", "list", "options", "watch"))
"""Verbs, and methods of other paths, that change nothing."""
_MASTERS = "system:masters"


class InFlight:
    """Counts the requests that are being worked on. The limits are numbers of requests; 0 is no limit."""

    __slots__ = ("mutating", "mutating_limit", "reading", "reading_limit")

    def __init__(self, reading_limit: int, mutating_limit: int) -> None:
        self.reading_limit = reading_limit
        self.mutating_limit = mutating_limit
        self.reading = 0
        """Reading requests being worked on."""
        self.mutating = 0
        """Changing requests being worked on."""

    def enter(self, request: Request) -> bool | None:
        """Count a request. True: it is a changing one, False: a reading one (give it back to `leave`); None: it has to wait."""
        if request.info.verb in READING:
            if 0 < self.reading_limit <= self.reading and not _always_served(request):
                return None
            self.reading += 1
            return False
        if 0 < self.mutating_limit <= self.mutating and not _always_served(request):
            return None
        self.mutating += 1
        return True

    def leave(self, changes: bool) -> None:
        """A counted request is done."""
        if changes:
            self.mutating -= 1
        else:
            self.reading -= 1


def _always_served(request: Request) -> bool:
    info = request.info
    return _MASTERS in request.user.groups or info.is_public or info.is_long_running


def too_many_requests(retry_after: int = 1) -> Response:
    """What a request gets that is to come back after so many seconds."""
    return Response(
        429,
        b"Too many requests, please try again later.\n",
        TEXT,
        {"Retry-After": str(retry_after), "X-Content-Type-Options": "nosniff"},
        is_final=True,
    )

"""How many requests of one user are taken up in one iteration of the event loop.

A user with hundreds of connections may send on all of them at once: whoever waits for answers and gets them together does. Each request costs some ten microseconds
to be read, but several times that to be understood and started, and whatever others send meanwhile is read only after the last of them. So only a few are taken
up at once, and the others keep waiting as the bytes that they are, one of each user in turn:

    iteration 1   read a1 a2 a3 a4 a5 a6 b1   take up a1 a2 a3 a4 b1
    iteration 2   read b2 c1                  take up a5 b2 c1
    iteration 3                               take up a6

Requests that no priority level limits are taken up at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from bayplan.apiserver.requests import Request, Response

_PER_TURN: Final = 4
"""Requests of one user that are taken up at once; and those of all users together that have waited."""


class Intake:
    """What the connections of one server ask before they take up a request."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        """Requests taken up in this iteration, by user."""
        self._waiting: dict[str, deque[Callable[[], None]]] = {}
        """What takes up the others, by user; the user that is next is first."""
        self._is_scheduled = False

    def try_take(self, user: str) -> bool:
        """Take up a request of a user at once, if that may be."""
        taken = self._taken
        count = taken.get(user, 0)
        if count >= _PER_TURN or user in self._waiting:
            return False
        taken[user] = count + 1
        if not self._is_scheduled:
            self._schedule()
        return True

    def wait(self, user: str, take: Callable[[], None]) -> None:
        """Call `take` when a request of a user may be taken up, which `try_take` did not let through."""
        self._waiting.setdefault(user, deque()).append(take)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._new_turn)

    def _new_turn(self) -> None:
        self._is_scheduled = False
        taken, waiting = self._taken, self._waiting
        taken.clear()
        due: list[Callable[[], None]] = []
        while waiting and len(due) < _PER_TURN:
            user, takes = next(iter(waiting.items()))
            del waiting[user]
            due.append(takes.popleft())
            taken[user] = taken.get(user, 0) + 1
            if takes:
                waiting[user] = takes
        if due:
            self._schedule()
        for take in due:
            take()


def user_of(request: Request, response: Response) -> str | None:
    """Whose requests a connection brings, by the last of them and its response; None if no priority level limits them."""
    flow = response.flow
    return None if flow is None or flow.is_exempt else request.user.name

"""The pipe between the processes of a cluster: requests that make no sense, calls of wrong shape, and requests whose answers nobody reads."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import Any, Final

from bayplan.apiserver.in_process import InProcessEndpoint
from bayplan.apiserver.piped import PipedRequests
from bayplan.support.pipe import PipeError, open_pipe
from tests.apiserver.serving import ADMIN, opened
from tests.fuzz.nonsense import Nonsense
from tests.fuzz.verdicts import is_fault
from tests.fuzz.wire import Answer

_SECONDS = 30.0
_ARGUMENTS: Final[tuple[Any, ...]] = (None, 1, -1, "x", b"y", [], ["a"], {}, {"a": "b"}, 1.5, True)


_PIPE: Final = "bayplan.support.pipe"
_LOGGERS: Final = ("bayplan", _PIPE)


class _Tracebacks(logging.Handler):
    """Keeps what is logged with a traceback."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        if record.exc_info and record.exc_info[0] is not None:
            self.found.append(f"{record.getMessage()}\n{logging.Formatter().formatException(record.exc_info)}")


async def fuzz_pipe(seed: int, count: int, seconds: float) -> list[str]:
    """Send up to `count` messages through a pipe; what was wrong with the answers."""
    deadline = time.monotonic() + seconds
    nonsense = Nonsense(seed)
    chance = nonsense.chance
    faults: list[str] = []
    tracebacks = _Tracebacks()
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(tracebacks)
    logging.getLogger(_PIPE).propagate = False  # it tells of each call of wrong shape
    async with opened() as api:
        here, there = [await open_pipe(end) for end in socket.socketpair()]
        here.notification_handlers |= {
            "lines": lambda *_: None,
            "ended": lambda _: None,
        }  # of watches that the calls open
        server = PipedRequests(there, lambda _: InProcessEndpoint(api, ADMIN))
        try:
            for number in range(count):
                if time.monotonic() > deadline:
                    break
                one = nonsense.request()
                call = (one.method, one.path, dict(one.query), one.body, one.content_type)
                kind = chance.random()
                try:
                    async with asyncio.timeout(_SECONDS):
                        if kind < 0.9:
                            code, body = await here.call("request", "admin", *call)
                            answers = [(code, body)]
                        elif kind < 0.95:
                            answers = await here.call(
                                "send", "admin", [[(one.method, one.path, one.body, one.content_type)]]
                            )
                        elif kind < 0.97:
                            code, body = await here.call("watch", number, "admin", one.path, dict(one.query))
                            here.notify("close", number)
                            answers = [(code, body)]
                        else:
                            await here.call(
                                chance.choice(("request", "send", "watch")),
                                *chance.choices(_ARGUMENTS, k=chance.randrange(7)),
                            )
                            answers = []
                except PipeError:
                    continue  # a call of wrong shape; the pipe goes on
                except TimeoutError:
                    faults.append(f"no answer through the pipe for {call[:3]} {one.body[:500]!r}")
                    continue
                faults += [
                    f"{code} {body[:500]!r}\n  through the pipe for {call[:3]} {one.body[:500]!r}"
                    for code, body in answers
                    if is_fault(Answer(code, body))
                ]
            code, _ = await here.call("request", "admin", "GET", "/version", {}, b"", "")
            if code != 200:
                faults.append(f"after {number} messages the pipe answers {code}")
        finally:
            server.close()
            here.close()
            there.close()
            for name in _LOGGERS:
                logging.getLogger(name).removeHandler(tracebacks)
            logging.getLogger(_PIPE).propagate = True
    return faults + tracebacks.found

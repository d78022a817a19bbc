"""A process that forks others on request, so that a process with an event loop and threads can have new children, which share the modules' memory.

    main process                        fork server                    component process
    ------------                        -----------                    -----------------
    fork, before there is an event loop ->  loads modules
    one end of a socket pair            ->  forks                   -> works over that end
                                        <-  its pid, its exit status

The fork server ends when the main process does, and kills what it has forked; the kernel kills each process whose parent has gone, also a stopped one.

The first fork server is a fork of the main process. Should it end, the main process, which then has an event loop and threads, starts another one by executing a
module: that loads what the fork had for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

logger = logging.getLogger(__name__)

_PATIENCE: Final = 5.0
"""Seconds that the fork server gets to end."""
_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""
_MESSAGE_BYTES: Final = 64
_TASK_BYTES: Final = 1 << 17
_FORK, _KILL, _STARTED, _ENDED = b"fork", b"kill", b"started", b"ended"

Work = Callable[[socket.socket], NoReturn]
"""What a forked process does, all its life, with its end of a socket pair."""


class ForkServerLost(Exception):
    """The fork server has ended."""


class ForkServer:
    """The fork server, as the main process sees it."""

    def __init__(self, control: socket.socket, process: int) -> None:
        """control: the connection to a fork server; process: its pid."""
        self._control = control
        self._process = process
        self._control.setblocking(False)
        self._early: deque[int] = deque()
        """Processes that have started and nobody has asked for yet."""
        self._statuses: dict[int, int] = {}
        """Wait statuses of processes that have ended."""
        self._changed = asyncio.Event()
        self.is_lost = False

    @classmethod
    def forked(cls, prepare: Callable[[], None], work: Work) -> ForkServer:
        """A fork of this process, which has no event loop and no other thread yet. prepare: what the fork server does first, such as to load modules."""
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        main = os.getpid()
        process = os.fork()
        if process == 0:
            control.close()
            serve(theirs, main, prepare, work)
        theirs.close()
        return cls(control, process)

    @classmethod
    def executed(cls, module: str, task: bytes, inherited: Sequence[int] = ()) -> ForkServer:
        """A new Python process that runs a module, which takes the connection by `accept` and calls `serve`. Raises OSError.

        inherited: descriptors that it gets, under the same numbers."""
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            control.send(task)
            arguments = [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            process = os.posix_spawn(sys.executable, arguments, environment)
        for descriptor in inherited:
            os.set_inheritable(descriptor, False)
        return cls(control, process)

    def fork(self) -> socket.socket:
        """Ask for a process; returns this process's end of its socket pair. Raises ForkServerLost."""
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self._control, [_FORK], [theirs.fileno()])
        except OSError as error:
            ours.close()
            self.is_lost = True
            raise ForkServerLost("the fork server has ended") from error
        finally:
            theirs.close()
        return ours

    def kill(self, process: int) -> None:
        """Kill a process, if it has not ended. Raises ForkServerLost."""
        try:
            self._control.send(b"%b %d" % (_KILL, process))
        except OSError as error:
            self.is_lost = True
            raise ForkServerLost("the fork server has ended") from error

    def attach(self) -> None:
        """Listen to it on the running event loop."""
        asyncio.get_running_loop().add_reader(self._control, self._read)

    def detach(self) -> None:
        """Listen no more."""
        asyncio.get_running_loop().remove_reader(self._control)

    async def started(self) -> int:
        """The pid of the next process that was asked for. Raises ForkServerLost."""
        while not self._early:
            await self._next_change()
        return self._early.popleft()

    async def ended(self, process: int) -> int:
        """The wait status of a process, once it has ended. Raises ForkServerLost."""
        while process not in self._statuses:
            await self._next_change()
        return self._statuses.pop(process)

    async def _next_change(self) -> None:
        if self.is_lost:
            raise ForkServerLost("the fork server has ended")
        self._changed.clear()
        await self._changed.wait()

    def _read(self) -> None:
        """Take its messages."""
        try:
            while message := self._control.recv(_MESSAGE_BYTES):
                kind, *numbers = message.split()
                if kind == _STARTED:
                    self._early.append(int(numbers[0]))
                else:
                    self._statuses[int(numbers[0])] = int(numbers[1])
                self._changed.set()
        except BlockingIOError:
            return
        except OSError:
            logger.debug("the connection to the fork server is broken")
        self.is_lost = True
        self.detach()
        self._changed.set()

    def abandon(self) -> None:
        """Let go of a fork server that has ended, or whose connection is broken. What it has forked ends with it."""
        self._control.close()
        with contextlib.suppress(ChildProcessError):  # it may have been waited for
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)

    def close(self) -> None:
        """End it and what it has forked."""
        self._control.close()
        deadline = time.monotonic() + _PATIENCE
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                logger.warning("the fork server does not end by itself")
                os.kill(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                return
            time.sleep(0.002)


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends, which has this pid."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(1)


def accept() -> tuple[socket.socket, int, bytes]:
    """In a process made by `ForkServer.executed`: the connection, the pid of the main process, the task. Raises OSError."""
    handle, main = map(int, sys.argv[1:3])
    control = socket.socket(fileno=handle)
    control.set_inheritable(False)
    return control, main, control.recv(_TASK_BYTES)


def serve(control: socket.socket, main: int, prepare: Callable[[], None], work: Work) -> NoReturn:
    """What the fork server does, all its life."""
    try:
        end_with_parent(main)
        for number in (signal.SIGINT, signal.SIGTERM):  # which all processes may get; the main process says when to end
            signal.signal(number, signal.SIG_IGN)
        prepare()
        _fork_on_request(control, work)
    except BaseException:
        logger.exception("the fork server ends")
    finally:
        os._exit(0)  # and nothing of what the main process meant to do at its end


def _fork_on_request(control: socket.socket, work: Work) -> None:
    """Return when the main process has gone and all children have ended."""
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    children: set[int] = set()
    waiting = select.poll()
    for one in (ours, control):
        waiting.register(one, select.POLLIN)
    with contextlib.suppress(OSError):  # of a main process that has gone
        while True:
            ready = {number for number, _ in waiting.poll()}
            if ours.fileno() in ready:
                ours.recv(4096)
                _report_ended(control, children)
            if control.fileno() in ready:
                message, handles, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 1)
                if not message:
                    break
                if message == _FORK:
                    process = _fork(control, handles[0], work)
                    children.add(process)
                    os.close(handles[0])
                    control.send(b"%b %d" % (_STARTED, process))
                elif (process := int(message.split()[1])) in children:
                    os.kill(process, signal.SIGKILL)
    for process in children:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def _report_ended(control: socket.socket, children: set[int]) -> None:
    """Tell of the children that have ended."""
    while children:
        process, status = os.waitpid(-1, os.WNOHANG)
        if process == 0:
            return
        children.discard(process)
        control.send(b"%b %d %d" % (_ENDED, process, status))


def _fork(control: socket.socket, handle: int, work: Work) -> int:
    """A new process that works over a handle: its pid."""
    server = os.getpid()
    process = os.fork()
    if process == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        end_with_parent(server)
        work(socket.socket(fileno=handle))
    return process

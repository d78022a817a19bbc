"""Commands of this machine that answer for simulated containers, with pipes or a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import functools
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from bayplan.kubelet.simulator.answers.objects import LocalTarget
from bayplan.streaming.interface import CommandStreams, Reader, Sizes, StreamError, Writer

_CHUNK: Final = 1 << 15
_KEPT: Final = ("PATH", "HOME", "LANG", "TZ")
"""Variables that commands have of this process; all others are given by name."""
_SHELL_SIGNALLED: Final = 128


async def run_command(command: Sequence[str], local: LocalTarget, streams: CommandStreams, *, tty: bool) -> int:
    """Run a command to its end: its exit code, of one that a signal killed 128 and its number. Raises StreamError if it cannot be run."""
    if tty:
        return await _run_in_terminal(command, local, streams)
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    ends = tuple(pipe if each else nothing for each in (streams.stdin, streams.stdout, streams.stderr))
    async with _started(command, local, ends) as process:
        feeding = asyncio.create_task(_feed(streams.stdin, process.stdin))
        try:
            await asyncio.gather(_pass_on(process.stdout, streams.stdout), _pass_on(process.stderr, streams.stderr))
            return _exit_code(await process.wait())
        finally:
            await _ended(feeding)


async def _run_in_terminal(command: Sequence[str], local: LocalTarget, streams: CommandStreams) -> int:
    main, second = pty.openpty()
    try:
        os.set_blocking(main, False)
        async with _started(command, local, (second, second, second), terminal=second) as process:
            os.close(second)
            second = -1
            tasks = [asyncio.create_task(_type(streams.stdin, main)), asyncio.create_task(_resize(streams.sizes, main))]
            try:
                await _show(main, streams.stdout)
                return _exit_code(await process.wait())
            finally:
                for task in tasks:
                    await _ended(task)
    finally:
        os.close(main)
        if second >= 0:
            os.close(second)


@contextlib.asynccontextmanager
async def _started(
    command: Sequence[str], local: LocalTarget, ends: Sequence[int], *, terminal: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command that runs in a session of its own, which is killed at the end. ends: of stdin, stdout and stderr. Raises StreamError."""
    owner = local.security_context
    who: dict[str, Any] = {}
    if owner is not None and owner.run_as_user is not None:
        who["user"] = owner.run_as_user
    if owner is not None and owner.run_as_group is not None:
        who["group"] = owner.run_as_group
    variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
    if terminal is not None:
        variables["TERM"] = "xterm"
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            command[0],
            *command[1:],
            stdin=ends[0],
            stdout=ends[1],
            stderr=ends[2],
            cwd=local.work_dir or None,
            env={**variables, **{each.name: each.value for each in local.envs}},
            preexec_fn=functools.partial(_begin_session, terminal),
            **who,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise StreamError(f"{command[0]} cannot be run: {error}") from error
    except asyncio.CancelledError:  # the command may run already, and have started others: asyncio would end it alone
        with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
            await _kill_session(await starting)
        raise
    try:
        yield process
    finally:
        await _kill_session(process)


async def _kill_session(process: asyncio.subprocess.Process) -> None:
    """Kill a command and all that it has started."""
    with contextlib.suppress(ProcessLookupError):  # the session has ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _begin_session(terminal: int | None) -> None:
    """In the new process: lead a session, which has the terminal if there is one, so that it stops jobs and tells of its size.

    Signals that this process ignores (those of the keyboard, when a script started it in the background) have their
    effect again, as in any container.
    """
    os.setsid()
    for ignored in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_DFL)
    if terminal is not None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _exit_code(code: int) -> int:
    return code if code >= 0 else _SHELL_SIGNALLED - code


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait((task,))


async def _feed(source: Reader | None, target: asyncio.StreamWriter | None) -> None:
    """What the client types, until it ends or nobody reads it any more."""
    if source is None or target is None:
        return
    with contextlib.suppress(ConnectionError):
        while piece := await source.read():
            target.write(piece)
            await target.drain()
        target.close()


async def _pass_on(source: asyncio.StreamReader | None, target: Writer | None) -> None:
    """Raises ConnectionError when the client has gone."""
    while source is not None and target is not None and (piece := await source.read(_CHUNK)):
        await target.write(piece)


async def _show(main: int, target: Writer | None) -> None:
    """What a terminal shows goes to the client. When its last program has ended, it cannot be read any more."""
    while True:
        await _ready(main, writing=False)
        try:
            piece = os.read(main, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return
        if not piece:
            return
        if target is not None:
            await target.write(piece)


async def _type(source: Reader | None, main: int) -> None:
    """What the client types goes to the terminal."""
    while source is not None and (piece := await source.read()):
        while piece:
            await _ready(main, writing=True)
            try:
                piece = piece[os.write(main, piece) :]
            except BlockingIOError:
                continue
            except OSError:
                return  # the program has ended


async def _ready(descriptor: int, *, writing: bool) -> None:
    """Wait until something can be read or written."""
    loop = asyncio.get_running_loop()
    is_ready = loop.create_future()
    add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)

    def tell() -> None:
        if not is_ready.done():
            is_ready.set_result(None)

    add(descriptor, tell)
    try:
        await is_ready
    finally:
        remove(descriptor)


async def _resize(sizes: Sizes | None, main: int) -> None:
    while sizes is not None and (size := await sizes.next()) is not None:
        with contextlib.suppress(OSError, struct.error):  # the program has ended; a size that no terminal has
            fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", size.height, size.width, 0, 0))

"""Network namespaces without names: they vanish with the process that holds them, however that ends. Needs root.

A thread moves into a namespace to make sockets there, which stay in it wherever they are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")
_NEW_NETWORK: Final = 0x40000000
_LIBRARY: Final = ctypes.CDLL(None, use_errno=True)


class Namespace:
    """A network namespace whose loopback interface is up. name: for messages."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.file = -1
        """Descriptor that keeps it."""

        def unshare() -> None:
            _check(_LIBRARY.unshare(_NEW_NETWORK))
            self.file = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

        _in_thread(unshare)
        self.path = f"/proc/{os.getpid()}/fd/{self.file}"
        for sysctl in (
            "ipv6/conf/all/accept_dad",
            "ipv6/conf/default/accept_dad",
            "ipv6/conf/default/router_solicitations",
        ):
            self.write(sysctl, "0")  # addresses are of use at once
        self.ip("link set lo up")

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in the namespace, in a thread of its own. Programs that it starts are there, too."""

        def entered() -> T:
            _check(_LIBRARY.setns(self.file, _NEW_NETWORK))
            return function()

        return _in_thread(entered)

    def command(self, *words: str, stdin: str = "") -> str:
        """Run a program in the namespace."""
        done = self.run(lambda: subprocess.run(words, input=stdin, capture_output=True, text=True, check=False))
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def ip(self, *lines: str) -> None:
        """Commands of `ip`."""
        self.command("ip", "-force", "-batch", "-", stdin="".join(f"{line}\n" for line in lines))

    def nft(self, transaction: str) -> None:
        """A transaction of nftables."""
        self.command("nft", "-f", "-", stdin=transaction)

    def write(self, sysctl: str, value: str) -> None:
        """Set a file below /proc/sys/net."""

        self.run(lambda: Path("/proc/sys/net", sysctl).write_text(value))

    def socket(self, address: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket in the namespace, of the family of an address."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return self.run(lambda: socket.socket(family, kind))

    def close(self) -> None:
        """Let the kernel remove it."""
        os.close(self.file)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """The calling thread is in the namespace for a while; threads and processes that it starts meanwhile stay there."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_LIBRARY.setns(self.file, _NEW_NETWORK))
            try:
                yield
            finally:
                _check(_LIBRARY.setns(before, _NEW_NETWORK))
        finally:
            os.close(before)

    def loop(self) -> NamespaceLoop:
        """An event loop of its own in the namespace."""
        return NamespaceLoop(self.file)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class NamespaceLoop:
    """An event loop in a thread of a namespace; threads and processes that it starts are there, too."""

    def __init__(self, file: int) -> None:
        self._loop = asyncio.new_event_loop()
        entered: Future[None] = Future()

        def run() -> None:
            try:
                _check(_LIBRARY.setns(file, _NEW_NETWORK))
            except OSError as error:
                entered.set_exception(error)
                return
            entered.set_result(None)
            asyncio.set_event_loop(self._loop)
            self._loop.run_forever()

        self._thread = threading.Thread(target=run)
        self._thread.start()
        entered.result()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = 60) -> T:
        """The result of a coroutine that runs there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    def close(self) -> None:
        """Stop it, and its threads."""
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _in_thread(function: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def why_not() -> str:
    """Why this process can make no namespaces with rules in them; "" if it can."""
    if os.geteuid() != 0:
        return "needs root"
    try:
        with Namespace("probe") as probe:
            probe.command("nft", "list", "tables")
    except (OSError, AssertionError) as error:
        return f"network namespaces or nft do not work here: {error}"
    return ""


needs_namespaces = pytest.mark.skipif(bool(_reason := why_not()), reason=_reason)
"""For tests with rules in a kernel."""

"""Network namespaces without names: they vanish with the process that holds them, however that ends.

A thread moves into a namespace to make sockets there, which stay in it wherever they are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(code: int) -> None:
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Namespace:
    """A network namespace, and a thread in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.file = self._pool.submit(self._enter).result()
        """Descriptor that names it."""

    def _enter(self) -> int:
        _checked(_libc.unshare(_CLONE_NEWNET))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY)

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in a thread that is in the namespace."""
        return self._pool.submit(function).result()

    def command(self, *words: str, text: str = "") -> str:
        """Run a program in the namespace and return what it prints."""

        def run() -> str:
            done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
            if done.returncode:
                raise AssertionError(f"{' '.join(words)}: {done.stderr}")
            return done.stdout

        return self.run(run)

    def set_sysctl(self, name: str, value: str) -> None:
        """Write below /proc/sys/net, which shows the namespace of the thread that opens a file."""
        self.run(lambda: Path("/proc/sys/net", name).write_text(value))

    def loop(self) -> NamespaceLoop:
        """An event loop of its own in the namespace."""
        return NamespaceLoop(self.file)

    def __enter__(self) -> Namespace:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        os.close(self.file)


class NamespaceLoop:
    """An event loop in a thread of a namespace; threads and processes that it starts are there, too."""

    def __init__(self, file: int) -> None:
        self._loop = asyncio.new_event_loop()
        entered: Future[None] = Future()

        def run() -> None:
            try:
                _checked(_libc.setns(file, _CLONE_NEWNET))
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


def connect(here: Namespace, there: Namespace, name: str) -> tuple[str, str]:
    """Make a pair of interfaces between two namespaces; returns their names here and there."""
    other = f"to-{here.name}"
    path = f"/proc/{os.getpid()}/fd/{there.file}"
    here.command("ip", "link", "add", name, "type", "veth", "peer", "name", other, "netns", path)
    for namespace, interface in ((here, name), (there, other)):
        namespace.command("ip", "link", "set", interface, "up")
    return name, other


@contextlib.contextmanager
def namespaces(*names: str) -> Iterator[list[Namespace]]:
    """Namespaces with their loopback interfaces up; addresses of IPv6 are usable at once."""
    with contextlib.ExitStack() as stack:
        made = [stack.enter_context(Namespace(name)) for name in names]
        for one in made:
            one.set_sysctl("ipv6/conf/all/accept_dad", "0")
            one.set_sysctl("ipv6/conf/default/accept_dad", "0")
            one.command("ip", "link", "set", "lo", "up")
        yield made


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

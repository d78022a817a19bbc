"""The addresses of names that the server connects to: those of simulated pods are left out, and `localhost` is this machine whatever its name service says."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from bayplan.apiserver.routing.forwards import is_loopback

_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Resolver(AbstractResolver):
    """Looks names up with the machine's name service."""

    def __init__(self, refuses: Callable[[str], str]) -> None:
        """refuses: why an address must not be dialled; "" if it may."""
        self._refuses = refuses
        self._names = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. Raises OSError if there are none, or none that may be dialled."""
        if is_loopback(host):
            return [
                ResolveResult(hostname=host, host=address, port=port, family=of, proto=0, flags=socket.AI_NUMERICHOST)
                for of, address in _LOOPBACK
                if family in (socket.AF_UNSPEC, of)
            ]
        found = await self._names.resolve(host, port, family)
        allowed = [one for one in found if not self._refuses(one["host"])]
        if found and not allowed:
            raise OSError(errno.EHOSTUNREACH, self._refuses(found[0]["host"]))
        return allowed

    async def close(self) -> None:
        """See AbstractResolver."""
        await self._names.close()

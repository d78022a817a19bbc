"""Transactions go to the kernel through nftables' own front end: the library libnftables, or the program `nft`.

The library keeps its socket, and so takes a few milliseconds for a small transaction. The program takes five times as long: it has to be started, and when it
ends the kernel lets it wait until memory of deleted rules can be freed. Large transactions go to the program nevertheless, whose memory goes with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
from typing import Final, Protocol

from bayplan.proxy.errors import RequirementError, RulesError
from bayplan.support.blocking import Blocking, in_thread
from bayplan.support.system.programs import ProgramError, run

logger = logging.getLogger(__name__)
_LIBRARY: Final = "libnftables.so.1"
_LARGE: Final = 65_536
"""Bytes of a transaction from which on the program takes it."""


class RulesWriter(Protocol):
    """Brings transactions into the kernel."""

    async def apply(self, text: str) -> None:
        """Do all of it, or nothing. Raises RulesError with what was refused."""


class NftProgram:
    """Starts `nft` for each transaction."""

    async def apply(self, text: str) -> None:
        """See RulesWriter."""
        try:
            await run("nft", "-f", "-", stdin=text.encode())
        except ProgramError as error:
            raise RulesError(str(error)) from error


class NftLibrary:
    """libnftables in this process, in the network namespace of the thread that makes it. Raises RequirementError if it is not there."""

    def __init__(self, blocking: Blocking = in_thread) -> None:
        try:
            library = ctypes.CDLL(_LIBRARY)
        except OSError as error:
            raise RequirementError(f"{_LIBRARY} cannot be loaded: {error}; install the package libnftables1") from error
        library.nft_ctx_new.restype = ctypes.c_void_p
        library.nft_ctx_new.argtypes = (ctypes.c_uint32,)
        library.nft_ctx_free.argtypes = (ctypes.c_void_p,)
        library.nft_ctx_get_error_buffer.restype = ctypes.c_char_p
        for function in (library.nft_ctx_buffer_error, library.nft_ctx_buffer_output, library.nft_ctx_get_error_buffer):
            function.argtypes = (ctypes.c_void_p,)
        library.nft_run_cmd_from_buffer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
        self._library = library
        self._context: int = library.nft_ctx_new(0)
        self._blocking = blocking
        self._lock = asyncio.Lock()
        library.nft_ctx_buffer_error(self._context)
        library.nft_ctx_buffer_output(self._context)

    async def apply(self, text: str) -> None:
        """See RulesWriter."""
        async with self._lock:
            await self._blocking(lambda: self._run(text))

    def close(self) -> None:
        """Give the library's memory back. Nothing may be applied from now on."""
        self._library.nft_ctx_free(self._context)

    def _run(self, text: str) -> None:
        if self._library.nft_run_cmd_from_buffer(self._context, text.encode()):
            said = self._library.nft_ctx_get_error_buffer(self._context).decode(errors="replace").strip()
            raise RulesError(f"nft refuses a transaction: {said}")


class Nft:
    """Small transactions through the library, if it is there; all others through the program."""

    def __init__(self) -> None:
        self._program = NftProgram()
        self._library: NftLibrary | None = None
        try:
            self._library = NftLibrary()
        except RequirementError as error:
            logger.info("changes go through the program nft, which is slower: %s", error)

    async def apply(self, text: str) -> None:
        """See RulesWriter."""
        writer = self._program if self._library is None or len(text) > _LARGE else self._library
        await writer.apply(text)

    def close(self) -> None:
        """Close the library."""
        if self._library is not None:
            self._library.close()

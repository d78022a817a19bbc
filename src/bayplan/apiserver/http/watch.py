"""Watches over HTTP: each event goes to the connections of all who watch, and who does not read is waited for, then cut off.

    event -> Watcher.put -> idle_sink: the watcher is ready -> one callback of the loop writes to a slice of the ready ones, the next to the next slice

A task per watch opens and ends the stream. It sleeps while events go straight to the connection: waking a thousand tasks for one event costs more than
writing to their connections. It is woken when something is to be waited for: a connection that takes no more, the end.
"""

from __future__ import annotations

import asyncio
from collections import deque

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from bayplan.api.errors import gone
from bayplan.apiserver.context import Context
from bayplan.apiserver.http.body import sends_chunks
from bayplan.apiserver.reads.bookmarks import bookmark_entry
from bayplan.apiserver.reads.representation import error_event
from bayplan.apiserver.reads.watching import BOOKMARK, Item, Watcher

_BUFFER = 1 << 16
"""Bytes that may wait on a watch's connection before the watch waits for the client."""
_SLICE = 100
"""Watchers that are written to before the loop looks for other work: a millisecond or so."""
_AT_ONCE = 32
"""Events of one watch that are written as one piece: less than a hundred kilobytes, in which others have their turn."""


class WatchStreams:
    """The watches that are streamed over HTTP."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._streams: dict[Watcher, _Stream] = {}
        self._ready: deque[Watcher] = deque()
        """Watchers with idle readers that have events."""
        self._is_scheduled = False
        """Whether the loop is to write to those."""
        self._line = self._chunk = b""
        """What was sent last, and the same as a chunk: all watchers of one event share it."""

    async def serve(self, http: web.BaseRequest, headers: CIMultiDict[str], watcher: Watcher) -> web.StreamResponse:
        """Stream a watch until it ends or the client goes."""
        answer = web.StreamResponse(headers=headers)
        chunked = sends_chunks(http)
        if chunked:
            answer.enable_chunked_encoding()
        writer, transport = await answer.prepare(http), http.transport
        clock = self._context.clock
        self._streams[watcher] = stream = _Stream(http, transport, chunked=chunked)
        timer = clock.call_later(watcher.timeout, watcher.close) if watcher.timeout else None
        bookmarks = asyncio.create_task(self._bookmark(watcher)) if watcher.bookmarks else None
        watcher.idle_sink = self._is_ready
        try:
            while await watcher.wait():
                if writer is None or transport is None or transport.is_closing():
                    break
                if transport.get_write_buffer_size() > _BUFFER and not await self._has_read(writer, transport):
                    break
                self._write(stream, watcher, watcher.take(_AT_ONCE))
            if watcher.overrun:
                status = gone("the watch was too slow and has been ended").status
                await answer.write(error_event(watcher.media_type, status))
            elif watcher.expired:
                status = gone("too old resource version: the server has missed events").status
                await answer.write(error_event(watcher.media_type, status))
            await answer.write_eof()
        except (ConnectionResetError, asyncio.CancelledError):
            pass  # the client has gone; there is nobody to tell
        finally:
            watcher.close()
            del self._streams[watcher]
            if timer is not None:
                timer.cancel()
            if bookmarks is not None:
                bookmarks.cancel()
        return answer

    async def _has_read(self, writer: AbstractStreamWriter, transport: asyncio.Transport) -> bool:
        """Wait until the client has read most of what it was sent; False if it has gone, or is cut off because it does not read."""
        try:
            async with asyncio.timeout(self._context.settings.request_timeout):
                await writer.drain()
        except TimeoutError:
            transport.abort()
        return not transport.is_closing()

    def close(self) -> None:
        """End all watches."""
        for watcher in tuple(self._streams):
            watcher.close()

    def reap(self) -> None:
        """End watches whose client went away while nothing happened: nobody notices otherwise."""
        for watcher, stream in tuple(self._streams.items()):
            transport = stream.http.transport
            if transport is None or transport.is_closing():
                watcher.close()
            elif watcher.overrun:
                transport.abort()  # it does not read what ends its watch either

    def _is_ready(self, watcher: Watcher) -> None:
        self._ready.append(watcher)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_ready)

    def _write_ready(self) -> None:
        """Write to the connections of the first ready watchers, and come again for the others."""
        ready = self._ready
        for _ in range(min(_SLICE, len(ready))):
            self._pass_on(ready.popleft())
        self._is_scheduled = bool(ready)
        if ready:
            asyncio.get_running_loop().call_soon(self._write_ready)

    def _pass_on(self, watcher: Watcher) -> None:
        """Write what waits for a watcher, or wake its task if that has to wait or to end."""
        if not watcher.is_idle:
            return
        stream = self._streams[watcher]
        transport = stream.transport
        if transport is None or transport.is_closing() or transport.get_write_buffer_size() > _BUFFER:
            watcher.wake()
            return
        try:
            self._write(stream, watcher, watcher.take(_AT_ONCE))
        except Exception as error:  # raised in the task of the watch: it concerns nobody else
            watcher.wake(error)
        else:
            if watcher.has_events:
                self._is_ready(watcher)

    def _write(self, stream: _Stream, watcher: Watcher, batch: list[Item]) -> None:
        line = watcher.line(*batch[0]) if len(batch) == 1 else b"".join([watcher.line(*one) for one in batch])
        if stream.is_chunked:  # what aiohttp would write, at a third of the cost
            if line is not self._line:
                self._line, self._chunk = line, b"%x\r\n%b\r\n" % (len(line), line)
            line = self._chunk
        assert stream.transport is not None
        stream.transport.write(line)

    async def _bookmark(self, watcher: Watcher) -> None:
        """Tell the client now and then how far it is."""
        context = self._context
        while not watcher.closed:
            await context.clock.sleep(context.settings.bookmark_interval)
            stored, revision = context.kinds.storage_kind(watcher.kind), context.objects.revision_of(watcher.kind)
            watcher.put(BOOKMARK, bookmark_entry(stored, revision), None)


class _Stream:
    """The connection of one watch."""

    __slots__ = ("http", "is_chunked", "transport")

    def __init__(self, http: web.BaseRequest, transport: asyncio.Transport | None, *, chunked: bool) -> None:
        self.http = http
        self.transport = transport
        self.is_chunked = chunked

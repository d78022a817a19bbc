"""The scenarios for people who learn: listed from their files, played by the command line program when a page opens one.

Nothing is read or imported before a page asks. A scenario is the same each time, so that its recording is kept.
"""

from __future__ import annotations

import asyncio

import msgspec
from aiohttp import web

from bayplan.ui.errors import RequestError
from bayplan.ui.questions import named, program_output


class Lessons:
    """Answers what pages ask about scenarios."""

    def __init__(self) -> None:
        self._recordings: dict[str, asyncio.Task[bytes]] = {}

    def add_routes(self, app: web.Application) -> None:
        """Serve them."""
        app.router.add_get("/api/learn", self._list)
        app.router.add_get("/api/learn/{name}", self._recording)

    async def _list(self, _: web.Request) -> web.Response:
        from bayplan.simulation.lessons.lesson import ORDER, read_lesson

        listed = [
            {"name": name, "title": one.title, "summary": one.summary, "steps": len(one.steps)}
            for name in ORDER
            for one in (read_lesson(name),)
        ]
        return web.Response(body=msgspec.json.encode(listed), content_type="application/json")

    async def _recording(self, request: web.Request) -> web.Response:
        name = named(request.match_info["name"])
        body = await asyncio.shield(self._task(name))
        response = web.Response(body=body, content_type="application/json")
        response.enable_compression()
        return response

    def _task(self, name: str) -> asyncio.Task[bytes]:
        """The one that plays a scenario, or has played it. Failed ones are not kept."""
        from bayplan.simulation.lessons.lesson import ORDER

        if name not in ORDER:
            raise RequestError(404, f"there is no scenario {name[:60]}")
        task = self._recordings.get(name)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._recordings[name] = asyncio.create_task(_played(name))
        return task

    async def close(self) -> None:
        """End what plays."""
        tasks = list(self._recordings.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _played(name: str) -> bytes:
    code, output, errors = await program_output(("learn", "--output=json", "--", name))
    if code:
        said = errors.decode(errors="replace").strip().splitlines()
        raise RequestError(500, said[-1].removeprefix("bayplan: ") if said else f"bayplan learn ended with {code}")
    return msgspec.json.format(output, indent=-1)

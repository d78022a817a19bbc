"""The page's own files: read once, from the package, and nothing else."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from aiohttp import web

from bayplan.ui.errors import RequestError

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class _File(NamedTuple):
    content: bytes
    packed: bytes
    content_type: str
    tag: str


class StaticFiles:
    """All files of the package's directory `static`, by their paths."""

    def __init__(self) -> None:
        self._files = dict(_read(files("bayplan.ui").joinpath("static"), ""))

    def response(self, path: str, request: web.Request, *, status: int = 200) -> web.Response:
        """A file, or that the browser has it already. Raises RequestError."""
        file = self._files.get(path)
        if file is None:
            raise RequestError(404, "there is no such file")
        headers = {
            "Content-Type": file.content_type,
            "ETag": file.tag,
            "Cache-Control": "no-cache",
            "Vary": "Accept-Encoding",
        }
        if status == 200 and request.headers.get("If-None-Match") == file.tag:
            return web.Response(status=304, headers=headers)
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            return web.Response(status=status, body=file.packed, headers={**headers, "Content-Encoding": "gzip"})
        return web.Response(status=status, body=file.content, headers=headers)


def _read(directory: Traversable, prefix: str) -> list[tuple[str, _File]]:
    found = []
    for one in directory.iterdir():
        if one.is_dir():
            found += _read(one, f"{prefix}{one.name}/")
        elif (kind := one.name.rpartition(".")[2]) in _TYPES:
            content = one.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:20]}"'
            found.append((prefix + one.name, _File(content, gzip.compress(content, 9, mtime=0), _TYPES[kind], tag)))
    return found

"""`/debug/pprof/` and `/debug/flags/`: what a running server does, for people and for `go tool pprof`, and how much it logs.

Source: `net/http/pprof` and the paths that kube-apiserver installs. Tasks of the event loop stand for goroutines. Who may see these pages is authorized by path.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Final

from bayplan.apiserver.requests import TEXT, Request, Response
from bayplan.support.clock import Clock
from bayplan.support.cpu_profile import ProfilingError, cpu_profile
from bayplan.support.logging import change_verbosity

logger = logging.getLogger(__name__)

_ROOT: Final = "/debug/pprof/"
_PLAIN: Final = "text/plain"
_HTML: Final = "text/html; charset=utf-8"
_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}
_DESCRIPTIONS: Final = {
    "goroutine": "Stack traces of all tasks of the event loop. Use debug=2 as a query parameter to see each task's coroutines.",
    "heap": "How many objects of each type are alive.",
    "profile": "Where CPU time goes in the next `seconds` (by default 30), for `go tool pprof`.",
    "threadcreate": "Stack traces of all threads.",
}
_DEFAULT_SECONDS: Final = 30.0
_LONGEST_SECONDS: Final = 300.0
_SHOWN_TYPES: Final = 200


async def profile_page(request: Request, clock: Clock) -> Response | None:
    """The page of a path below `/debug/pprof` or `/debug/flags`; None if there is none."""
    path = request.path
    if path == "/debug/pprof":
        if request.method not in ("GET", "HEAD"):
            return Response(302, b"", "", {"Location": _ROOT})
        return Response(302, b'<a href="/debug/pprof/">Found</a>.\n\n', _HTML, {"Location": _ROOT})
    if path == "/debug/flags" or path.startswith("/debug/flags/"):
        return _flag(request) if path == "/debug/flags/v" else _page(_FLAG_INDEX, _HTML, {})
    if not path.startswith(_ROOT):
        return None
    name = path.removeprefix(_ROOT)
    if not name:
        return _page(_index(), _HTML)
    if name == "profile":
        return await _profile(request, clock)
    text = _TEXTS.get(name)
    if text is None:
        return Response(404, b"Unknown profile\n", TEXT, {**_NOSNIFF, "X-Go-Pprof": "1"})
    return _page(text(request.query.get("debug", "")))


def _page(text: str, media_type: str = TEXT, headers: dict[str, str] | None = None) -> Response:
    return Response(200, text.encode(), media_type, dict(_NOSNIFF) if headers is None else headers, is_final=True)


def _index() -> str:
    counts = {"goroutine": len(asyncio.all_tasks()), "heap": len(gc.get_objects()), "threadcreate": len(_frames())}
    rows = "".join(
        f"<tr><td>{counts.get(name, 0)}</td><td><a href='{name}?debug=1'>{name}</a></td></tr>\n"
        for name in _DESCRIPTIONS
    )
    texts = "".join(f"<li><div class=profile-name>{name}: </div> {text}</li>\n" for name, text in _DESCRIPTIONS.items())
    return (
        f"<html>\n<head>\n<title>{_ROOT}</title>\n</head>\n<body>\n{_ROOT}\n<br>\n<table>\n"
        f"<thead><td>Count</td><td>Profile</td></thead>\n{rows}</table>\n<ul>\n{texts}</ul>\n</body>\n</html>\n"
    )


async def _profile(request: Request, clock: Clock) -> Response:
    try:
        seconds = min(_LONGEST_SECONDS, float(request.query.get("seconds") or _DEFAULT_SECONDS))
    except ValueError:
        seconds = _DEFAULT_SECONDS
    seconds = seconds if seconds > 0 else _DEFAULT_SECONDS
    try:
        data = await cpu_profile(seconds, clock.sleep, clock.now())
    except ProfilingError as error:
        return Response(
            500, f"Could not enable CPU profiling: {error}\n".encode(), TEXT, {**_NOSNIFF, "X-Go-Pprof": "1"}
        )
    headers = {**_NOSNIFF, "Content-Disposition": 'attachment; filename="profile"'}
    return Response(200, data, "application/octet-stream", headers, is_final=True)


def _tasks(debug: str) -> str:
    """Stacks of tasks: with debug=2 each with its name, otherwise equal ones together, the most frequent first."""
    tasks = asyncio.all_tasks()
    if debug == "2":
        return "\n".join(
            f"task {task.get_name()}:\n{_stack_of(task)}" for task in sorted(tasks, key=asyncio.Task.get_name)
        )
    stacks = Counter(_stack_of(task) for task in tasks)
    return f"goroutine profile: total {len(tasks)}\n" + "".join(
        f"{count} @\n{stack}\n" for stack, count in stacks.most_common()
    )


def _stack_of(task: asyncio.Task[object]) -> str:
    frames = task.get_stack()
    lines = [f"#\t{one.f_code.co_qualname}\t{one.f_code.co_filename}:{one.f_lineno}\n" for one in reversed(frames)]
    return "".join(lines) or "#\tended\n"


def _heap(_: str) -> str:
    """Objects by type, as far as the garbage collector follows them: containers and what has attributes."""
    counts = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    rows = "".join(f"{count}: {name}\n" for name, count in counts.most_common(_SHOWN_TYPES))
    return f"heap profile: {counts.total()} objects of {len(counts)} types\n{rows}"


def _threads(_: str) -> str:
    frames = _frames()
    stacks = ("".join(traceback.format_stack(frame)) for frame in frames.values())
    return f"threadcreate profile: total {len(frames)}\n" + "\n".join(stacks)


def _frames() -> dict[int, FrameType]:
    return dict(sys._current_frames())


_TEXTS: Final[dict[str, Callable[[str], str]]] = {"goroutine": _tasks, "heap": _heap, "threadcreate": _threads}

_FLAG_INDEX: Final = (
    "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n<tr>v<br>\n</table>\n"
    "<br>\nfull flags configurable<br>\n</body>\n</html>\n"
)


def _flag(request: Request) -> Response:
    """Change `--v` of the running server to the body of the request."""
    if request.method != "PUT":
        return Response(406, b"unsupported http method\n", _PLAIN, dict(_NOSNIFF))
    text = request.body.decode(errors="replace")
    if not (text.isascii() and text.isdigit()):
        return Response(400, f'strconv.ParseUint: parsing "{text}": invalid syntax\n'.encode(), _PLAIN, dict(_NOSNIFF))
    change_verbosity(int(text))
    logger.warning("%s has set the verbosity of the log to %s", request.user.name, text)
    return Response(200, f"successfully set klog.logging.verbosity to {text}\n".encode(), _PLAIN, dict(_NOSNIFF))

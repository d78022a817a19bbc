"""What queries of requests to the kubelet's server ask for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from multidict import MultiMapping

from bayplan.api.pods.container_logs import LogOptions
from bayplan.kubelet.server.errors import RequestError
from bayplan.support.timestamps import parse_rfc3339

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_STREAMS: Final = ("All", "Stdout", "Stderr")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Which streams of a process are wanted, and whether they are a terminal."""

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


def log_options(query: Mapping[str, str], now: float) -> LogOptions:
    """PodLogOptions of a query. now: Unix time. Raises RequestError: 400 for what cannot be read, 422 for what makes no sense (ValidatePodLogOptions)."""
    tail = query.get("tail") or query.get("tailLines") or ""
    try:
        since_time = parse_rfc3339(query["sinceTime"]) if query.get("sinceTime") else None
        since_seconds = _integer(query.get("sinceSeconds", ""))
        options = LogOptions(
            follow=_truth(query, "follow"),
            previous=_truth(query, "previous"),
            timestamps=_truth(query, "timestamps"),
            since=now - since_seconds if since_seconds is not None else since_time,
            tail_lines=_integer("" if query.get("tail") == "all" else tail),
            limit_bytes=_integer(query.get("limitBytes", "")),
            stream=query.get("stream") or "All",
        )
    except ValueError:
        raise RequestError(400, '{"message": "Unable to decode query."}') from None
    invalid = (
        (options.tail_lines is not None and options.tail_lines < 0)
        or (options.limit_bytes is not None and options.limit_bytes < 1)
        or (since_seconds is not None and (since_seconds < 1 or since_time is not None))
        or options.stream not in _STREAMS
        or (options.stream != "All" and options.tail_lines is not None)
    )
    if invalid:
        raise RequestError(422, '{"message": "Invalid request."}')
    return options


def _integer(text: str) -> int | None:
    """A number as Go reads it; None for an empty text. Raises ValueError."""
    if text and not _INTEGER.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text) if text else None


def _truth(query: Mapping[str, str], name: str) -> bool:
    """Whether something is asked for: by any value but `0` and `false`, also by none."""
    return name in query and query[name].lower() not in ("0", "false")


def stream_options(query: Mapping[str, str]) -> StreamOptions:
    """The streams that exec and attach are to have; a terminal has no stderr. Raises RequestError for none."""
    tty = _is_set(query, "tty")
    options = StreamOptions(
        stdin=_is_set(query, "input", "stdin"),
        stdout=_is_set(query, "output", "stdout"),
        stderr=_is_set(query, "error", "stderr") and not tty,
        tty=tty,
    )
    if not (options.stdin or options.stdout or options.stderr):
        raise RequestError(400, "you must specify at least 1 of stdin, stdout, stderr")
    return options


def _is_set(query: Mapping[str, str], *names: str) -> bool:
    return any(query.get(name, "") in ("1", "true") for name in names)


def ports(query: MultiMapping[str]) -> list[int]:
    """The ports that a WebSocket client names; others name them within the connection. Raises RequestError."""
    found = []
    for text in query.getall("port", []):
        if not text:
            raise RequestError(400, 'query parameter "port" cannot be empty')
        for each in text.split(","):
            if not re.fullmatch("[0-9]+", each) or int(each) > 65535:
                raise RequestError(400, f'unable to parse "{text}" as a port: {_parse_error(each)}')
            if int(each) == 0:
                raise RequestError(400, f'port "{text}" must be > 0')
            found.append(int(each))
    return found


def _parse_error(text: str) -> str:
    reason = "value out of range" if re.fullmatch("[0-9]+", text) else "invalid syntax"
    return f'strconv.ParseUint: parsing "{text}": {reason}'

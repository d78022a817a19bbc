"""Serving a driver: its methods, named after the calls in snake case, at a socket."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from bayplan.csi.services import CALLS, path_of
from bayplan.support.grpc.calls import Method, SocketServer
from bayplan.support.grpc.protobuf_dataclasses import Message

Handler = Callable[[Any], Awaitable[Message]]
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class Driver(Protocol):
    """An object with one method for each call that it answers, such as `node_get_info(request)`. They raise DriverError to refuse."""


def handlers(driver: Driver) -> dict[str, Handler]:
    """What a driver does, by the names of the calls."""
    found = {name: getattr(driver, method_name(name), None) for name in CALLS}
    return {name: handler for name, handler in found.items() if handler is not None}


def method_name(call: str) -> str:
    """The method for a call: `node_get_info` for NodeGetInfo."""
    return _CAPITAL.sub("_", call).lower()


def csi_server(socket: Path, answers: Mapping[str, Handler]) -> SocketServer:
    """A server of what answers calls, by their names, such as `handlers` gives it; other calls are answered with UNIMPLEMENTED."""
    methods: dict[str, Method] = {path_of(name): (CALLS[name].request, answer) for name, answer in answers.items()}
    return SocketServer(socket, methods)

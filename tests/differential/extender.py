"""An extender for both schedulers, whose answers follow from the names of pod and node alone."""

from __future__ import annotations

import contextlib
import json
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bayplan.scheduler.extenders.protocol import Answer, Call
from tests.differential.clusters import Tree


def verdict(pod: str, node: str) -> str:
    """Why a node is refused; "" if it is not. A pod in sixteen is refused everywhere."""
    if zlib.crc32(pod.encode()) % 16 == 0:
        return "never"
    return {0: "busy", 1: "noisy", 2: "never"}.get(zlib.crc32(f"{pod} {node}".encode()) % 10, "")


def filtered(asked: Tree) -> Tree:
    """The answer to a filter question. `never` is said of nodes that no preemption helps."""
    pod = asked["Pod"]["metadata"]["name"]
    items = (asked.get("Nodes") or {}).get("items") or []
    names = asked["NodeNames"] if asked.get("NodeNames") is not None else [one["metadata"]["name"] for one in items]
    verdicts = {name: verdict(pod, name) for name in names}
    kept = [name for name, why in verdicts.items() if not why]
    answer: Tree = {
        "FailedNodes": {name: why for name, why in verdicts.items() if why in ("busy", "noisy")},
        "FailedAndUnresolvableNodes": {name: why for name, why in verdicts.items() if why == "never"},
    }
    if asked.get("NodeNames") is not None:
        return {**answer, "NodeNames": kept}
    return {**answer, "Nodes": {"items": [one for one in items if one["metadata"]["name"] in kept]}}


def scored(asked: Tree) -> list[Tree]:
    """The answer to a question for scores."""
    pod = asked["Pod"]["metadata"]["name"]
    items = (asked.get("Nodes") or {}).get("items") or []
    names = asked["NodeNames"] if asked.get("NodeNames") is not None else [one["metadata"]["name"] for one in items]
    return [{"Host": name, "Score": zlib.crc32(f"{node_of(name)} {pod}".encode()) % 11} for name in names]


def node_of(name: str) -> str:
    """Nodes that end with the same digit get equal scores, so that the scheduler's own scores count as well."""
    return name[-1:]


def answered(call: Call) -> Answer:
    """The answer to the library's question."""
    asked = json.loads(call.body)
    return filtered(asked) if call.verb == "filter" else scored(asked)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = filtered(asked) if self.path.endswith("/filter") else scored(asked)
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """No log."""


@contextlib.contextmanager
def extending(*, by_name: bool) -> Iterator[Tree]:
    """The `extenders` of a configuration, while they answer. by_name: nodes are named and not sent whole."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "extenders": [
                {
                    "urlPrefix": f"http://127.0.0.1:{server.server_address[1]}",
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "weight": 3,
                    "nodeCacheCapable": by_name,
                }
            ]
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

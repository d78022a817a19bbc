"""`etcd` for envtest: it is healthy, and says where the API server is to keep its objects. Nobody else finds an etcd here.

The data directory belongs to this process as it does to etcd, so that an API server that is started again finds what the one before has written.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

from bayplan.envtest.arguments import ArgumentError, flags_of

STORE_PATH: Final = "/bayplan/store"
"""Path at which it says in which directory objects are kept."""
_DEFAULTS: Final = {"listen-client-urls": "http://localhost:2379", "data-dir": "default.etcd"}
_SWITCHES: Final = ("unsafe-no-fsync", "help", "h")
HELP: Final = """\
Usage: etcd [flags]
  A stand-in for envtest, by Bayplan: it keeps no keys, but the place of the API server's store.
  --data-dir DIR                 where that is
  --listen-client-urls URL       where it answers /health
  --unsafe-no-fsync              taken, as are all flags of etcd
"""


def main(words: Sequence[str] | None = None) -> int:
    """The program. words: instead of the command line. Returns the exit code."""
    try:
        flags = {**_DEFAULTS, **dict(flags_of(sys.argv[1:] if words is None else words, _SWITCHES))}
    except ArgumentError as error:
        print(f"etcd: {error}", file=sys.stderr)
        return 2
    if "help" in flags or "h" in flags:
        print(HELP, end="")
        return 0
    directory = Path(flags["data-dir"]).absolute()
    address = urlsplit(flags["listen-client-urls"].split(",")[0])
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        server = ThreadingHTTPServer((address.hostname or "localhost", address.port or 2379), handler_for(directory))
    except (OSError, ValueError) as error:
        print(
            f"etcd: cannot listen on {flags['listen-client-urls']} or keep data in {directory}: {error}",
            file=sys.stderr,
        )
        return 1
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    with server:
        server.serve_forever(poll_interval=3600)
    return 0


def _end(*_: object) -> NoReturn:
    raise SystemExit(0)


def handler_for(directory: Path) -> type[BaseHTTPRequestHandler]:
    """What answers requests."""
    answers: dict[str, dict[str, Any]] = {
        "/health": {"health": "true", "reason": ""},
        "/version": {"etcdserver": "3.6.0", "etcdcluster": "3.6.0"},
        STORE_PATH: {"directory": str(directory)},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = answers.get(urlsplit(self.path).path)
            body = json.dumps(found if found is not None else {"error": "there is no etcd here"}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing of requests."""

    return Handler


if __name__ == "__main__":
    raise SystemExit(main())

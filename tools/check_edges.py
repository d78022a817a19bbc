"""Clock, chance, threads and sockets are touched in few places only: `python -m tools.check_edges`.

Everything else gets time and randomness passed in, and so runs in virtual time as it is. An edge is a module that talks to
the world outside the process, or one that nobody runs in virtual time. Each is named here, with what it may use.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "bayplan"

GUARDED = {
    "time": "time",
    "datetime": "",
    "random": "chance",
    "secrets": "chance",
    "uuid": "chance",
    "threading": "threads",
    "concurrent": "threads",
    "multiprocessing": "threads",
    "socket": "sockets",
    "selectors": "sockets",
    "aiohttp": "sockets",
    "uvloop": "sockets",
    "grpc": "sockets",
    "dbus_fast": "sockets",
}
"""Module -> what it brings. `datetime` brings nothing but its `now`, which is looked for by name."""
CALLS = {
    "to_thread": "threads",
    "run_in_executor": "threads",
    "urandom": "chance",
    "generate_private_key": "chance",
    "random_serial_number": "chance",
    "utcnow": "time",
    "today": "time",
    "datetime.now": "time",
    "start_server": "sockets",
    "open_connection": "sockets",
    "create_connection": "sockets",
    "create_server": "sockets",
    "create_datagram_endpoint": "sockets",
    "asyncio.wait_for": "lost cancellations",
}
"""Last part of a call's name (or `owner.name`) -> what it brings.

Before Python 3.12, `asyncio.wait_for` swallows a cancellation that comes just when what it waits for ends; `asyncio.timeout` does not.
"""
EDGES = {
    "support/": {"time", "chance", "threads", "sockets"},
    "streaming/": {"sockets"},
    "simulation/sweeps/": {"threads"},
    "apiserver/certificates.py": {"chance"},
    "apiserver/service_account_tokens/keys.py": {"chance"},
    "apiserver/http/server.py": {"sockets"},
    "apiserver/http/answer.py": {"sockets"},
    "apiserver/http/connection.py": {"sockets"},
    "apiserver/http/connections.py": {"sockets"},
    "apiserver/http/body.py": {"sockets"},
    "apiserver/http/listener.py": {"sockets"},
    "apiserver/http/messages.py": {"sockets"},
    "apiserver/http/watch.py": {"sockets"},
    "apiserver/http/relay.py": {"sockets"},
    "apiserver/http/stream_translation.py": {"sockets"},
    "apiserver/http/exchange.py": {"sockets"},
    "apiserver/http/http2/": {"sockets"},
    "apiserver/routing/dialing.py": {"sockets"},
    "apiserver/issuer_http.py": {"sockets"},
    "apiserver/routing/resolving.py": {"sockets"},
    "apiserver/webhooks/http.py": {"sockets"},
    "apiserver/subresources/simulated_pods.py": {"sockets"},
    "client/http.py": {"sockets"},
    "client/http_streams.py": {"sockets"},
    "kubelet/simulator/answers/connections.py": {"sockets"},
    "kubelet/logind.py": {"sockets"},
    "kubelet/http_actions.py": {"sockets"},
    "kubelet/prober/grpc_health.py": {"sockets"},
    "kubelet/prober/handlers.py": {"sockets"},
    "kubelet/pods/static_pods.py": {"threads"},
    "kubelet/node/addresses.py": {"sockets"},
    "kubelet/server/": {"sockets"},
    "kubelet/node/certificate_requests.py": {"chance"},
    "kubelet/runtime/cri.py": {"sockets"},
    "dns/datagrams.py": {"sockets"},
    "dns/http_endpoints.py": {"sockets"},
    "dns/listeners.py": {"sockets"},
    "dns/upstreams.py": {"sockets"},
    "proxy/system/connection_tracking.py": {"sockets"},
    "proxy/http_endpoints.py": {"sockets"},
    "proxy/system/kernel_tables.py": {"sockets"},
    "proxy/system/machine_addresses.py": {"sockets"},
    "proxy/system/netlink.py": {"sockets"},
    "proxy/service_health.py": {"sockets"},
    "scheduler/extenders/blocking.py": {"sockets"},
    "scheduler/extenders/http.py": {"sockets"},
    "scheduler/kernels/choice.py": {"threads"},
    "cluster/machine_checks.py": {"sockets"},
    "cluster/cluster.py": {"sockets"},
    "cluster/processes/worker_process.py": {"sockets", "threads"},
    "cluster/processes/group_member.py": {"sockets"},
    "cluster/processes/server_group.py": {"sockets"},
    "cluster/processes/server_process.py": {"sockets"},
    "cluster/processes/child_process.py": {"sockets"},
    "cluster/processes/component_process.py": {"sockets"},
    "cluster/processes/executed_fork_server.py": {"sockets"},
    "cluster/processes/fork_server.py": {"sockets", "time"},
    "cluster/credentials.py": {"chance"},
    "cluster/api_server/encryption.py": {"chance"},
    "cluster/standalone.py": {"sockets"},
    "cluster/questions/what_if_page.py": {"sockets"},
    "ui/lessons.py": {"sockets"},
    "ui/metrics_routes.py": {"sockets"},
    "ui/pod_streams.py": {"sockets"},
    "ui/question_routes.py": {"sockets"},
    "ui/server.py": {"sockets"},
    "ui/static_files.py": {"sockets"},
    "cli/": {"time", "threads", "sockets"},
    "testing/": {"time", "chance", "threads", "sockets"},
}
"""Module or package -> what it may use."""


def uses(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """(line, what stands there, what it brings) of everything guarded."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            brings = CALLS.get(name.rpartition(".")[2]) or CALLS.get(".".join(name.split(".")[-2:]))
            if brings:
                yield node.lineno, f"{name}()", brings
            continue
        else:
            continue
        for name in names:
            brings = GUARDED.get(name.partition(".")[0], "")
            if brings:
                yield node.lineno, f"import {name}", brings


def allowed(module: str) -> set[str]:
    """What a module may use."""
    found: set[str] = set()
    for edge, what in EDGES.items():
        if module == edge or (edge.endswith("/") and module.startswith(edge)):
            found |= what
    return found


def problems(source: Path) -> list[str]:
    """One line for everything that is touched where it must not be."""
    found = []
    for file in sorted(source.rglob("*.py")):
        module = file.relative_to(source).as_posix()
        may = allowed(module)
        for line, what, brings in uses(ast.parse(file.read_text())):
            if brings not in may:
                found.append(
                    f"{module}:{line}: {what} brings {brings}; take it from outside (see tools/check_edges.py)"
                )
    return found


def main() -> int:
    """Exit code: 1 if there are problems, which are printed."""
    found = problems(SOURCE)
    print("\n".join(found) or "clock, chance, threads and sockets are touched at the edges only")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

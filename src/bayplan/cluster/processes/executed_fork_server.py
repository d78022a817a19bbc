"""A fork server apart from the main process, which has an event loop and threads by then: `python -m bayplan.cluster.processes.executed_fork_server HANDLE PID`.

Only the main process starts it, over a socket pair that nobody else has; what it is to do comes through that as a pickle.
"""

from __future__ import annotations

import pickle
from functools import partial

from bayplan.cluster.processes.component_process import load_modules, work
from bayplan.cluster.processes.fork_server import ForkServer, accept, serve
from bayplan.cluster.settings import ClusterSettings
from bayplan.support.logging import logging_verbosity, set_up_logging
from bayplan.support.memory.garbage import collect_seldom


def start_fork_server(settings: ClusterSettings) -> ForkServer:
    """A new fork server for component processes. Raises OSError."""
    return ForkServer.executed(__name__, pickle.dumps((settings, logging_verbosity())))


def main() -> None:
    """What the new process does."""
    control, main_process, task = accept()
    settings, verbosity = pickle.loads(task)
    set_up_logging(verbosity=verbosity)
    collect_seldom()
    serve(control, main_process, load_modules, partial(work, settings=settings))


if __name__ == "__main__":
    main()

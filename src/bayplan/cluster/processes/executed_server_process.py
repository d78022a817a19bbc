"""A fork server for the processes of a group that is not a fork of the main process: `python -m bayplan.cluster.processes.executed_server_process HANDLE PID`."""

from __future__ import annotations

import pickle
from functools import partial

from bayplan.cluster.processes.fork_server import ForkServer, accept, serve
from bayplan.cluster.processes.server_process import GroupPlan, load_modules, work
from bayplan.support.logging import logging_verbosity, set_up_logging
from bayplan.support.memory.garbage import collect_seldom


def start_fork_server(plan: GroupPlan) -> ForkServer:
    """A new fork server, which inherits what the plan names. Raises OSError."""
    return ForkServer.executed(__name__, pickle.dumps((plan, logging_verbosity())), (*plan.sockets, plan.counts))


def main() -> None:
    """What the new process does."""
    control, main_process, task = accept()
    plan, verbosity = pickle.loads(task)
    set_up_logging(verbosity=verbosity)
    collect_seldom()
    serve(control, main_process, load_modules, partial(work, plan=plan))


if __name__ == "__main__":
    main()

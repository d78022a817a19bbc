"""Who listens on a port."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from bayplan.support.system.port_holders import holder_of


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who listens")
def test_the_process_is_found_that_listens_on_a_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert holder_of(port) == ""
        taken.listen()
        assert holder_of(port).startswith(f"process {os.getpid()} (")
    assert holder_of(port) == ""

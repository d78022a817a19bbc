"""What the tests of the page share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.namespaces import Namespace


@pytest.fixture
def quiet_network() -> Iterator[None]:
    """A network in which nothing changes: Chromium gives up its requests whenever an interface comes or goes.

    Without root the test shares the machine's network.
    """
    if os.geteuid() != 0:
        yield
        return
    with Namespace("browser") as namespace, namespace.entered():
        yield

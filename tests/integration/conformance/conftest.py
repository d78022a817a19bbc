"""The cluster that a module's tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conformance.workloads import Workloads, two_nodes


@pytest.fixture(scope="module")
def workloads() -> Iterator[Workloads]:
    """Two nodes, each test in a namespace of its own."""
    with two_nodes() as found:
        yield found

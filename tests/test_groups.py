"""Tests that share something of the machine run one after the other, in one process."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("groups")
def test_groups_of_tests_are_known_to_the_workers(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):  # which xdist sets in its workers
        pytest.skip("tests run in one process, or without groups")
    assert request.node.nodeid.endswith("@groups")

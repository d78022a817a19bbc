"""What holds for all tests."""

from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

settings.register_profile("bayplan", deadline=None)  # a busy machine makes an example slow, not wrong
settings.load_profile("bayplan")

_TESTS: Final = Path(__file__).parent
_WHOLE: Final = ("cluster", "csi_local", "docs", "integration", "javascript", "network", "proxy", "ui")
"""Folders of tests that start whole clusters, containers and networks, beside each other on a machine of two CPUs."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try such tests once more when they fail. The report names those that passed only then (RERUN); one that fails twice has failed."""
    for item in items:
        if item.path.relative_to(_TESTS).parts[0] in _WHOLE:
            item.add_marker(pytest.mark.flaky(reruns=1))

"""What docs/ui.md promises of 5,000 nodes with 50,000 pods, as far as it does not depend on what else the machine does. `tests.ui.measure` has the rest."""

from __future__ import annotations

import asyncio

import pytest

from tests.ui.measure import heap, lateness

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.usefixtures("quiet_network")]


def test_the_page_takes_less_than_80_megabytes() -> None:
    assert asyncio.run(heap()) < 80e6


def test_three_thousand_binds_a_second_are_painted_within_a_second() -> None:
    assert max(asyncio.run(lateness(3000, 3))) < 1000

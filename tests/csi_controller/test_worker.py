"""What workers do with errors that are no answer of the driver."""

from __future__ import annotations

import logging

import pytest

from bayplan.client.errors import TransportError
from bayplan.csi_controller.provisioner import Provisioner
from tests.csi_controller.scenario import Scenario, claim, play, storage_class


def test_an_api_server_that_cannot_be_reached_is_a_warning_and_the_key_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reconcile, failures = Provisioner.reconcile, iter([TransportError("connection refused")])

    async def refused_once(self: Provisioner, key: str) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        await reconcile(self, key)

    async def test(here: Scenario) -> None:
        await here.start()
        await here.create(storage_class())
        await here.create(claim())
        await here.bound()

    monkeypatch.setattr(Provisioner, "reconcile", refused_once)
    play(test)
    (told,) = [one for one in caplog.records if "connection refused" in one.getMessage()]
    assert told.levelno == logging.WARNING
    assert told.exc_info is None

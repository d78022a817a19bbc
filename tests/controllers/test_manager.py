"""How controllers begin."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers import manager
from bayplan.controllers.manager import ControllerManager
from bayplan.store.memory import MemoryStore
from bayplan.support.clock import SystemClock
from bayplan.support.randomness import SystemRandomness
from tests.apiserver.serving import client_of, opened

PATIENCE = 20.0
"""Seconds that anything may take."""
BAD = "/registry/core/secrets/default/a"


@pytest.mark.parametrize("ends_early", [False, True])
def test_controllers_that_need_a_kind_that_cannot_be_listed_hold_up_no_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ends_early: bool
) -> None:
    monkeypatch.setattr(manager, "_SYNC_PATIENCE", 0.1)
    names = ("serviceaccount-controller", "legacy-serviceaccount-token-cleaner-controller")

    async def run() -> None:
        store, clock = MemoryStore(clock=SystemClock()), SystemClock()
        async with opened(store) as server:
            client = client_of(server)
            await store.put(BAD, b"nonsense")
            controllers = ControllerManager(
                client, clock=clock, randomness=SystemRandomness(), root_ca="", enabled=names.__contains__
            )
            running = asyncio.create_task(controllers.run())
            await client.create(core_v1.Namespace(metadata=meta_v1.ObjectMeta(name="team")))
            async with asyncio.timeout(PATIENCE):
                while not running.done():
                    if (await client.list(core_v1.ServiceAccount, "team")).items:
                        break
                    await asyncio.sleep(0.01)
            late = controllers.controllers[1]
            assert late.name == names[1]
            secrets = late.context.informers.informer(core_v1.Secret)
            assert not secrets.has_synced
            if ends_early:
                running.cancel()
                await asyncio.wait([running])
                return
            await store.delete(BAD)
            await asyncio.wait_for(secrets.wait_for_sync(), PATIENCE)
            running.cancel()
            await asyncio.wait([running])

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert f"{names[1]} waits for lists of Secret" in caplog.text
    assert f"{names[0]} waits" not in caplog.text
    assert "crashed" not in caplog.text

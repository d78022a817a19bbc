"""A client together with the server of a store, in one process: for tests of the contract."""

from __future__ import annotations

from pathlib import Path

from bayplan.store.interface import Store
from bayplan.store.remote.client import RemoteStore
from bayplan.store.remote.server import StoreServer
from bayplan.support.clock import Clock


class ServedStore(RemoteStore):
    """`RemoteStore` whose server starts and ends with it."""

    def __init__(self, store: Store, folder: Path, clock: Clock) -> None:
        path = folder / "store.socket"
        super().__init__(path, clock=clock)
        self._server = StoreServer(store, path)
        self._is_served = False

    async def open(self) -> None:
        if not self._is_served:
            self._is_served = True
            await self._server.start()
        await super().open()

    async def close(self) -> None:
        await super().close()
        if self._is_served:
            self._is_served = False
            await self._server.stop()

"""A process that owns a store and serves it until it is killed: `python -m tests.store.remote.owner DATABASE SOCKET`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from bayplan.store.remote.server import StoreServer
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock


async def main(database: Path, socket: Path) -> None:
    server = StoreServer(SqliteStore(database, clock=SystemClock()), socket)
    await server.start()
    print("serving", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))

"""Run by test_crash: writes into a store until it is killed, and says what was acknowledged.

Arguments: path of the database, number of writers. Each line on standard output is `key revision` of one acknowledged
write, handed to the system before the next write of that writer starts.
"""

from __future__ import annotations

import asyncio
import os
import sys

from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock


async def main(path: str, writers: int) -> None:
    # A small write-ahead log and short steps, so that the kill also hits checkpoints and compaction.
    settings = SqliteSettings(
        checkpoint_pages=50, compaction_step=20, compaction_interval=0.005, history=HistorySettings(keep_revisions=400)
    )
    store = SqliteStore(path, clock=SystemClock(), settings=settings)
    await store.open()

    async def write(writer: int) -> None:
        found = await store.get(f"/w/{writer}")
        revision = found.mod_revision if found else 0
        number = 0
        while True:
            number += 1
            key = f"/w/{writer}"
            if number % 10 == 0:
                revision = await store.delete(key, guard=revision)
                os.write(1, f"{key} {revision}\n".encode())
                revision = 0
            else:
                revision = await store.put(key, f"{number} ".encode() * 100, guard=revision)
                os.write(1, f"{key} {revision}\n".encode())

    os.write(1, b"ready\n")
    await asyncio.gather(*[write(writer) for writer in range(writers)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

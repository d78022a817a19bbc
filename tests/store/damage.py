"""Random damage to the files of a store: `python -m tests.store.damage [SEEDS] [FIRST]` tries many seeds and prints each one that fails.

Whatever is damaged: the store opens and holds exactly what it held, or it refuses as damaged. If it refuses, repairing what
is left gives objects that are as they were, and none that is lost without being named.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bayplan.store.errors import StoreCorrupt
from bayplan.store.interface import Event, KeyValue
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.repair import RepairError, repair
from bayplan.store.sqlite.store import SqliteStore
from bayplan.testing.clock import ManualClock

SETTINGS = SqliteSettings(history=HistorySettings(automatic=False), value_cache_bytes=0)


@dataclass(frozen=True)
class Held:
    """What a store holds."""

    revision: int
    compacted: int
    items: list[KeyValue]
    past: list[KeyValue]
    """The items as of the compacted revision."""
    events: list[Event]


async def held(path: Path) -> Held:
    """Everything that can be read of a store."""
    store = SqliteStore(path, clock=ManualClock(), settings=SETTINGS)
    await store.open()
    try:
        events: list[Event] = []
        await store.watch("", store.compacted_revision, events.extend)
        items = (await store.range("", "~")).items
        past = (await store.range("", "~", revision=store.compacted_revision or 1)).items
        return Held(store.revision, store.compacted_revision, items, past, events)
    finally:
        await store.close()


async def fill(path: Path, seed: int, copy: Path | None = None) -> None:
    """Write, delete and compact; with `copy`, copy the files while the newest writes are in the write-ahead log only."""
    chance = random.Random(seed)
    store = SqliteStore(path, clock=ManualClock(), settings=SETTINGS)
    await store.open()
    for step in range(6):
        keys = [f"/registry/pods/default/pod-{chance.randrange(150):03d}" for _ in range(60)]
        await asyncio.gather(*[store.put(key, chance.randbytes(chance.randrange(3000))) for key in keys])
        here = [item.key for item in (await store.range("/", "0")).items]
        for key in chance.sample(here, 8):
            await store.delete(key)
        if step == 3:
            await store.compact(store.revision - 40)
    if copy is not None:
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    await store.close()


@dataclass
class Original:
    """The files of one undamaged store."""

    directory: Path
    name: str
    was: Held

    @property
    def files(self) -> list[Path]:
        return [one for one in (self.directory / self.name, self.directory / f"{self.name}-wal") if one.exists()]


def originals(directory: Path) -> list[Original]:
    """A store that was closed, and the same one as a killed process leaves it."""
    closed, killed = directory / "closed.db", directory / "killed.db"
    asyncio.run(fill(closed, 7, killed))
    was = asyncio.run(held(closed))
    return [Original(directory, "closed.db", was), Original(directory, "killed.db", was)]


def damage(chance: random.Random, files: list[Path]) -> str:
    """Change one of the files at random; returns what was done."""
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    kind = chance.choice(("bit", "bytes", "run", "zeros", "swap", "early", "many"))
    if kind == "bit":
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "early":
        data[chance.randrange(min(len(data), 8192 * 6))] ^= 1 << chance.randrange(8)
    elif kind == "bytes":
        for _ in range(chance.randrange(1, 30)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == "many":
        for _ in range(4000):
            data[chance.randrange(len(data))] = chance.randrange(256)
    elif kind == "run":
        start = chance.randrange(len(data))
        size = min(chance.choice((16, 100, 4000)), len(data) - start)
        data[start : start + size] = chance.randbytes(size)
    elif kind == "zeros":
        page = chance.randrange(len(data) // 8192)
        data[page * 8192 : page * 8192 + 8192] = bytes(8192)
    else:
        one, other = (chance.randrange(len(data) // 8192) * 8192 for _ in range(2))
        data[one : one + 8192], data[other : other + 8192] = data[other : other + 8192], data[one : one + 8192]
    path.write_bytes(data)
    return f"{kind} in {path.name}"


def trial(seed: int, original: Original, directory: Path) -> str:
    """Damage a copy of a store and open it; returns what came of it. Raises AssertionError."""
    chance = random.Random(seed)
    path = directory / original.name
    for old in directory.iterdir():
        old.unlink()
    for file in original.files:
        shutil.copy(file, directory / file.name)
    done = damage(chance, [directory / file.name for file in original.files])
    label = f"seed {seed}, {done}"
    before = path.read_bytes()
    try:
        now = asyncio.run(held(path))
    except StoreCorrupt as error:
        assert path.read_bytes() == before, f"{label}: the refusal changed the file"
        return _after_repair(label, path, original.was, error)
    if now != original.was and done.endswith("-wal") and _is_torn(now, original.was):
        return "the last transaction was torn"
    assert now == original.was, f"{label}: other contents"
    return "identical"


def _is_torn(now: Held, was: Held) -> bool:
    """Whether only the last transaction is missing, as after a power failure during it: the last step ends with 8 deletions."""
    return was.revision - 1 == now.revision and now.events == was.events[: len(now.events)]


def _after_repair(label: str, path: Path, was: Held, error: StoreCorrupt) -> str:
    items = {item.key: item for item in was.items}
    is_certain = "is missing" not in str(error) and "write-ahead log" not in str(error)
    for key, revision in error.lost if is_certain else ():
        assert key in items, f"{label}: {key} is named as lost and was never there"
        assert items[key].mod_revision == revision, label
    try:
        report = repair(path, accept_unknown=False).report
    except (RepairError, StoreCorrupt) as refusal:
        text = str(refusal)
    else:
        text = ""
    if text:
        assert str(path) in text, f"{label}: {text}"
        return "refused, with changes of unknown objects" if "unknown" in text else "refused, unreadable"
    now = asyncio.run(held(path))
    for item in now.items:
        assert items[item.key] == item, f"{label}: {item.key} is not as it was"
    lost = items.keys() - {item.key for item in now.items}
    assert lost >= {record.key for record in report.lost}, label
    assert len(lost) <= len(report.lost) + report.missing_objects, f"{label}: lost without being named: {lost}"
    assert now.revision >= was.revision, f"{label}: revisions went back"
    return "refused, and repaired with losses" if lost else "refused, and repaired without loss"


def main(seeds: int, first: int) -> int:
    """Try many seeds; returns how many failed."""
    failed = 0
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        kept, work = Path(directory, "kept"), Path(directory, "work")
        kept.mkdir()
        work.mkdir()
        stores = originals(kept)
        for seed in range(first, first + seeds):
            try:
                outcomes[trial(seed, stores[seed % 2], work)] += 1
            except Exception as error:
                failed += 1
                print(f"FAILED: seed {seed}: {type(error).__name__}: {error}", flush=True)
    for outcome, count in outcomes.most_common():
        print(f"{count:6} {outcome}")
    print(f"{failed:6} failed")
    return failed


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:]]
    sys.exit(bool(main(*numbers, *(4000, 0)[len(numbers) :])))

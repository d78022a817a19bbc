"""Every store keeps the contract."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from bayplan.store.etcd.messages import MESSAGES
from bayplan.store.interface import Store
from bayplan.store.memory import MemoryStore
from bayplan.store.settings import HistorySettings, SqliteSettings
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import Clock
from bayplan.testing.etcd.channel import dial
from bayplan.testing.etcd.cluster import SimulatedEtcd
from bayplan.testing.store_conformance import StoreConformance
from bayplan.testing.store_properties import StoreProperties
from tests.store.etcd.rebased import RebasedEtcdStore
from tests.store.etcd.server import needs_etcd, shared_server
from tests.store.remote.served import ServedStore

needs_unix_sockets = pytest.mark.skipif(sys.platform != "linux", reason="paths of sockets are shortened by /proc")


class TestMemoryStore(StoreConformance, StoreProperties):
    examples = 200

    def make_store(self, folder: Path, clock: Clock) -> Store:
        return MemoryStore(clock=clock)


class TestSqliteStore(StoreConformance, StoreProperties):
    def make_store(self, folder: Path, clock: Clock) -> Store:
        return SqliteStore(folder / "store.db", clock=clock)


class TestSqliteStoreWithoutCache(StoreConformance, StoreProperties):
    """Values always come from the file, and compaction goes revision by revision."""

    examples = 30

    def make_store(self, folder: Path, clock: Clock) -> Store:
        settings = SqliteSettings(value_cache_bytes=0, compaction_step=1, history=HistorySettings(automatic=False))
        return SqliteStore(folder / "store.db", clock=clock, settings=settings)


@needs_unix_sockets
class TestRemoteSqliteStore(StoreConformance, StoreProperties):
    """The store of another process, here of another object on the same loop."""

    def make_store(self, folder: Path, clock: Clock) -> Store:
        return ServedStore(SqliteStore(folder / "store.db", clock=clock), folder, clock)


@needs_unix_sockets
class TestRemoteMemoryStore(StoreConformance, StoreProperties):
    def make_store(self, folder: Path, clock: Clock) -> Store:
        return ServedStore(MemoryStore(clock=clock), folder, clock)


@needs_etcd
class TestEtcdStore(StoreConformance, StoreProperties):
    """With a real etcd, whose clock is the machine's. Revisions are counted from the one at which the store was opened."""

    examples = 20

    def make_store(self, folder: Path, clock: Clock) -> Store:
        return RebasedEtcdStore(shared_server().endpoint)


class TestEtcdStoreOnSimulatedEtcd(StoreConformance, StoreProperties):
    """With the etcd of the runs in virtual time, here in real time and without faults: what it does is what a real one does."""

    examples = 20

    def make_store(self, folder: Path, clock: Clock) -> Store:
        cluster = SimulatedEtcd(("etcd:2379",), random.Random(1))
        cluster.state.put(MESSAGES["PutRequest"](key=b"first"))  # etcd has no event that a watch could wait for before
        return RebasedEtcdStore("etcd:2379", dial(cluster, "test"))

"""`bayplan store copy`, and `backup`, `restore`, `check`, `compact` with etcd."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bayplan.api import protobuf
from bayplan.api.protobuf import MAGIC
from bayplan.cli.main import main
from bayplan.store.copying import StoredEntry, copy
from bayplan.store.errors import StoreUnavailable
from bayplan.store.etcd.client import EtcdClient
from bayplan.store.etcd.contents import EtcdTarget, present_contents
from bayplan.store.etcd.layout import KeyLayout
from bayplan.store.etcd.settings import EtcdSettings
from bayplan.store.sqlite.contents import SqliteTarget, opened_contents
from bayplan.store.sqlite.store import SqliteStore
from bayplan.support.clock import SystemClock
from tests.store.etcd.server import needs_etcd, shared_server

_PODS = "/registry/core/pods/default/"
_numbers = itertools.count(1)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["store", *map(str, arguments)])


def put(path: Path, values: dict[str, bytes], ttl: float | None = None) -> None:
    """Write keys into a file."""

    async def fill() -> None:
        store = SqliteStore(path, clock=SystemClock())
        await store.open()
        for key, value in values.items():
            await store.put(key, value, ttl=ttl)
        await store.close()

    asyncio.run(fill())


def values(count: int) -> dict[str, bytes]:
    return {f"{_PODS}pod-{number}": b'{"n":%d,"x":"%s"}' % (number, b"x" * 2000) for number in range(count)}


def contents(path: Path) -> dict[str, tuple[bytes, float | None]]:
    """What a file has."""

    async def read() -> dict[str, tuple[bytes, float | None]]:
        with opened_contents(path, SystemClock().now()) as found:
            return {entry.key: (entry.value, entry.seconds) async for page in found.pages() for entry in page}

    return asyncio.run(read())


@pytest.fixture
def etcd() -> Iterator[tuple[str, str]]:
    """The URL of an etcd, and the flag with a prefix of its own."""
    prefix = f"/copies-{next(_numbers)}"
    yield f"etcd://{shared_server().endpoint}", f"--etcd-prefix={prefix}"

    async def empty() -> None:
        client = client_of()
        layout = KeyLayout(prefix, root="/")
        await client.delete(layout.start, layout.end)
        await client.close()

    asyncio.run(empty())


def client_of() -> EtcdClient:
    return EtcdClient(EtcdSettings(endpoints=(shared_server().endpoint,)), clock=SystemClock())


@needs_etcd
def test_a_file_goes_to_etcd_and_back(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    source, back = tmp_path / "a.db", tmp_path / "b.db"
    put(source, values(1200) | {"/registry/core/nodes/one": b"{}", "/registry/example.com/cars/x": b"{}"})
    put(source, {"/registry/core/events/default/e": b"{}"}, ttl=3000)
    put(source, {"/registry/masterleases/127.0.0.1": b"{}"})
    result = run("copy", f"sqlite:{source}", url, prefix, "-o", "json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["objects"], report["expiringObjects"], report["revision"]) == (1203, 1, 1204)
    again = run("copy", url, f"sqlite:{back}", prefix, "-o", "json")
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["checksum"] == report["checksum"]
    first, second = contents(source), contents(back)
    del first["/registry/masterleases/127.0.0.1"]
    assert {key: value for key, (value, _) in first.items()} == {key: value for key, (value, _) in second.items()}
    seconds = second["/registry/core/events/default/e"][1]
    assert seconds is not None
    assert 2900 < seconds < 3100
    assert json.loads(again.stdout)["newRevision"] > 1_000_000_000
    assert run("check", "--store", f"sqlite:{back}").exit_code == 0


@needs_etcd
def test_objects_stand_in_etcd_where_kube_apiserver_has_them(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", {f"{_PODS}a": b"{}", "/registry/core/nodes/one": b"{}"})
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0

    async def keys() -> list[bytes]:
        client = client_of()
        layout = KeyLayout(prefix.partition("=")[2], root="/")
        page = await client.range(layout.start, layout.end)
        await client.close()
        return [kv.key.removeprefix(layout.start) for kv in page.kvs]

    assert asyncio.run(keys()) == [b"minions/one", b"pods/default/a"]


@needs_etcd
def test_nothing_is_overwritten(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", values(3))
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0
    refused = run("copy", f"sqlite:{tmp_path}/a.db", url, prefix)
    assert refused.exit_code == 1
    assert "etcd has 3 keys under /copies-" in refused.stderr
    put(tmp_path / "b.db", {"/registry/kept": b"{}"})
    refused = run("copy", url, f"sqlite:{tmp_path}/b.db", prefix)
    assert refused.exit_code == 1
    assert "is not overwritten" in refused.stderr
    assert list(contents(tmp_path / "b.db")) == ["/registry/kept"]


class Interrupted:
    """Contents of which the second page cannot be read."""

    revision = 7

    async def pages(self) -> AsyncIterator[Sequence[StoredEntry]]:
        yield [StoredEntry(f"{_PODS}a", b"{}", None)]
        raise StoreUnavailable("gone")


class Falsified(SqliteTarget):
    """A target that loses a bit of what it is given."""

    async def write(self, entries: Sequence[StoredEntry]) -> None:
        await super().write([entry._replace(value=entry.value + b" ") for entry in entries])


@needs_etcd
def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path, etcd: tuple[str, str]) -> None:
    async def attempt() -> int:
        client = client_of()
        layout = KeyLayout(etcd[1].partition("=")[2], root="/registry/")
        with pytest.raises(StoreUnavailable, match="gone"):
            await copy(Interrupted(), EtcdTarget(client, layout, SystemClock()))
        left = [entry async for page in (await present_contents(client, layout)).pages() for entry in page]
        await client.close()
        with pytest.raises(StoreUnavailable, match="gone"):
            await copy(Interrupted(), SqliteTarget(tmp_path / "b.db", SystemClock()))
        return len(left)

    assert asyncio.run(attempt()) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_is_not_the_same_is_told(tmp_path: Path) -> None:
    put(tmp_path / "a.db", values(3))

    async def attempt() -> None:
        with (
            opened_contents(tmp_path / "a.db", SystemClock().now()) as source,
            pytest.raises(StoreUnavailable, match="was made: another process has written to it"),
        ):
            await copy(source, Falsified(tmp_path / "b.db", SystemClock()))

    asyncio.run(attempt())
    assert not (tmp_path / "b.db").exists()


def enveloped(name: str) -> bytes:
    """A pod as kube-apiserver keeps it."""
    tree = {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [{"name": "a"}]}}
    return protobuf.envelope("v1", "Pod", protobuf.message_of_tree("v1", tree))


@needs_etcd
def test_what_kube_apiserver_has_written_is_json_in_a_file(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    ports = "/registry/ranges/servicenodeports"
    put(tmp_path / "a.db", {f"{_PODS}a": enveloped("a"), ports: MAGIC + b"...", f"{_PODS}b": b'{"n":1}'})
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0
    done = run("copy", url, f"sqlite:{tmp_path}/b.db", prefix)
    assert done.exit_code == 0, done.output
    found = contents(tmp_path / "b.db")
    assert found.keys() == {f"{_PODS}a", f"{_PODS}b"}
    assert found[f"{_PODS}a"][0].startswith(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"')
    assert found[f"{_PODS}b"][0] == b'{"n":1}'


@needs_etcd
def test_what_cannot_be_read_is_not_copied_into_a_file(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", {f"{_PODS}a": MAGIC + b"\x12\xff"})
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0
    refused = run("copy", url, f"sqlite:{tmp_path}/b.db", prefix)
    assert refused.exit_code == 1
    assert f"unable to transform key '{_PODS}a'" in refused.stderr
    assert not (tmp_path / "b.db").exists()


class Writer:
    """Writes pairs of keys into a file that it has open, the second after the first, until told to stop."""

    def __init__(self, path: Path) -> None:
        self.pairs = 0
        self._stop = threading.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._write(path)))
        self._thread.start()
        assert self._has_begun.wait(20)

    async def _write(self, path: Path) -> None:
        store = SqliteStore(path, clock=SystemClock())
        await store.open()
        while not self._stop.is_set():
            for name in ("z-first", "a-second"):
                await store.put(f"{_PODS}{name}-{self.pairs}", b"{}")
            self.pairs += 1
            if self.pairs == 100:
                self._has_begun.set()
        await store.close()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_copy_of_a_live_store_is_of_one_moment(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a.db")
    try:
        result = run("copy", f"sqlite:{tmp_path}/a.db", f"sqlite:{tmp_path}/b.db")
        assert result.exit_code == 0, result.output
    finally:
        writer.stop()
    names = {key.removeprefix(_PODS) for key in contents(tmp_path / "b.db")}
    first = {name.rpartition("-")[2] for name in names if name.startswith("z")}
    second = {name.rpartition("-")[2] for name in names if name.startswith("a")}
    assert second <= first
    assert len(first) - len(second) <= 1
    assert len(first) >= 100


@needs_etcd
def test_a_backup_of_etcd_comes_back(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", values(20))
    assert run("restore", tmp_path / "a.db", "--store", url, prefix).exit_code == 0
    result = run("backup", tmp_path / "b.db", "--store", url, prefix)
    assert result.exit_code == 0, result.output
    assert contents(tmp_path / "a.db") == contents(tmp_path / "b.db")
    assert run("restore", tmp_path / "b.db", "--store", url, prefix).exit_code == 1


@needs_etcd
def test_check_names_what_cannot_be_read(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", values(5) | {"/registry/core/secrets/default/s": b"k8s:enc:aescbc:v1:one:..."})
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0
    result = run("check", "--store", url, prefix)
    assert result.exit_code == 0, result.output
    assert "is intact: 6 objects, the same at 1 member" in result.stdout

    async def damage() -> None:
        client = client_of()
        await client.put(f"{prefix.partition('=')[2]}/pods/default/pod-3".encode(), b'{"n":3')
        await client.close()

    asyncio.run(damage())
    result = run("check", "--store", url, prefix, "-o", "json")
    assert result.exit_code == 1
    data: dict[str, Any] = json.loads(result.stdout)
    assert (data["intact"], data["unreadable"]) == (False, [f"{_PODS}pod-3"])


@needs_etcd
def test_compact_forgets_the_past_of_etcd(tmp_path: Path, etcd: tuple[str, str]) -> None:
    url, prefix = etcd
    put(tmp_path / "a.db", values(5))
    assert run("copy", f"sqlite:{tmp_path}/a.db", url, prefix).exit_code == 0
    result = run("compact", "--store", url, "-o", "json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)

    async def compacted() -> int:
        client = client_of()
        try:
            return await client.compacted_revision()
        finally:
            await client.close()

    assert data["compactedRevision"] == asyncio.run(compacted())
    assert data["members"][0]["bytes"] > 0


def test_urls_that_are_none_are_usage_errors(tmp_path: Path) -> None:
    assert run("copy", "etcd:127.0.0.1", f"sqlite:{tmp_path}/b.db").exit_code == 2
    assert run("copy", "memory:", f"sqlite:{tmp_path}/b.db").exit_code == 2
    assert run("check", "--store", "etcd://127.0.0.1:1", "--repair").exit_code == 2

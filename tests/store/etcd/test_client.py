"""The client against real etcd."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

import pytest

from bayplan.apiserver.certificates import make_authority, sign
from bayplan.store.etcd.client import EtcdClient, delete_op, get_op, mod_revision_is, put_op, version_is
from bayplan.store.etcd.errors import (
    EtcdAccessDenied,
    EtcdCompacted,
    EtcdError,
    EtcdFutureRevision,
    EtcdLeaseNotFound,
    EtcdNoSpace,
    EtcdTooLarge,
    EtcdUnavailable,
)
from bayplan.support.web.tls_files import TlsFiles
from tests.store.etcd.clients import PATIENCE, Seen, client_of, running, running_cluster
from tests.store.etcd.server import Forwarder, free_ports, needs_etcd, shared_server

pytestmark = needs_etcd
_numbers = itertools.count(1)


def new_key(name: str = "") -> bytes:
    """A key that no other test has."""
    return f"/client-{os.getpid()}-{next(_numbers)}/{name}".encode()


def test_ranges_are_limited_counted_and_as_of_a_revision() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            root = new_key()
            revisions = [await client.put(root + name, name) for name in (b"a", b"b", b"c")]
            page = await client.range(root, root + b"z", limit=2)
            assert ([kv.value for kv in page.kvs], page.count) == ([b"a", b"b"], 3)
            page = await client.range(root, root + b"z", revision=revisions[1])
            assert ([kv.value for kv in page.kvs], page.count) == ([b"a", b"b"], 2)
            page = await client.range(root, root + b"z", keys_only=True, serializable=True)
            assert [(kv.key[-1:], kv.value) for kv in page.kvs] == [(b"a", b""), (b"b", b""), (b"c", b"")]
            page = await client.range(root, root + b"z", count_only=True)
            assert (len(page.kvs), page.count) == (0, 3)
            assert (await client.delete(root, root + b"z"))[0] == 3
            with pytest.raises(EtcdFutureRevision):
                await client.range(root, revision=page.revision + 1000)

    asyncio.run(run())


def test_a_transaction_does_one_branch_as_one_change() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            key, other = new_key("a"), new_key("b")
            made = await client.transaction([mod_revision_is(key, 0)], [put_op(key, b"1"), put_op(other, b"1")])
            assert made.succeeded
            found = [(await client.range(one)).kvs[0].mod_revision for one in (key, other)]
            assert found == [made.revision, made.revision]
            again = await client.transaction([mod_revision_is(key, 0)], [put_op(key, b"2")], [get_op(key)])
            assert not again.succeeded
            assert again.responses[0].response_range.kvs[0].value == b"1"
            gone = await client.transaction([version_is(key, 1)], [delete_op(key)])
            assert (gone.succeeded, (await client.range(key)).count) == (True, 0)

    asyncio.run(run())


def test_keys_of_a_lease_go_with_it_at_one_revision() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            root, seen = new_key(), Seen()
            lease = await client.grant(60)
            assert 0 < await client.time_to_live(lease) <= 60
            assert await client.keep_alive(lease) == 60
            await client.put(root + b"a", b"", lease=lease)
            start = await client.put(root + b"b", b"", lease=lease) + 1
            client.watch(root, root + b"z", start_revision=start, on_events=seen.take, on_lost=seen.lose)
            await client.revoke(lease)
            await seen.until(lambda: len(seen.events) == 2)
            assert {event.kv.mod_revision for event in seen.events} == {start}
            for call in (client.revoke(lease), client.time_to_live(lease), client.keep_alive(lease)):
                with pytest.raises(EtcdLeaseNotFound):
                    await call
            with pytest.raises(EtcdLeaseNotFound):
                await client.put(root, b"", lease=lease)

    asyncio.run(run())


def test_a_key_goes_when_its_lease_expires() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            key, seen = new_key("short"), Seen()
            revision = await client.put(key, b"1", lease=await client.grant(1))
            client.watch(key, start_revision=revision + 1, on_events=seen.take, on_lost=seen.lose, previous=True)
            await seen.until(lambda: bool(seen.events))
            assert (seen.events[0].type, seen.events[0].prev_kv.value) == (1, b"1")

    asyncio.run(run())


def test_maintenance_calls_say_what_the_member_is(tmp_path: Path) -> None:
    async def run() -> None:
        with running(tmp_path) as server:
            async with client_of(server.endpoint) as client:
                status = await client.status()
                assert status.version.startswith("3.")
                assert status.leader == status.member_id != 0
                assert [list(one.client_urls) for one in await client.members()] == [[f"http://{server.endpoint}"]]
                assert await client.alarms() == []
                await client.put(b"/a", b"x" * 100_000)
                size = sum([len(piece) async for piece in client.snapshot()])
                assert size > 100_000

    asyncio.run(run())


def _has_events(seen: Seen, count: int) -> bool:
    return len(seen.events) >= count


def test_watches_share_a_stream_and_see_their_own_keys() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            root = new_key()
            first = await client.put(root + b"0/a", b"first")
            seen = [Seen() for _ in range(50)]
            watches = [
                client.watch(
                    root + b"%d/" % number,
                    root + b"%d0" % number,
                    start_revision=first,
                    on_events=one.take,
                    on_lost=one.lose,
                    previous=True,
                )
                for number, one in enumerate(seen)
            ]
            for number in range(50):
                await client.put(root + b"%d/a" % number, b"%d" % number)
            for one in seen[1:]:
                await one.until(partial(_has_events, one, 1))
            await seen[0].until(partial(_has_events, seen[0], 2))
            assert seen[0].values == [b"first", b"0"]
            assert seen[0].events[1].prev_kv.value == b"first"
            assert [one.values for one in seen[1:]] == [[b"%d" % number] for number in range(1, 50)]
            watches[0].cancel()
            watches[0].cancel()
            await client.put(root + b"0/a", b"late")
            await client.put(root + b"1/a", b"late")
            await seen[1].until(lambda: len(seen[1].events) == 2)
            assert seen[0].values == [b"first", b"0"]

    asyncio.run(run())


def test_large_pasts_come_whole_in_fragments() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            root, seen = new_key(), Seen()
            first = await client.put(root, b"")
            for number in range(12):
                await client.put(root + b"%02d" % number, bytes([number]) * 1_500_000)
            client.watch(root, root + b"z", start_revision=first, on_events=seen.take, on_lost=seen.lose)
            await seen.until(lambda: len(seen.events) == 13)
            assert seen.batches == 1
            assert [value[:1] for value in seen.values] == [b"", *[bytes([number]) for number in range(12)]]
            await client.delete(root, root + b"z")

    asyncio.run(run())


def test_a_watch_whose_start_was_compacted_is_lost_not_skipped() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            key, seen = new_key("a"), Seen()
            first = await client.put(key, b"1")
            last = await client.put(key, b"2")
            await client.compact(last)
            with pytest.raises(EtcdCompacted):
                await client.compact(last)
            assert await client.compacted_revision() == last
            client.watch(key, start_revision=first, on_events=seen.take, on_lost=seen.lose)
            await seen.until(lambda: bool(seen.lost))
            assert isinstance(seen.lost[0], EtcdCompacted)
            assert (seen.lost[0].compact_revision, seen.events) == (last, [])

    asyncio.run(run())


def test_a_watch_that_would_begin_at_the_compacted_revision_is_lost_since_a_deletion_there_is_not_kept() -> None:
    async def run() -> None:
        async with client_of(shared_server().endpoint) as client:
            key = f"/gone-{os.getpid()}".encode()
            await client.put(key, b"1")
            _, deleted = await client.delete(key)
            last = await client.put(key, b"2")
            await client.compact(deleted)
            at, behind = Seen(), Seen()
            client.watch(key, start_revision=deleted, on_events=at.take, on_lost=at.lose)
            client.watch(key, start_revision=last, on_events=behind.take, on_lost=behind.lose)
            await at.until(lambda: bool(at.lost))
            await behind.until(lambda: bool(behind.events))
            assert isinstance(at.lost[0], EtcdCompacted)
            assert at.events == []
            assert behind.values == [b"2"]

    asyncio.run(run())


def test_a_watch_goes_on_after_the_network_was_away_without_gap_or_repeat() -> None:
    async def run() -> None:
        server = shared_server()
        forwarder = Forwarder(server.port)
        await forwarder.mend()
        async with client_of(server.endpoint) as direct, client_of(f"127.0.0.1:{forwarder.port}") as client:
            key, seen = new_key("a"), Seen()
            start = await direct.put(key, b"0")
            client.watch(key, start_revision=start, on_events=seen.take, on_lost=seen.lose)
            for number in range(1, 100):
                await direct.put(key, b"%d" % number)
                if number % 30 == 0:
                    await seen.until(lambda: seen.values[-1:] != [])
                    await forwarder.cut()
                if number % 30 == 10 and number > 30:
                    await forwarder.mend()
            await forwarder.mend() if not forwarder.is_whole else None
            await seen.until(lambda: seen.values[-1:] == [b"99"])
            assert seen.values == [b"%d" % number for number in range(100)]
            assert seen.lost == []
        await forwarder.cut()

    asyncio.run(run())


def test_a_watch_whose_next_events_were_compacted_while_the_network_was_away_is_lost() -> None:
    async def run() -> None:
        server = shared_server()
        forwarder = Forwarder(server.port)
        await forwarder.mend()
        async with client_of(server.endpoint) as direct, client_of(f"127.0.0.1:{forwarder.port}") as client:
            key, seen = new_key("a"), Seen()
            start = await direct.put(key, b"0")
            client.watch(key, start_revision=start, on_events=seen.take, on_lost=seen.lose)
            await seen.until(lambda: bool(seen.events))
            await forwarder.cut()
            await direct.put(key, b"missed")
            last = await direct.put(key, b"missed too")
            await direct.compact(last)
            await forwarder.mend()
            await seen.until(lambda: bool(seen.lost))
            assert isinstance(seen.lost[0], EtcdCompacted)
            assert (seen.lost[0].compact_revision, seen.values) == (last, [b"0"])
        await forwarder.cut()

    asyncio.run(run())


def test_calls_and_watches_move_to_a_member_that_lives(tmp_path: Path) -> None:
    async def run() -> None:
        with running_cluster(tmp_path) as members:
            async with client_of(*[one.endpoint for one in members]) as client:
                seen = Seen()
                start = await client.put(b"/a", b"0")
                client.watch(b"/a", start_revision=start, on_events=seen.take, on_lost=seen.lose)
                await seen.until(lambda: bool(seen.events))
                members[0].stop()
                written = 0
                for number in range(1, 20):
                    with contextlib.suppress(EtcdUnavailable):
                        await client.put(b"/a", b"%d" % number)
                        written = number
                assert written == 19
                await seen.until(lambda: seen.values[-1] == b"19")
                members[1].stop()
                await until_no_quorum(client)

    asyncio.run(run())


async def until_no_quorum(client: EtcdClient) -> None:
    """Write until the cluster says that it cannot take it."""
    async with asyncio.timeout(PATIENCE * 2):
        while True:
            try:
                await client.put(b"/a", b"none")
            except EtcdUnavailable as error:
                if "no quorum" in str(error):
                    return


def test_a_member_that_is_not_there_is_passed_over() -> None:
    async def run() -> None:
        dead, live = f"127.0.0.1:{free_ports(1)[0]}", shared_server().endpoint
        async with client_of(dead, live) as client:
            assert await client.put(new_key(), b"1") > 0
            assert client.endpoint == live

    asyncio.run(run())


def test_nobody_there_is_said_with_the_endpoint() -> None:
    async def run() -> None:
        endpoint = f"127.0.0.1:{free_ports(1)[0]}"
        async with client_of(endpoint, request_timeout=0.5) as client:
            with pytest.raises(EtcdUnavailable, match=f"{endpoint} does not answer.*--etcd-servers") as caught:
                await client.put(b"/a", b"1")
            assert not caught.value.maybe_done

    asyncio.run(run())


def test_requests_that_are_too_large_and_full_databases_have_errors_of_their_own(tmp_path: Path) -> None:
    async def run() -> None:
        with running(tmp_path, "--quota-backend-bytes=8000000") as server:
            async with client_of(server.endpoint) as client:
                with pytest.raises(EtcdTooLarge):
                    await client.put(b"/a", b"x" * 5_000_000)
                assert await fill(client) is EtcdNoSpace
                member = (await client.status()).member_id
                assert await client.alarms() == [(member, "NOSPACE")]
                await client.delete(b"/0", b"/:")
                await client.compact((await client.range(b"/")).revision)
                assert await client.disarm(member, "NOSPACE") == [(member, "NOSPACE")]
                assert await client.alarms() == []

    asyncio.run(run())


async def fill(client: EtcdClient) -> type[object]:
    """What the first refused write says.

    etcd compares its quota with the size of its file, which grows when a batch is committed (every 100 ms or later):
    how many writes fit before depends on the machine.
    """
    deadline = time.monotonic() + 30
    number = 0
    while (result := await outcome(client.put(b"/%d" % (number % 10), b"x" * 2_000_000))) is int:
        number += 1
        assert time.monotonic() < deadline, f"etcd took {number} writes of 2 MB, its quota is 8 MB"
    return result


async def outcome(call: Awaitable[object]) -> type[object]:
    """The type of what a call returns or raises."""
    try:
        return type(await call)
    except EtcdError as error:
        return type(error)


def etcdctl(client_endpoint: str, *arguments: str) -> None:
    """Run etcdctl as root, whose password is secret."""
    environment = {**os.environ, "ETCDCTL_API": "3"}
    command = ["etcdctl", f"--endpoints={client_endpoint}", *arguments]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=30)


@pytest.mark.skipif(shutil.which("etcdctl") is None, reason="there is no etcdctl on PATH (Debian: etcd-client)")
def test_a_user_needs_the_password_and_the_permission(tmp_path: Path) -> None:
    async def run() -> None:
        with running(tmp_path) as server:
            etcdctl(server.endpoint, "user", "add", "root:secret")
            etcdctl(server.endpoint, "user", "add", "reader:word")
            etcdctl(server.endpoint, "role", "add", "some")
            etcdctl(server.endpoint, "role", "grant-permission", "some", "readwrite", "/some/", "/some0")
            etcdctl(server.endpoint, "user", "grant-role", "reader", "some")
            etcdctl(server.endpoint, "auth", "enable")
            for name, password in (("", ""), ("root", "wrong")):
                async with client_of(server.endpoint, user=name, password=password) as client:
                    with pytest.raises(EtcdAccessDenied):
                        await client.put(b"/some/a", b"1")
            async with client_of(server.endpoint, user="reader", password="word") as client:
                start, seen = await client.put(b"/some/a", b"1"), Seen()
                with pytest.raises(EtcdAccessDenied):
                    await client.put(b"/other", b"1")
                client.watch(b"/some/", b"/some0", start_revision=start, on_events=seen.take, on_lost=seen.lose)
                await seen.until(lambda: bool(seen.events))
                client.watch(b"\0", b"\0", start_revision=start, on_events=seen.take, on_lost=seen.lose)
                await seen.until(lambda: bool(seen.lost))
                assert isinstance(seen.lost[0], EtcdAccessDenied)
            async with client_of(server.endpoint, user="root", password="secret") as client:
                assert (await client.range(b"/some/a")).kvs[0].value == b"1"

    asyncio.run(run())


@pytest.fixture
def certificates(tmp_path: Path) -> TlsFiles:
    """Of a client; those of the server lie beside it."""
    authority = make_authority(time.time())
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    for name in ("server", "client"):
        pair = sign(authority, time.time(), name, hosts=("127.0.0.1",) if name == "server" else ())
        (tmp_path / f"{name}.pem").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
    return TlsFiles(*(str(tmp_path / name) for name in ("ca.pem", "client.pem", "client.key")))


def test_tls_with_client_certificates(tmp_path: Path, certificates: TlsFiles) -> None:
    async def run() -> None:
        flags = (
            f"--cert-file={tmp_path}/server.pem",
            f"--key-file={tmp_path}/server.key",
            f"--trusted-ca-file={tmp_path}/ca.pem",
            "--client-cert-auth",
        )
        with running(tmp_path / "data", *flags, scheme="https") as server:
            async with client_of(server.endpoint, tls=certificates) as client:
                assert await put_and_get(client) == b"1"
            for tls in (TlsFiles(authority=certificates.authority), TlsFiles()):
                async with client_of(server.endpoint, tls=tls, request_timeout=1.0) as client:
                    with pytest.raises(EtcdUnavailable, match=r"etcd at 127\.0\.0\.1:.*--etcd-cafile"):
                        await put_and_get(client)
        async with client_of(server.endpoint, tls=TlsFiles(authority=str(tmp_path / "missing"))) as client:
            with pytest.raises(EtcdUnavailable, match=r"cannot read .*missing"):
                await put_and_get(client)

    asyncio.run(run())


async def put_and_get(client: EtcdClient) -> bytes:
    """The value that was written."""
    await client.put(b"/tls", b"1")
    value: bytes = (await client.range(b"/tls")).kvs[0].value
    return value

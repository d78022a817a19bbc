"""Where events go: files that are set aside, queues, a service that does not always answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from bayplan.apiserver.audit.backend import Blocking, Failures
from bayplan.apiserver.audit.batching import Batching
from bayplan.apiserver.audit.events import Event, ObjectReference, Status, UserInfo, legacy_line, line
from bayplan.apiserver.audit.log_backend import LineWriter, LogSink
from bayplan.apiserver.audit.rotation import RotatingFile
from bayplan.apiserver.audit.settings import BatchSettings, LogSettings
from bayplan.apiserver.audit.truncation import Truncating, truncated
from bayplan.apiserver.audit.webhook_backend import PostError, WebhookSink
from bayplan.apiserver.http.origins import source_ips
from bayplan.support import virtual_time
from bayplan.support.clock import LoopClock, SystemClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.randomness import SeededRandomness
from bayplan.support.timestamps import parse_rfc3339

MEGABYTE = 1 << 20
NOON = parse_rfc3339("2026-01-02T12:00:00.250Z")


def event(number: int = 0, **more: object) -> Event:
    made = Event("Metadata", f"id-{number}", "ResponseComplete", "/x", "get", UserInfo("me", "", ("g", 'h"')))
    for name, value in more.items():
        setattr(made, name, value)
    return made


class Kept:
    """A sink that keeps batches."""

    def __init__(self, *, takes: bool = True, seconds: float = 0.0) -> None:
        self.batches: list[list[str]] = []
        self.at: list[float] = []
        self._takes = takes
        self._seconds = seconds

    async def write(self, events: Sequence[Event]) -> bool:
        self.at.append(asyncio.get_running_loop().time())
        self.batches.append([one.audit_id for one in events])
        await asyncio.sleep(self._seconds)
        return self._takes

    async def close(self) -> None:
        """Nothing is left to do."""


def test_an_event_in_one_line_of_text() -> None:
    reference = ObjectReference(resource="pods", namespace="default")
    found = event(
        request_received_timestamp="2026-01-02T12:00:00.250000Z",
        source_ips=("192.0.2.1", "192.0.2.2"),
        user_agent="kubectl",
        object_ref=reference,
        response_status=Status(code=200),
        impersonated_user=UserInfo("bob", "", ("x",)),
    )
    assert legacy_line(found).decode() == (
        '2026-01-02T12:00:00.25Z AUDIT: id="id-0" stage="ResponseComplete" ip="192.0.2.1" method="get" user="me" '
        'groups="\\"g\\",\\"h\\\\\\"\\"" as="bob" asgroups="\\"x\\"" user-agent="kubectl" namespace="default" uri="/x" '
        'response="200"\n'
    )
    assert 'as="<self>" asgroups="<lookup>"' in legacy_line(event()).decode()
    assert 'response="<deferred>"' in legacy_line(event()).decode()


@pytest.mark.parametrize(
    ("forwarded", "real", "remote", "found"),
    [
        ("", "", "192.0.2.9", ("192.0.2.9",)),
        ("192.0.2.1,192.0.2.2", "192.0.2.1", "192.0.2.2", ("192.0.2.1", "192.0.2.2")),
        ("192.0.2.1", "192.0.2.2", "192.0.2.1", ("192.0.2.1", "192.0.2.2", "192.0.2.1")),
        ("unknown", "none", "fe80::1%eth0", ("fe80::1",)),
        ("", "", "::ffff:192.0.2.9", ("192.0.2.9",)),
        ("", "", "", ()),
    ],
)
def test_source_addresses(forwarded: str, real: str, remote: str, found: tuple[str, ...]) -> None:
    assert source_ips(forwarded, real, remote) == found


def rotating(directory: Path, moments: list[float], **settings: int | bool) -> RotatingFile:
    path = directory / "audit.log"
    return RotatingFile(path, LogSettings(path=str(path), **settings), lambda: moments[0])  # type: ignore[arg-type]


def names(directory: Path) -> list[str]:
    return sorted(one.name for one in directory.iterdir())


def test_a_full_file_is_set_aside_and_few_are_kept(tmp_path: Path) -> None:
    moments = [NOON]
    file = rotating(tmp_path / "logs", moments, max_size=1, max_backups=2, max_age=0)
    for _ in range(4):
        file.write(b"x" * (MEGABYTE - 10))
        moments[0] += 1.5
        file.write(b"0123456789")
    assert names(tmp_path / "logs") == [
        "audit-2026-01-02T12-00-03.250.log",
        "audit-2026-01-02T12-00-04.750.log",
        "audit.log",
    ]
    assert stat.S_IMODE((tmp_path / "logs" / "audit.log").stat().st_mode) == 0o600
    with pytest.raises(OSError, match="write length 1048577 exceeds maximum file size 1048576"):
        file.write(b"x" * (MEGABYTE + 1))
    file.close()


def test_files_set_aside_are_compressed_and_go_when_they_are_old(tmp_path: Path) -> None:
    for name in ("audit-2025-12-01T00-00-00.000.log.gz", "audit-2026-01-01T00-00-00.000.log", "audit-other.log"):
        (tmp_path / name).write_bytes(b"old")
    (tmp_path / "audit-2026-99-01T00-00-00.000.log").write_bytes(b"no moment")
    (tmp_path / "audit.log").write_bytes(b"before\n")
    file = rotating(tmp_path, [NOON], max_size=1, max_backups=0, max_age=7, compress=True)
    file.write(b"x" * (MEGABYTE - 7))
    file.write(b"new\n")
    file.close()
    assert names(tmp_path) == [
        "audit-2026-01-01T00-00-00.000.log.gz",
        "audit-2026-01-02T12-00-00.250.log.gz",
        "audit-2026-99-01T00-00-00.000.log",
        "audit-other.log",
        "audit.log",
    ]
    packed = tmp_path / "audit-2026-01-02T12-00-00.250.log.gz"
    assert gzip.decompress(packed.read_bytes()).startswith(b"before\nxxx")
    assert (tmp_path / "audit.log").read_bytes() == b"new\n"


def test_without_a_limit_a_file_only_grows(tmp_path: Path) -> None:
    file = rotating(tmp_path, [NOON], max_size=0)
    file.write(b"x" * (2 * MEGABYTE))
    file.close()
    assert names(tmp_path) == ["audit.log"]


class _Broken:
    """An output that takes every other line."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:
        if b"id-1" in data:
            raise OSError(28, "No space left on device")
        self.lines.append(data)

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("strict", "kept"), [(True, [True, False, True]), (False, [True, True, True])])
def test_who_waits_for_the_log_learns_whether_its_event_is_kept(
    strict: bool, kept: list[bool], caplog: pytest.LogCaptureFixture
) -> None:
    metrics, output = Registry(), _Broken()

    async def main() -> None:
        backend = Blocking(LogSink(LineWriter(output), "json", Failures(metrics)), strict=strict)
        assert await asyncio.gather(*(backend.process(event(number)) for number in range(3))) == kept
        backend.process(event(7))  # nobody waits
        await backend.close()

    asyncio.run(main())
    assert output.is_closed
    assert [json.loads(one)["auditID"] for one in output.lines] == ["id-0", "id-2", "id-7"]
    assert b'apiserver_audit_error_total{plugin="log"} 1\n' in metrics.render()
    assert "Error in audit plugin 'log' affecting 1 audit events: [Errno 28] No space left on device" in caplog.text


BATCHES = BatchSettings(max_size=2, max_wait=10.0, buffer_size=3, throttle_enable=False)


def batching(
    sink: Kept, metrics: Registry, settings: BatchSettings = BATCHES, *, side_by_side: bool = True
) -> Batching:
    return Batching(sink, settings, Failures(metrics), LoopClock(0), side_by_side=side_by_side)


def test_batches_go_when_they_are_full_or_have_waited() -> None:
    sink = Kept()

    async def main() -> None:
        backend = batching(sink, Registry())
        backend.process(event(0))
        backend.process(event(1))
        backend.process(event(2))
        await asyncio.sleep(30)
        backend.process(event(3))
        await asyncio.sleep(1)
        await backend.close()

    virtual_time.run(main())
    assert sink.batches == [["id-0", "id-1"], ["id-2"], ["id-3"]]
    assert [round(one) for one in sink.at] == [0, 10, 31]


def test_events_that_find_the_queue_full_or_closed_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = Kept(), Registry()

    async def main() -> None:
        backend = batching(sink, metrics)
        for number in range(5):
            backend.process(event(number))
        await backend.close()
        backend.process(event(9))

    with caplog.at_level(logging.ERROR):
        virtual_time.run(main())
    assert sink.batches == [["id-0", "id-1"], ["id-2"]]
    assert "audit buffer queue blocked" in caplog.text
    assert "audit backend shut down" in caplog.text
    assert b'apiserver_audit_error_total{plugin="buffered"} 3\n' in metrics.render()


def test_the_rate_of_batches_is_limited() -> None:
    sink = Kept()
    settings = BatchSettings(max_size=1, buffer_size=100, throttle_qps=2.0, throttle_burst=3)

    async def main() -> None:
        backend = batching(sink, Registry(), settings)
        for number in range(6):
            backend.process(event(number))
        await asyncio.sleep(10)
        await backend.close()

    virtual_time.run(main())
    assert [round(one, 1) for one in sink.at] == [0.0, 0.0, 0.0, 0.5, 1.0, 1.5]


@pytest.mark.parametrize(("side_by_side", "at"), [(True, [0, 0, 0]), (False, [0, 5, 10])])
def test_batches_wait_for_one_another_only_where_they_go_to_one_file(side_by_side: bool, at: list[int]) -> None:
    sink = Kept(seconds=5)
    settings = BatchSettings(max_size=1, throttle_enable=False)

    async def main() -> None:
        backend = batching(sink, Registry(), settings, side_by_side=side_by_side)
        for number in range(3):
            backend.process(event(number))
        await asyncio.sleep(0)
        await backend.close()

    virtual_time.run(main())
    assert [round(one) for one in sink.at] == at


class _Service:
    """A service that fails some times."""

    def __init__(self, failures: int, seconds: float = 0.0) -> None:
        self._failures = failures
        self._seconds = seconds
        self.bodies: list[bytes] = []
        self.at: list[float] = []

    async def post(self, body: bytes) -> None:
        self.at.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._seconds)
        if len(self.at) <= self._failures:
            raise PostError("connection refused")
        self.bodies.append(body)

    async def close(self) -> None:
        """Nothing to let go of."""


def posting(service: _Service, metrics: Registry) -> WebhookSink:
    randomness = SeededRandomness(1)
    return WebhookSink(service, 10.0, Failures(metrics), clock=LoopClock(0), randomness=randomness)


def test_a_service_is_asked_again_with_growing_waits() -> None:
    service = _Service(failures=3)
    assert virtual_time.run(posting(service, Registry()).write([event(0), event(1)]))
    waits = [after - before for before, after in zip(service.at, service.at[1:], strict=False)]
    for wait, base in zip(waits, (10, 15, 22.5), strict=True):
        assert base <= wait < base * 1.2
    listed = json.loads(service.bodies[0])
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
    assert [one["auditID"] for one in listed["items"]] == ["id-0", "id-1"]
    assert "kind" not in listed["items"][0]


@pytest.mark.parametrize(("seconds", "problem"), [(0.0, "connection refused"), (60.0, "context deadline exceeded")])
def test_a_service_is_given_up_after_five_tries(seconds: float, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    service, metrics = _Service(failures=9, seconds=seconds), Registry()
    assert not virtual_time.run(posting(service, metrics).write([event(0), event(1)]))
    assert len(service.at) == 5
    assert f"Error in audit plugin 'webhook' affecting 2 audit events: {problem}" in caplog.text
    assert b'apiserver_audit_error_total{plugin="webhook"} 2\n' in metrics.render()


def test_large_events_lose_their_objects_or_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Registry()
    large = msgspec.Raw(b'"%b"' % (b"x" * 1000))

    async def main() -> list[str]:
        sink = Kept()
        backend = Truncating(Blocking(sink, strict=True), 500, Failures(metrics))
        whole = event(1, level="Request", request_object=large, response_object=large)
        assert len(line(whole)) > 1000
        for one in (event(0), whole, event(2, request_uri="/" + "x" * 1000)):
            taken = backend.process(one)
            assert taken is None or await taken
        await backend.close()
        return [name for batch in sink.batches for name in batch]

    assert asyncio.run(main()) == ["id-0", "id-1"]
    assert "event is too large even after truncating" in caplog.text
    short = json.loads(line(truncated(event(1, request_object=large, annotations={"a": "b"}))))
    assert short["annotations"] == {"a": "b", "audit.k8s.io/truncated": "true"}
    assert "requestObject" not in short


def test_the_log_is_written_in_the_old_form(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "audit.log"
        file = RotatingFile(path, LogSettings(path=str(path)), SystemClock().now)
        backend = Blocking(LogSink(LineWriter(file), "legacy", Failures(Registry())), strict=False)
        await backend.process(event(1))
        await backend.close()
        assert path.read_bytes() == legacy_line(event(1))

    asyncio.run(main())

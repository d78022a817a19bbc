"""Logs do not fill the disk, and go with their pods."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from bayplan.kubelet.core.log_names import container_of_link, link_name, pod_of_directory
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.logs.garbage import LogGarbage
from bayplan.kubelet.logs.rotation import LogRotation, compress, make_room
from bayplan.kubelet.runtime.errors import NotFoundError, RuntimeRequestError
from bayplan.kubelet.runtime.interface import Runtime
from bayplan.kubelet.runtime.types import Container, ContainerState, ContainerStatus
from bayplan.support.blocking import at_once
from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run

EPOCH = 1_767_323_045.0
"""2026-01-02T03:04:05Z"""


class Logging:
    """The part of a runtime that has to do with logs; `fails` makes it refuse to begin new ones."""

    def __init__(self, *containers: ContainerStatus) -> None:
        self.statuses = {each.container.id: each for each in containers}
        self.reopened: list[str] = []
        self.fails = False

    async def containers(self, *, pod_uid: str = "") -> list[Container]:
        return [each.container for each in self.statuses.values()]

    async def container_status(self, container_id: str) -> ContainerStatus:
        if container_id not in self.statuses:
            raise NotFoundError(f"no container {container_id}")
        return self.statuses[container_id]

    async def reopen_log(self, container_id: str) -> None:
        if self.fails:
            raise RuntimeRequestError("no space left on device")
        self.reopened.append(container_id)
        _touch(self.statuses[container_id].log_path)


def _touch(path: str) -> None:
    Path(path).touch()


def status(log: Path, container_id: str = "c1", state: ContainerState = ContainerState.RUNNING) -> ContainerStatus:
    container = Container(container_id, "s1", "main", 0, "app:1", "app:1", state, 0)
    return ContainerStatus(container, log_path=str(log))


def rotation(runtime: Logging, **settings: object) -> LogRotation:
    values = {"max_size": "1Ki", "max_files": 3, "interval": 10.0, **settings}
    return LogRotation(cast(Runtime, runtime), at_once, LoopClock(EPOCH), **values)  # type: ignore[arg-type]


def names(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(b"x" * 1024)
    return path


def test_a_log_that_is_long_enough_is_renamed_and_started_anew(log: Path) -> None:
    runtime = Logging(status(log))
    run(rotation(runtime).rotate_all())
    assert names(log.parent) == ["0.log", "0.log.20260102-030405"]
    assert runtime.reopened == ["c1"]


@pytest.mark.parametrize(
    ("size", "state"), [(1023, ContainerState.RUNNING), (1024, ContainerState.EXITED)], ids=["short", "ended"]
)
def test_other_logs_stay_as_they_are(log: Path, size: int, state: ContainerState) -> None:
    log.write_bytes(b"x" * size)
    run(rotation(Logging(status(log, state=state))).rotate_all())
    assert names(log.parent) == ["0.log"]


@pytest.mark.parametrize("max_files", [2, 3, 5])
def test_never_more_files_than_allowed_and_the_newest_are_kept(log: Path, max_files: int) -> None:
    runtime = Logging(status(log))

    async def case() -> None:
        running = asyncio.create_task(rotation(runtime, max_files=max_files).run())
        for number in range(8):
            _write(log, f"{number}".encode() * 2000)
            await asyncio.sleep(10)
            assert len(names(log.parent)) == min(max_files, number + 2)
        running.cancel()

    run(case())
    rotated = [each for each in names(log.parent) if each != "0.log"]
    assert [each.endswith(".gz") for each in rotated] == [True] * (max_files - 2) + [False]
    contents = [_text(log.parent / each) for each in rotated]
    assert contents == [str(number) * 2000 for number in range(9 - max_files, 8)]


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()


def test_a_runtime_that_cannot_begin_a_new_log_keeps_the_old_one(log: Path) -> None:
    runtime = Logging(status(log))
    runtime.fails = True
    run(rotation(runtime).rotate_all())
    assert names(log.parent) == ["0.log"]
    assert log.stat().st_size == 1024


def test_a_log_that_a_killed_kubelet_renamed_is_started_anew(log: Path) -> None:
    log.rename(log.with_name("0.log.20260101-000000"))
    runtime = Logging(status(log))
    run(rotation(runtime).rotate_all())
    assert runtime.reopened == ["c1"]
    assert names(log.parent) == ["0.log", "0.log.20260101-000000"]


def test_one_log_that_fails_does_not_keep_the_others_from_being_rotated(tmp_path: Path, log: Path) -> None:
    missing = status(tmp_path / "none" / "0.log", "c0")
    runtime = Logging(missing, status(log))
    run(rotation(runtime).rotate_all())
    assert "0.log.20260102-030405" in names(log.parent)


def test_what_a_killed_kubelet_left_while_it_compressed_is_mended(log: Path) -> None:
    for name in ("0.log.1", "0.log.1.gz", "0.log.2", "0.log.2.tmp", "0.logs", "1.log"):
        log.with_name(name).write_bytes(gzip.compress(name.encode()) if name.endswith(".gz") else name.encode())
    make_room(log, 5)
    assert names(log.parent) == ["0.log", "0.log.1.gz", "0.log.2.gz", "0.logs", "1.log"]
    assert _text(log.with_name("0.log.2.gz")) == "0.log.2"


def test_compressing_keeps_mode_and_file_until_it_is_done(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.chmod(0o640)
    compress(log)
    assert log.with_name("0.log.gz").stat().st_mode & 0o777 == 0o640
    log.write_bytes(b"again")

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("shutil.copyfileobj", fail)
    with pytest.raises(OSError, match="no space left"):
        compress(log)
    assert names(log.parent) == ["0.log", "0.log.gz"]


@pytest.mark.parametrize(("settings"), [{"max_files": 1}, {"max_size": "many"}], ids=str)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        rotation(Logging(), **settings)


def test_a_negative_size_means_no_rotation(log: Path) -> None:
    async def case() -> None:
        running = asyncio.create_task(rotation(Logging(status(log)), max_size="-1").run())
        await asyncio.sleep(100)
        running.cancel()

    run(case())
    assert names(log.parent) == ["0.log"]


def garbage(runtime: Logging, top: Path) -> LogGarbage:
    return LogGarbage(cast(Runtime, runtime), at_once, top / "pods", top / "containers")


def test_logs_of_pods_that_are_gone_are_removed(tmp_path: Path) -> None:
    for name in ("ns_a_uid-1", "ns_b_c_uid-2", "something", "else_here"):
        (tmp_path / "pods" / name / "main").mkdir(parents=True)
        (tmp_path / "pods" / name / "main" / "0.log").touch()
    run(garbage(Logging(), tmp_path).collect({"uid-2"}))
    assert names(tmp_path / "pods") == ["else_here", "ns_b_c_uid-2", "something"]


def test_links_go_when_their_container_has_ended_and_its_log_is_gone(tmp_path: Path) -> None:
    pods, links = tmp_path / "pods", tmp_path / "containers"
    log = pods / "ns_p_uid" / "main" / "0.log"
    log.parent.mkdir(parents=True)
    log.touch()
    alive = status(pods / "missing", "alive1")
    ended = status(pods / "missing", "ended1", ContainerState.EXITED)
    runtime = Logging(alive, ended)
    node = garbage(runtime, tmp_path)

    links.mkdir()
    (links / "p_ns_main-shown1.log").symlink_to(log)
    for name, target in (
        ("alive1", pods / "x"),
        ("ended1", pods / "x"),
        ("gone12", pods / "x"),
        ("other1", Path("/x")),
    ):
        (links / f"p_ns_main-{name}.log").symlink_to(target)
    (links / "p_ns_main-file12.log").touch()
    run(node.collect({"uid"}))
    assert [each.removeprefix("p_ns_main-") for each in names(links)] == [
        "alive1.log", "file12.log", "other1.log", "shown1.log",
    ]  # fmt: skip
    assert (links / "p_ns_main-shown1.log").resolve() == log
    runtime.statuses["alive1"] = replace(ended, container=replace(ended.container, id="alive1"))
    run(node.collect({"uid"}))
    assert "p_ns_main-alive1.log" not in names(links)


def test_logs_of_runs_that_are_gone_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "pods" / "ns_p_uid"
    for container, files in (
        ("main", ("0.log", "1.log", "1.log.20260102-030405.gz", "2.log", "3.log", "note.txt", "x.log")),
        ("new", ("0.log", "1.log")),
    ):
        (directory / container).mkdir(parents=True)
        for name in files:
            (directory / container / name).touch()
    (directory / "file").touch()
    marks = {"io.kubernetes.pod.uid": "uid", "io.kubernetes.container.name": "main"}
    runs = [
        ContainerStatus(Container(f"c{run}", "s", "main", run, "", "", ContainerState.EXITED, 0, labels=marks))
        for run in (3, 2)
    ]
    run(garbage(Logging(*runs), tmp_path).collect({"uid"}))
    assert names(directory / "main") == ["2.log", "3.log", "note.txt", "x.log"]
    assert names(directory / "new") == ["0.log", "1.log"], "the number of the next run is lost"


def test_no_directories_are_no_error(tmp_path: Path) -> None:
    run(garbage(Logging(), tmp_path).collect(()))
    assert names(tmp_path) == []


def test_names_tell_what_they_are_of() -> None:
    assert link_name("p", "ns", "main", "abcdef") == "p_ns_main-abcdef.log"
    assert container_of_link("p_ns_main-abcdef.log") == "abcdef"
    assert container_of_link("p_ns_main-abc.log") == ""
    assert container_of_link("p_ns_main-abcdef") == ""
    assert len(link_name("p" * 253, "ns", "main", "a" * 64)) == 255
    assert pod_of_directory("ns_p_uid") == "uid"
    assert pod_of_directory("ns_uid") == ""

"""Logs are shown as `kubectl logs` shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.pods.container_logs import LogOptions
from bayplan.kubelet.logs import files as log_files
from bayplan.kubelet.logs.files import LogReader, full_time, last_text, parse_line, tail_offset
from bayplan.support.blocking import at_once
from bayplan.support.clock import LoopClock
from bayplan.support.timestamps import parse_rfc3339
from bayplan.support.virtual_time import run

LOG = (
    b"2026-01-02T03:04:05.1Z stdout F one\n"
    b"2026-01-02T03:04:06Z stderr F two\n"
    b"2026-01-02T03:04:07.123456789Z stdout P thr\n"
    b"2026-01-02T03:04:07.2Z stdout F ee\n"
    b"2026-01-02T03:04:08+02:00 stdout F:more \n"
)


def read(path: Path, **options: Any) -> bytes:
    """What is shown of a log of a container that has ended."""

    async def collect() -> bytes:
        reader = LogReader(at_once, LoopClock(0.0))
        return b"".join([each async for each in reader.read(path, LogOptions(**options), lambda: False)])

    return run(collect())


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(LOG)
    return path


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, b"one\ntwo\nthree\n\n"),
        ({"stream": "Stderr"}, b"two\n"),
        ({"stream": "Stdout"}, b"one\nthree\n\n"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 1}, b"\n"),
        ({"tail_lines": 2}, b"ee\n\n"),
        ({"tail_lines": 100}, b"one\ntwo\nthree\n\n"),
        ({"limit_bytes": 6}, b"one\ntw"),
        ({"limit_bytes": 1000}, b"one\ntwo\nthree\n\n"),
        ({"since": parse_rfc3339("2026-01-02T03:04:06Z")}, b"two\nthree\n"),
        ({"since": parse_rfc3339("2026-01-02T03:04:07.15Z")}, b"ee\n"),
        (
            {"timestamps": True},
            b"2026-01-02T03:04:05.100000000Z one\n2026-01-02T03:04:06.000000000Z two\n"
            b"2026-01-02T03:04:07.123456789Z three\n2026-01-02T03:04:08.000000000+02:00 \n",
        ),
        ({"timestamps": True, "limit_bytes": 10}, b"2026-01-02"),
    ],
    ids=str,
)
def test_a_log_is_shown_as_asked_for(log: Path, options: dict[str, Any], shown: bytes) -> None:
    assert read(log, **options) == shown


def test_lines_that_are_in_no_format_are_left_out(log: Path) -> None:
    log.write_bytes(b"nonsense\n2026-01-02T03:04:05Z stdin F x\nnow stdout F x\n" + LOG[:36] + b"\n")
    assert read(log) == b"one\n"


def test_a_line_without_its_end_is_shown(log: Path) -> None:
    log.write_bytes(LOG[:36] + b"2026-01-02T03:04:06Z stdout F tw")
    assert read(log) == b"one\ntw"
    assert read(log, tail_lines=1) == b"tw"


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "0.log")


def test_a_file_that_is_no_log_takes_no_memory(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "_LONGEST_LINE", 1000)
    log.write_bytes(b"x" * 1_000_000 + b"\n" + LOG[:36])
    assert read(log) == b"one\n"


def line(text: str, tag: str = "F") -> bytes:
    return f"2026-01-02T03:04:05Z stdout {tag} {text}\n".encode()


def followed(path: Path, write: Callable[[Callable[[], None]], Awaitable[None]], **options: Any) -> bytes:
    """What is shown of a log while `write` goes on; it calls its argument when the container has ended."""

    async def case() -> bytes:
        runs = True

        def end() -> None:
            nonlocal runs
            runs = False

        reader, shown = LogReader(at_once, LoopClock(0.0)), list[bytes]()

        async def collect() -> None:
            options_of_all = LogOptions(follow=True, **options)
            shown.extend([each async for each in reader.read(path, options_of_all, lambda: runs)])

        async with asyncio.timeout(1000), asyncio.TaskGroup() as tasks:
            tasks.create_task(collect())
            await write(end)
        return b"".join(shown)

    return run(case())


def rotate(path: Path, name: str) -> None:
    path.rename(path.with_name(name))


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_log_is_followed_to_the_containers_end(log: Path) -> None:
    async def write(end: Callable[[], None]) -> None:
        await asyncio.sleep(5)
        append(log, line("later")[:30])
        await asyncio.sleep(5)
        append(log, line("later")[30:])
        append(log, line("last"))
        end()

    assert followed(log, write, tail_lines=1) == b"\nlater\nlast\n"


def test_a_log_is_followed_over_rotations_without_a_gap(log: Path) -> None:
    async def write(end: Callable[[], None]) -> None:
        for number in range(3):
            await asyncio.sleep(1)
            rotate(log, f"0.log.{number}")
            append(log.with_name(f"0.log.{number}"), line(f"late {number}"))
            append(log, line(f"new {number}"))
        await asyncio.sleep(1)
        end()

    assert followed(log, write, tail_lines=0) == b"late 0\nnew 0\nlate 1\nnew 1\nlate 2\nnew 2\n"


def test_a_log_that_is_being_rotated_is_missing_for_a_moment_only(log: Path) -> None:
    async def write(end: Callable[[], None]) -> None:
        await asyncio.sleep(1)
        rotate(log, "0.log.1")
        await asyncio.sleep(3)
        append(log, line("new"))
        await asyncio.sleep(1)
        end()

    assert followed(log, write, tail_lines=0) == b"new\n"


def test_following_ends_at_the_limit(log: Path) -> None:
    async def write(end: Callable[[], None]) -> None:
        await asyncio.sleep(1)
        append(log, line("abcdef"))

    assert followed(log, write, tail_lines=0, limit_bytes=4) == b"abcd"


_TEXTS = st.lists(st.sampled_from(["", "a", "bb", "x" * 70_000]), max_size=6)


@given(_TEXTS, st.integers(0, 8), st.booleans(), st.sampled_from([7, 64, 1 << 16]))
def test_the_tail_is_the_last_lines_whatever_the_blocks(texts: list[str], lines: int, ended: bool, chunk: int) -> None:
    before, log_files.CHUNK = log_files.CHUNK, chunk if "x" * 70_000 not in texts else 1 << 16
    try:
        with TemporaryDirectory() as directory:
            path = Path(directory) / "0.log"
            raw = [line(text) for text in texts]
            data = b"".join(raw)
            path.write_bytes(data if ended else data.removesuffix(b"\n"))
            wanted = b"".join(raw[len(raw) - min(lines, len(raw)) :])
            assert tail_offset(path, lines) == max(
                0, len(data) - len(wanted) - (not ended and bool(raw) and not wanted)
            )
            assert read(path, tail_lines=lines).count(b"\n") == max(
                0, wanted.count(b"\n") - (not ended and bool(wanted))
            )
    finally:
        log_files.CHUNK = before


def test_the_last_text_is_cut_at_its_beginning(log: Path) -> None:
    assert last_text(log, lines=80, most=2048) == b"one\ntwo\nthree\n\n"
    assert last_text(log, lines=2, most=2048) == b"ee\n\n"
    assert last_text(log, lines=80, most=5) == b"ree\n\n"[-5:]


def test_times_have_nine_digits() -> None:
    assert full_time(b"2026-01-02T03:04:05Z") == b"2026-01-02T03:04:05.000000000Z"
    assert full_time(b"2026-01-02T03:04:05.12+01:00") == b"2026-01-02T03:04:05.120000000+01:00"


def test_parts_of_lines_have_no_end() -> None:
    part = parse_line(b"2026-01-02T03:04:05Z stdout P a b\n")
    assert part is not None
    assert part.text == b"a b"


@pytest.mark.parametrize("chunk", range(1, 8))
@pytest.mark.parametrize("lines", range(6))
def test_the_tail_is_found_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, lines: int
) -> None:
    monkeypatch.setattr(log_files, "CHUNK", chunk)
    path = tmp_path / "0.log"
    path.write_bytes(b"a\nbb\n\nccc\n")
    begins = [10, 6, 5, 2, 0, 0]
    assert tail_offset(path, lines) == begins[lines]

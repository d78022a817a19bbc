"""`bayplan up --ui` and `bayplan ui`, as people start them."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.cluster import eventually
from tests.ui.page import small_copy

BAYPLAN = Path(sys.executable).parent / "bayplan"


@contextmanager
def started(*arguments: str) -> Iterator[str]:
    """The URL of the page that a command prints; the command is told to stop in the end, and does."""
    process = subprocess.Popen([BAYPLAN, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\w+", line)
            if found:
                yield found[0]
                break
        else:
            pytest.fail(f"no URL was printed: {said}")
    finally:
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        process.stdout.close()
        assert process.wait(20) == 0, rest


async def answers(url: str, *paths: str) -> list[Any]:
    base = url.partition("/?")[0]
    async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(url) as response:
            assert response.status == 200
        found = []
        for path in paths:
            async with session.get(path) as response:
                found.append(await response.json())
        return found


@pytest.mark.parametrize("processes", ["1", "2"])
def test_up_serves_a_page_that_knows_the_scheduler(processes: str, tmp_path: Path) -> None:
    kubeconfig = str(tmp_path / "kubeconfig")
    examples = Path(__file__).parents[2] / "examples"
    applied = [f"--apply={examples / name}" for name in ("shop.yaml", "too-big.yaml")]
    options = ("--store=memory:", "--port=0", f"--kubeconfig={kubeconfig}", f"--processes={processes}", "--nodes=2")
    with started("up", *options, *applied, "--ui") as url:

        async def is_told() -> bool:
            snapshot, state, why = await answers(
                url, "/api/snapshot", "/api/scheduler", "/api/why?namespace=shop&name=year-end-report"
            )
            assert len(snapshot["tables"]["nodes"]["keys"]) == 2
            assert "shop/year-end-report" in {one["pod"] for one in state["attempts"]}
            assert [one["rejectedBy"] for one in state["queue"]] == [["NodeResourcesFit"]]
            assert why["message"].startswith("0/2 nodes are available")
            return True

        asyncio.run(eventually(is_told, within=20))
        with started("ui", f"--kubeconfig={kubeconfig}") as other:
            (snapshot,) = asyncio.run(answers(other, "/api/snapshot"))
            assert snapshot["status"]["scheduler"] is False


def test_a_copy_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(small_copy()))
    with started("ui", "--cluster", str(file)) as url:
        snapshot, why = asyncio.run(answers(url, "/api/snapshot", "/api/why?namespace=shop&name=db"))
        assert snapshot["status"]["title"] == "copy.bayplan"
        assert why["nodes"]["a"]["filter"]["plugin"] == "NodeResourcesFit"


def test_scenarios_are_shown_without_a_cluster() -> None:
    with started("ui", "--learn") as url:
        snapshot, listed, recording = asyncio.run(answers(url, "/api/snapshot", "/api/learn", "/api/learn/taints"))
        assert snapshot["status"]["learn"] is True
        assert snapshot["tables"]["nodes"]["keys"] == []
        assert {"name": "taints", "title": "Taints and tolerations"}.items() <= listed[3].items()
        assert recording["steps"][0]["title"] == "You taint node 1"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("ui", "--cluster", "x", "--context", "y"), "leave out"),
        (("ui", "--cluster", "-"), "must be a file"),
        (("ui", "--cluster", "nothing.bayplan"), "nothing.bayplan"),
        (("ui", "--cluster", "x", "--allow-changes"), "nothing to change"),
        (("ui", "--learn", "--cluster", "x"), "--learn shows no cluster"),
        (("ui", "--learn", "--allow-changes"), "--learn shows no cluster"),
        (("up", "--ui-port", "7000"), "go with --ui"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], words: str) -> None:
    done = subprocess.run([BAYPLAN, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_cluster_whose_page_cannot_listen_ends_and_says_why(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ("--store=memory:", "--port=0", f"--kubeconfig={tmp_path / 'kubeconfig'}", "--nodes=0")
        done = subprocess.run(
            [BAYPLAN, "up", *options, "--ui", f"--ui-port={port}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "choose another port with --ui-port" in done.stderr


def test_a_damaged_copy_is_named(tmp_path: Path) -> None:
    file = tmp_path / "copy.bayplan"
    file.write_bytes(to_bytes(small_copy())[:-40])
    done = subprocess.run(
        [BAYPLAN, "ui", "--cluster", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "copy.bayplan" in done.stderr
    assert "Traceback" not in done.stderr

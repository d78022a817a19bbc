"""What simulated pods answer, as kwok's objects say."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from bayplan.api.pods.container_logs import LogOptions
from bayplan.kubelet.simulator.answers import PodAnswers
from bayplan.kubelet.simulator.errors import KwokFileError
from bayplan.kubelet.simulator.stages.kwok_files import read_files
from bayplan.streaming.interface import CommandStreams, StreamError, TerminalSize
from bayplan.streaming.pieces import Pieces
from bayplan.support.clock import SystemClock
from bayplan.testing.builders import container, pod


def document(kind: str, name: str, spec: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def answers(directory: Path, *documents: dict[str, Any]) -> PodAnswers:
    file = directory / "kwok.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    found = read_files([file])
    assert found.left_out == ()
    return PodAnswers(found.answers, SystemClock())


WEB = pod("web", containers=(container("main"), container("side")))


class TestReading:
    @pytest.mark.parametrize(
        ("kind", "spec", "problem"),
        [
            ("Logs", {}, r"Logs x: spec: .*missing required field `logs`"),
            ("Logs", {"logs": [{}]}, r"spec\.logs\[0\]\.logsFile is required"),
            ("Logs", {"logs": [{"file": "a"}]}, r"unknown field `file`"),
            ("Logs", {"logs": [], "selector": {}}, r"spec\.selector: only ClusterLogs has one"),
            ("ClusterAttach", {"attaches": [{}]}, r"spec\.attaches\[0\]\.logsFile is required"),
            ("Exec", {"execs": [{"containers": ["a"]}]}, r"spec\.execs\[0\]\.local is required"),
            ("PortForward", {"forwards": [{"ports": [1]}]}, r"target or command is required"),
            ("PortForward", {"forwards": [{"ports": [0], "command": ["a"]}]}, r"0 is no port"),
            ("PortForward", {"forwards": [{"target": {"address": "a", "port": 70000}}]}, r"70000 is no port"),
        ],
    )
    def test_what_cannot_be_carried_out_is_refused(
        self, tmp_path: Path, kind: str, spec: dict[str, Any], problem: str
    ) -> None:
        with pytest.raises(KwokFileError, match=problem):
            answers(tmp_path, document(kind, "x", spec))

    def test_an_object_needs_a_name(self, tmp_path: Path) -> None:
        with pytest.raises(KwokFileError, match=r"metadata\.name is required"):
            answers(tmp_path, document("Exec", "", {"execs": []}))

    def test_kinds_that_nothing_here_carries_out_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "x.yaml").write_text(yaml.safe_dump(document("Widget", "m", {})))
        assert read_files([tmp_path]).left_out == ("Widget m",)


def logs_of(found: PodAnswers, container: str = "main", **options: Any) -> str | None:
    async def read() -> str | None:
        log = found.log(WEB, container, LogOptions(**options), lambda: False)
        return None if log is None else b"".join([piece async for piece in log]).decode()

    return asyncio.run(read())


def log_file(directory: Path, name: str) -> str:
    """A file with a line that tells its name, by its name in the directory."""
    (directory / name).write_text(f"2026-01-02T03:04:05.1Z stdout F {name}\n")
    return name


class TestLogs:
    def test_a_rule_for_the_container_goes_before_one_for_all(self, tmp_path: Path) -> None:
        any_log, side_log = log_file(tmp_path, "any"), log_file(tmp_path, "side")
        rules = [{"logsFile": any_log}, {"containers": ["side"], "logsFile": side_log}]
        found = answers(tmp_path, document("Logs", "web", {"logs": rules}))
        assert (logs_of(found), logs_of(found, "side")) == ("any\n", "side\n")

    def test_the_pods_own_object_counts_alone(self, tmp_path: Path) -> None:
        own = {"logs": [{"containers": ["side"], "logsFile": log_file(tmp_path, "side")}]}
        many = {"logs": [{"logsFile": log_file(tmp_path, "many")}]}
        found = answers(tmp_path, document("ClusterLogs", "all", many), document("Logs", "web", own))
        assert (logs_of(found), logs_of(found, "side")) == (None, "side\n")

    @pytest.mark.parametrize(
        ("selector", "holds"),
        [
            (None, True),
            ({}, True),
            ({"matchNames": ["web"]}, True),
            ({"matchNames": ["other"]}, False),
            ({"matchNamespaces": ["default"]}, True),
            ({"matchNamespaces": ["other"], "matchNames": ["web"]}, False),
        ],
    )
    def test_selectors_name_pods(self, tmp_path: Path, selector: dict[str, Any] | None, holds: bool) -> None:
        spec = {"selector": selector, "logs": [{"logsFile": log_file(tmp_path, "a")}]}
        assert logs_of(answers(tmp_path, document("ClusterLogs", "all", spec))) == ("a\n" if holds else None)

    def test_options_count_and_earlier_runs_have_a_file_of_their_own(self, tmp_path: Path) -> None:
        rule = {"logsFile": log_file(tmp_path, "new"), "previousLogsFile": log_file(tmp_path, "old")}
        found = answers(tmp_path, document("Logs", "web", {"logs": [rule]}, "default"))
        assert logs_of(found, previous=True) == "old\n"
        assert logs_of(found, timestamps=True) == "2026-01-02T03:04:05.100000000Z new\n"

    def test_a_file_that_is_missing_is_an_error(self, tmp_path: Path) -> None:
        found = answers(tmp_path, document("Logs", "web", {"logs": [{"logsFile": "nothing"}]}))
        with pytest.raises(StreamError, match="nothing: no such file"):
            logs_of(found)
        with pytest.raises(StreamError, match="no log of an earlier run"):
            logs_of(found, previous=True)


class Screen:
    """Collects what is written."""

    def __init__(self) -> None:
        self.text = b""

    async def write(self, data: bytes) -> None:
        self.text += data


class OneSize:
    """A terminal that is never resized."""

    def __init__(self) -> None:
        self._sizes: list[TerminalSize | None] = [TerminalSize(91, 31), None]

    async def next(self) -> TerminalSize | None:
        return self._sizes.pop(0)


def local(**more: Any) -> dict[str, Any]:
    return document("ClusterExec", "all", {"execs": [{"local": more}]})


def typed(data: bytes) -> Pieces:
    """What a client types, to its end."""
    pieces = Pieces()
    asyncio.get_running_loop().create_task(pieces.take(data)).add_done_callback(lambda _: pieces.end())
    return pieces


class TestCommands:
    def run(self, found: PodAnswers, *command: str, stdin: bytes | None = None) -> tuple[int, bytes, bytes]:
        async def run() -> tuple[int, bytes, bytes]:
            out, error = Screen(), Screen()
            runs = found.command(WEB, "main", command, tty=False)
            assert runs is not None
            streams = CommandStreams(None if stdin is None else typed(stdin), out, error)
            return await runs(streams), out.text, error.text

        return asyncio.run(run())

    def test_streams_and_code(self, tmp_path: Path) -> None:
        found = answers(tmp_path, local())
        assert self.run(found, "sh", "-c", "cat; echo bad >&2; exit 7", stdin=b"good") == (7, b"good", b"bad\n")
        assert self.run(found, "sh", "-c", "kill -9 $$") == (137, b"", b"")

    def test_directory_and_variables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BAYPLAN_SECRET", "1")
        found = answers(tmp_path, local(workDir=str(tmp_path), envs=[{"name": "A", "value": "b"}, {"name": "EMPTY"}]))
        code, out, _ = self.run(found, "sh", "-c", "pwd; env")
        lines = out.decode().splitlines()
        assert (code, lines[0]) == (0, str(tmp_path))
        assert {"A=b", "EMPTY="} <= set(lines)
        assert not any("SECRET" in line for line in lines), "nothing of this process but what commands need"

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
    def test_user_and_group(self, tmp_path: Path) -> None:
        found = answers(tmp_path, local(securityContext={"runAsUser": 65534, "runAsGroup": 65533}))
        assert self.run(found, "sh", "-c", "id -u; id -g")[1] == b"65534\n65533\n"

    def test_what_cannot_be_run_is_an_error(self, tmp_path: Path) -> None:
        for given in (local(), local(workDir="/nonexistent")):
            with pytest.raises(StreamError, match="cannot be run"):
                self.run(answers(tmp_path, given), "true" if given["spec"]["execs"][0]["local"] else "nonsense")

    def test_a_command_that_reads_nothing_ends(self, tmp_path: Path) -> None:
        assert self.run(answers(tmp_path, local()), "true", stdin=b"x" * 300_000)[0] == 0

    def test_a_terminal(self, tmp_path: Path) -> None:
        async def run() -> tuple[int, str]:
            screen, found = Screen(), answers(tmp_path, local())
            script = (
                "until [ $(stty size | cut -c1) = 3 ]; do sleep 0.01; done; tty; stty size; read x; echo got $x; exit 5"
            )
            runs = found.command(WEB, "main", ("sh", "-c", script), tty=True)
            assert runs is not None
            code = await runs(CommandStreams(typed(b"me\n"), screen, None, OneSize()))
            return code, screen.text.decode()

        code, text = asyncio.run(run())
        assert code == 5
        assert "/dev/pts/" in text
        assert "31 91\r\n" in text
        assert text.endswith("got me\r\n")

    @pytest.mark.parametrize("tty", [False, True])
    def test_a_command_and_what_it_started_are_killed_when_the_client_goes(self, tmp_path: Path, tty: bool) -> None:
        async def run() -> None:
            found = answers(tmp_path, local(workDir=str(tmp_path)))
            runs = found.command(WEB, "main", ("sh", "-c", "sleep 600 & echo $! > child; wait"), tty=tty)
            assert runs is not None
            running = asyncio.ensure_future(runs(CommandStreams(stdout=Screen())))
            async with asyncio.timeout(10):
                while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
                    await SystemClock().sleep(0.02)
            running.cancel()
            await asyncio.wait((running,))

        asyncio.run(run())
        child, until = int((tmp_path / "child").read_text()), time.monotonic() + 5
        while _runs(child) and time.monotonic() < until:
            time.sleep(0.02)
        assert not _runs(child)

    def test_without_a_rule_there_is_nothing(self, tmp_path: Path) -> None:
        spec = {"execs": [{"containers": ["side"], "local": {}}]}
        found = answers(tmp_path, document("Exec", "web", spec))
        assert found.command(WEB, "main", ("true",), tty=False) is None
        assert found.command(WEB, "side", ("true",), tty=False) is not None
        assert found.attach(WEB, "main", lambda: True) is None


def test_a_command_of_a_client_that_goes_while_it_starts_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, make = tmp_path / "child", asyncio.create_subprocess_exec

    async def slow(*words: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await make(*words, **options)
        while not started.exists() or not started.read_text():  # noqa: ASYNC110 - the command says it
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        return process

    async def run() -> None:
        monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
        found = answers(tmp_path, local(workDir=str(tmp_path)))
        runs = found.command(WEB, "main", ("sh", "-c", "sleep 600 & echo $! > child; wait"), tty=False)
        assert runs is not None
        running = asyncio.ensure_future(runs(CommandStreams(stdout=Screen())))
        async with asyncio.timeout(10):
            while not started.exists() or not started.read_text():  # noqa: ASYNC110 - the command says it
                await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()

    asyncio.run(run())
    child, until = int(started.read_text()), time.monotonic() + 5
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_those_who_attach_see_a_file_until_the_container_ends(tmp_path: Path) -> None:
    async def run() -> bytes:
        spec = {"attaches": [{"logsFile": log_file(tmp_path, "seen")}]}
        found, screen, looks = answers(tmp_path, document("Attach", "web", spec)), Screen(), [True, True, False]
        show = found.attach(WEB, "main", lambda: looks.pop(0) if len(looks) > 1 else looks[0])
        assert show is not None
        assert await show(CommandStreams(stdout=screen)) == 0
        return screen.text

    assert asyncio.run(run()) == b"seen\n"


class TestPorts:
    def test_addresses_and_commands(self, tmp_path: Path) -> None:
        async def run() -> None:
            async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(await reader.read())
                writer.close()

            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            rules = [
                {"ports": [80], "target": {"address": "127.0.0.1", "port": port}},
                {"ports": [81], "command": ["tr", "a-z", "A-Z"]},
                {"ports": [82], "command": ["nonsense"]},
                {"ports": [83], "target": {"address": "127.0.0.1", "port": 1}},
            ]
            found = answers(tmp_path, document("PortForward", "web", {"forwards": rules}))
            assert found.connects(WEB)
            for number, expected in ((80, b"hello"), (81, b"HELLO")):
                duplex = await found.connect(WEB, number)
                await duplex.write(b"hello")
                await duplex.finish()
                assert await duplex.read() == expected
                assert await duplex.read() == b""
                await duplex.close()
            for number, problem in (
                (82, "nonsense cannot be run"),
                (83, "failed to dial 127.0.0.1:1"),
                (84, "port 84"),
            ):
                with pytest.raises(StreamError, match=problem):
                    await found.connect(WEB, number)
            server.close()

        asyncio.run(run())

    def test_a_pod_that_no_object_is_about_has_no_ports(self, tmp_path: Path) -> None:
        spec = {"selector": {"matchNames": ["other"]}, "forwards": [{"command": ["cat"]}]}
        assert not answers(tmp_path, document("ClusterPortForward", "o", spec)).connects(WEB)

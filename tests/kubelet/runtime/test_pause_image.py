"""The pause program holds a pod's namespaces, reaps orphans and ends when asked to."""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from bayplan.kubelet.runtime.pause_image import pause_image, pause_program

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
needs_machine = pytest.mark.skipif(not MACHINE, reason="the program exists for amd64 and arm64")


def wait_until(happened: object, seconds: float = 5) -> None:
    """Return when a condition holds."""
    end = time.monotonic() + seconds
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def children(process: int) -> list[int]:
    """Processes whose parent this is."""
    return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


@needs_machine
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_asked_to(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "pause"
    file.write_bytes(pause_program(MACHINE))
    file.chmod(0o755)
    process = subprocess.Popen([file])
    try:
        process.send_signal(signal.SIGCHLD)  # which is no reason to end
        wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "S")
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()


@needs_machine
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a process namespace")
def test_as_first_process_it_reaps_orphans(tmp_path: Path) -> None:
    file = tmp_path / "pause"
    file.write_bytes(pause_program(MACHINE))
    file.chmod(0o755)
    outer = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", file])
    try:
        wait_until(lambda: len(children(outer.pid)) == 1)
        (pause,) = children(outer.pid)
        wait_until(lambda: Path(f"/proc/{pause}/comm").read_text().strip() == "pause")
        subprocess.run(["nsenter", "-t", str(pause), "-p", "sh", "-c", "sleep 100 & exit 0"], check=True)
        wait_until(lambda: len(children(pause)) >= 1)
        for orphan in children(pause):
            os.kill(orphan, signal.SIGKILL)
        wait_until(lambda: not children(pause))
        os.kill(pause, signal.SIGTERM)
        assert outer.wait(5) == 0
    finally:
        outer.kill()
        outer.wait()


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_image_is_an_archive_that_registries_tools_read(architecture: str) -> None:
    archive = pause_image(architecture, "example.test/pause:2")
    assert archive == pause_image(architecture, "example.test/pause:2")
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        (entry,) = json.loads(read(tar, "manifest.json"))
        assert entry["RepoTags"] == ["example.test/pause:2"]
        config = json.loads(read(tar, entry["Config"]))
        assert (config["architecture"], config["config"]["Entrypoint"]) == (architecture, ["/pause"])
        with tarfile.open(fileobj=io.BytesIO(read(tar, entry["Layers"][0]))) as layer:
            assert read(layer, "pause") == pause_program(architecture)
            assert layer.getmember("pause").mode == 0o755


def read(tar: tarfile.TarFile, name: str) -> bytes:
    """A file's content."""
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def test_other_machines_are_named() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        pause_program("riscv64")

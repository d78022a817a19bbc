"""A live `bayplan up` for tests that drive it from outside, as users do."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
BAYPLAN = str(Path(sys.executable).parent / "bayplan")
_VERSIONS = ("1.28", "1.33")


@dataclass(frozen=True)
class LiveCluster:
    """A running process and where it can be reached."""

    kubeconfig: Path
    process: subprocess.Popen[str]

    def kubectl(self, binary: str, *arguments: str, timeout: float = 60, check: bool = True, **environment: str) -> str:
        """Run kubectl; returns what it printed (without warnings, if it printed data). Fails the test if kubectl fails, unless told not to check."""
        command = [binary, "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **environment}, check=False
        )
        text = done.stdout + done.stderr
        assert not check or done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{text}"
        return done.stdout if check and done.stdout else text


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start `bayplan up` and return when it says that it is ready."""
    process = subprocess.Popen([BAYPLAN, "up", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("ready"):
            return process
    raise AssertionError("".join(lines))


def stop(process: subprocess.Popen[str]) -> tuple[int, float]:
    """End it as a user does; returns exit code and seconds that it took."""
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(10)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    return code, time.monotonic() - started


@pytest.fixture(scope="session")
def live_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Six nodes with the example application on them."""
    directory = tmp_path_factory.mktemp("cluster")
    kubeconfig = directory / "kubeconfig"
    arguments = ("--data-dir", str(directory / "data"), "--port", "0", "--nodes", "6", "--kubeconfig", str(kubeconfig))
    process = start(*arguments, "--apply", str(EXAMPLES / "shop.yaml"))
    yield LiveCluster(kubeconfig, process)
    stop(process)


def kubectl_binaries() -> list[str]:
    """The kubectl on the path, and other versions that lie beside it."""
    found = shutil.which("kubectl")
    if found is None:
        return []
    real = Path(found).resolve()
    beside = [real.with_name(f"kubectl.{version}") for version in _VERSIONS]
    return [str(one) for one in beside if one.exists()] or [str(real)]


@pytest.fixture(params=kubectl_binaries() or (None,), ids=lambda one: re.sub(r".*/", "", one or "none"))
def binary(request: pytest.FixtureRequest) -> str:
    """A kubectl; the test is skipped if there is none."""
    if request.param is None:
        pytest.skip("no kubectl on the path")
    return str(request.param)


@pytest.fixture(scope="session")
def lone_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """`bayplan apiserver`, and nothing else."""
    directory = tmp_path_factory.mktemp("lone")
    kubeconfig = directory / "kubeconfig"
    command = [BAYPLAN, "apiserver", "--secure-port=0", f"--cert-dir={directory}", f"--kubeconfig={kubeconfig}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready") for line in process.stdout)
        yield LiveCluster(kubeconfig, process)
        stop(process)

"""A shell with an empty home of its own, in which the commands of a page are typed one after the other."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import shutil
import signal
import site
import subprocess
import sys
import time
import venv
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.docs.pages import ROOT

_SECONDS: Final = 120.0
"""How long a command may take, and a server until it is ready."""
_STAYS: Final = re.compile(
    r"^(?:bayplan (?:up|apiserver|scheduler(?! plugin)|controller-manager|node-simulator|dns|ui|trace -f)|kubectl port-forward|kopf run)\b(?!.*--help)"
)
"""Commands that run until they are stopped."""
_IS_READY: Final = re.compile(
    r"^(?:ready\b|started: kube-|Forwarding from|.*Initial authentication has finished)", re.MULTILINE
)
_EXPORT: Final = re.compile(r"^\s*(export KUBECONFIG=\S+)$", re.MULTILINE)
_LINKED: Final = ("examples", "deploy", "src", "pyproject.toml", "README.md")
"""What of a checkout is there."""

_PROGRAMS: Final = ("bayplan", "kubectl-bayplan", "kubectl_complete-bayplan", "kopf", "pip", "pytest")
"""What is installed with Bayplan and what its tests need."""


class ShellError(AssertionError):
    """A command did not do what a reader expects of it."""


class Shell:
    """Runs commands. What stays (servers) is ended at the end, and when another one wants its place."""

    def __init__(self, directory: Path, copy: Path) -> None:
        """directory: empty, for the home and the work. copy: a copy of a cluster, which lies in the work directory as shop.bayplan."""
        self.home, self.work = directory / "home", directory / "work"
        self.home.mkdir(parents=True)
        self.work.mkdir()
        for name in _LINKED:
            (self.work / name).symlink_to(ROOT / name)
        shutil.copy(copy, self.work / "shop.bayplan")
        self._programs = _own_environment(directory / "environment")
        self._servers: list[tuple[str, int]] = []
        self._outputs = directory / "outputs"
        self._outputs.mkdir()

    def __enter__(self) -> Self:
        paths = [str(self._programs), os.environ["PATH"]]
        environment = {
            "HOME": str(self.home),
            "PATH": os.pathsep.join(paths),
            "TERM": "dumb",
            "COLUMNS": "200",
            "LANG": "C.UTF-8",
        }
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            cwd=self.work,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, pid in self._servers:
            self._stop(pid)
        clusters = self.home / ".local" / "share" / "bayplan" / "clusters"
        if clusters.is_dir():
            for one in clusters.iterdir():
                self._ask(f"bayplan delete {shlex.quote(one.name)} > /dev/null 2>&1")
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        self._bash.wait(_SECONDS)
        self._bash.stdout.close()
        with contextlib.suppress(
            ProcessLookupError
        ):  # what a page started and, since a command of it failed, did not end
            os.killpg(self._bash.pid, signal.SIGKILL)

    def run(self, command: str) -> tuple[int, str]:
        """Type a command. Returns its exit code, 0 for what stays and is ready, and what it printed. Raises ShellError."""
        if _STAYS.match(command):
            return 0, self._start(command)
        output = self._new_output()
        code = self._ask(f"{{ {command}\n}} > {output} 2>&1 < /dev/null")
        return code, output.read_text(errors="replace")

    def export(self, printed: str) -> None:
        """Use the cluster that a server has told of, as it says."""
        found = _EXPORT.search(printed)
        if found:
            self._ask(found[1])

    def write(self, name: str, lines: list[str]) -> None:
        """Put a file into the work directory."""
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def as_seen(self, printed: str) -> str:
        """What was printed, as a reader sees it whose home is /home/you and who works there."""
        return printed.replace(str(self.home), "/home/you").replace(str(self.work), "/home/you")

    def _start(self, command: str) -> str:
        place = _place(command)
        for earlier in [one for one in self._servers if one[0] == place]:
            self._servers.remove(earlier)
            self._stop(earlier[1])
        output = self._new_output()
        self._ask(f"{command}\n", then=f"> {output} 2>&1 < /dev/null &", say="$!")
        pid = self._said
        self._servers.append((place, pid))
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until:
            printed = output.read_text(errors="replace") if output.exists() else ""
            if _IS_READY.search(printed):
                return printed
            if not _is_running(pid):
                break
            time.sleep(0.05)
        raise ShellError(f"it is not ready:\n{output.read_text(errors='replace')}")

    def _new_output(self) -> Path:
        return self._outputs / str(len(list(self._outputs.iterdir())))

    def _ask(self, command: str, *, then: str = "", say: str = "$?") -> int:
        """Have the shell do something; its exit code, or what else it is to say. Raises ShellError."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        if then:
            command = f"{_without_comment(command)} {then}"
        self._bash.stdin.write(f"{command}\necho :done: {say}\n")
        self._bash.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._bash.stdout, selectors.EVENT_READ)
            if not selector.select(_SECONDS):
                os.killpg(self._bash.pid, signal.SIGKILL)
                raise ShellError(f"no end after {_SECONDS:.0f} s: {command}")
            line = self._bash.stdout.readline()
        if not line.startswith(":done: "):
            raise ShellError(f"the shell ended or says {line!r}: {command}")
        self._said = int(line.split()[1])
        return self._said

    def _stop(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT if _is_running(pid) else 0)
        until = time.monotonic() + _SECONDS
        while _is_running(pid) and time.monotonic() < until:
            time.sleep(0.05)
        if _is_running(pid):
            os.kill(pid, signal.SIGKILL)
            raise ShellError(f"process {pid} does not obey Ctrl-C")


def _own_environment(directory: Path) -> Path:
    """An environment with all that this one has, in which more can be installed. Returns the directory of its programs."""
    venv.EnvBuilder(symlinks=True).create(directory)
    programs, here = directory / "bin", Path(sys.executable).parent
    (packages,) = directory.glob("lib/python*/site-packages")
    (packages / "beneath.pth").write_text("\n".join([str(ROOT / "src"), *site.getsitepackages()]))
    for name in _PROGRAMS:
        text = (here / name).read_text()
        (programs / name).write_text(text.replace(str(here), str(programs)))
        (programs / name).chmod(0o755)
    return programs


def _place(command: str) -> str:
    """What two servers cannot both have: the port of an API server; other programs have no such thing."""
    words = shlex.split(command, comments=True)
    if words[:2] not in (["bayplan", "up"], ["bayplan", "apiserver"]):
        return command
    port = words[words.index("--port") + 1] if "--port" in words else "6443"
    return command if port == "0" else port


def _without_comment(command: str) -> str:
    """A command that `&` can follow."""
    return re.sub(r"\s+#[^'\"]*$", "", command.strip())


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"

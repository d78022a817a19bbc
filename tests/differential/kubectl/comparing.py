"""Commands run against two servers, and how what they print differs."""

from __future__ import annotations

import asyncio
import difflib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from tests.apiserver.serving import TOKENS
from tests.differential.kubectl.manifests import FILES
from tests.differential.kubectl.normalizing import normalized

_SECONDS: Final = 60.0
"""How long a command may take."""
_SHOWN_LINES: Final = 30


@dataclass
class Outcome:
    """What a command printed, in normal form."""

    code: int
    out: str
    error: str

    @property
    def lines(self) -> list[str]:
        """All of it, as lines to be compared."""
        return [f"exit code {self.code}", *self.out.splitlines(), "--- standard error", *self.error.splitlines()]


@dataclass
class Report:
    """What was compared."""

    commands: int = 0
    differing: list[str] = field(default_factory=list)

    def shown(self) -> str:
        """The sum, for people."""
        return f"{self.commands} commands compared, {len(self.differing)} differ"


class Desk:
    """A directory with the files that the commands name, and an environment in which kubectl speaks to one server."""

    def __init__(self, directory: Path, url: str, kubectl: str) -> None:
        self.directory = directory
        for name, text in FILES.items():
            path = directory / "files" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        programs = directory / "programs"
        programs.mkdir()
        (programs / "kubectl").symlink_to(Path(kubectl).resolve())
        config = directory / "config"
        config.write_text(yaml.safe_dump(_kubeconfig(url)), encoding="utf-8")
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "KUBECONFIG": str(config),
            "TZ": "UTC",
            "LANG": "C.UTF-8",
        }

    async def run(self, line: str) -> Outcome:
        """Run one line of a shell."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", line,
            cwd=self.directory / "files",
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_SECONDS):
                out, error = await process.communicate()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            out, error = await process.communicate()
            error += b"\nno end in time\n"
        return Outcome(process.returncode or 0, normalized(out.decode()), normalized(error.decode()))


def _kubeconfig(url: str) -> dict[str, object]:
    cluster = {"server": url, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "compared", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": TOKENS["admin"][0]}}],
        "contexts": [{"name": "compared", "context": {"cluster": "compared", "user": "admin"}}],
        "current-context": "compared",
    }


async def compare(reference: Desk, tested: Desk, commands: Iterable[tuple[str, str]]) -> Report:
    """Run commands on both, one after the other; what differs is printed as it is found."""
    report = Report()
    for topic, line in commands:
        expected, actual = await asyncio.gather(reference.run(line), tested.run(line))
        report.commands += 1
        if expected == actual:
            continue
        found = difference(expected, actual)
        report.differing.append(line)
        print(f"{topic}: {line}\n" + "\n".join(f"    {one}" for one in found[:_SHOWN_LINES]), flush=True)
    return report


def difference(expected: Outcome, actual: Outcome) -> list[str]:
    """The lines that only one of two outcomes has: `-` the first, `+` the second."""
    lines = difflib.unified_diff(expected.lines, actual.lines, "", "", n=0, lineterm="")
    return [
        line
        for line in lines
        if not line.startswith(("---  ", "--- \n", "+++ ", "@@")) and line not in ("--- ", "+++ ")
    ]

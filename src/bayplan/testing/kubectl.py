"""Real kubectl for tests: found where it is installed, run with a kubeconfig and a time limit."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

VERSIONS = ("1.28", "1.33")
"""Versions beside the one on the PATH, where a distribution ships several as `kubectl.1.28`."""
TIMEOUT = 20.0
"""Seconds that one command may take."""


def find_kubectls() -> dict[str, Path]:
    """Version -> program: those of VERSIONS that lie beside kubectl, else the one on the PATH as "default"; empty if there is none."""
    program = shutil.which("kubectl")
    if program is None:
        return {}
    directory = Path(program).resolve().parent
    found = {version: directory / f"kubectl.{version}" for version in VERSIONS}
    found = {version: path for version, path in found.items() if os.access(path, os.X_OK)}
    return found or {"default": Path(program)}


class KubectlFailed(AssertionError):
    """kubectl ended with an exit code that was not expected."""


@dataclass(frozen=True, slots=True)
class Output:
    """What a command answered."""

    code: int
    out: str
    errors: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One kubectl for one cluster. `home` keeps its cache away from the user's."""

    program: Path
    kubeconfig: Path
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        code: int | None = 0,
        timeout: float = TIMEOUT,
        environment: Mapping[str, str] | None = None,
    ) -> Output:
        """Run a command. Raises KubectlFailed if it does not end with `code` (None: any), or not in time."""
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig),
            **self.environment,
            **(environment or {}),
        }
        try:
            done = subprocess.run(
                (str(self.program), *arguments),
                input=stdin,
                capture_output=True,
                text=True,
                timeout=timeout,
                env=variables,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlFailed(
                f"kubectl {' '.join(arguments)}: no end within {timeout:g} s: {error.output!r}"
            ) from error
        if code is not None and done.returncode != code:
            shown = f"kubectl {' '.join(arguments)}: exit code {done.returncode} instead of {code}"
            raise KubectlFailed(f"{shown}\n{done.stdout}{done.stderr}")
        return Output(done.returncode, done.stdout, done.stderr)

    def __call__(self, *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> str:
        """What a command that succeeds prints."""
        return self.run(*arguments, stdin=stdin, environment=environment).out

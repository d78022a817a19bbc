"""kubectl against a cluster with real nodes, as scenarios use it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SECONDS = 80.0
"""Within which whatever a scenario waits for must have happened."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with a kubeconfig; calls return what it prints and fail with its error."""

    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self._run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout

    def apply(self, manifests: str) -> None:
        """Apply YAML."""
        self("apply", "-f", "-", stdin=manifests)

    def get(self, what: str, path: str) -> str:
        """What a JSONPath finds in `kind/name`; empty for an object that does not exist."""
        return self("get", what, "--ignore-not-found", "-o", f"jsonpath={{{path}}}")

    def wait(self, what: str, path: str, wanted: str) -> None:
        """Return when a JSONPath of `kind/name` has a value."""
        self.until(lambda: self.get(what, path) == wanted, f"{what}{path} is {wanted}")

    def wait_ready(self, pod: str) -> None:
        """Return when a pod is ready."""
        self.wait(f"pod/{pod}", '.status.conditions[?(@.type=="Ready")].status', "True")

    def sh(self, pod: str, script: str) -> str:
        """What a shell script prints in a pod."""
        return self("exec", pod, "--", "sh", "-c", script)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Return when a condition holds; on failure say what the cluster shows."""
        end = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > end:
                shown = self._run("get", "nodes,pods,pvc,pv,events", "-A", "-o", "wide").stdout
                raise AssertionError(f"after {SECONDS:g} s there is still not: {what}\n{shown}")
            time.sleep(0.1)

    def _run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command = ["kubectl", "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)

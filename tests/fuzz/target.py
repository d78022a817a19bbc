"""The cluster under test: `bayplan up` in a directory of its own, and what can be seen of its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.load import Target as Address

BAYPLAN = str(Path(sys.executable).parent / "bayplan")
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
_SECRET = re.compile(r"Bearer\s+\S{8,}|BEGIN [A-Z ]*PRIVATE KEY")


class Cluster:
    """A running cluster. Ended by `stop`."""

    def __init__(self, directory: Path, nodes: int = 2, environment: Mapping[str, str] = os.environ) -> None:
        self._log = directory / "log"
        kubeconfig = directory / "kubeconfig"
        arguments = ["--port", "0", "--data-dir", str(directory / "data"), "--kubeconfig", str(kubeconfig)]
        arguments += ["--nodes", str(nodes), "--apiserver-flag=--event-ttl=20s"]
        arguments += ["--apiserver-flag=--disable-http2-serving=false"]
        with self._log.open("wb") as log:
            command = [BAYPLAN, "up", *arguments]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        deadline = time.monotonic() + _START_SECONDS
        while "ready" not in self.log():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the cluster does not start: {self.log()[-2000:]}")
            time.sleep(0.02)
        self.address = Address(kubeconfig)
        self.processes = tuple(sorted(_descendants(self._process.pid)))
        """The cluster's processes, that of the API server first."""

    def log(self) -> str:
        """What the cluster has logged."""
        return self._log.read_text(errors="replace")

    def cpu_seconds(self) -> float:
        """CPU time that the API server's process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def resident_mib(self) -> list[float]:
        """Resident memory of each process."""
        pages = [int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in self.processes]
        return [count * os.sysconf("SC_PAGE_SIZE") / (1 << 20) for count in pages]

    def proportional_mib(self) -> list[float]:
        """The same where a page that processes share counts for each in part."""
        found = []
        for one in self.processes:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            found.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
        return found

    def faults(self) -> list[str]:
        """What is wrong with the processes and their log."""
        found = []
        if self._process.poll() is not None:
            found.append(f"the API server's process ended with {self._process.returncode}")
        elif gone := set(self.processes) - _descendants(self._process.pid):
            found.append(f"processes {gone} ended")
        log = self.log()
        if "Traceback" in log:
            start = log.index("Traceback")
            found.append(
                f"{log.count('Traceback')} tracebacks in the log, the first: {log[max(0, start - 300) : start + 3000]}"
            )
        if secret := _SECRET.search(log):
            found.append(f"credentials in the log: {secret[0][:20]}...")
        return found

    def stop(self) -> None:
        """End the cluster. Raises RuntimeError if it does not end by itself."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(f"the cluster does not end by itself; its log ends with: {self.log()[-2000:]}") from None


def _descendants(process: int) -> set[int]:
    """A process with its children and theirs."""
    found, new = {process}, [process]
    while new:
        one = new.pop()
        try:
            children = Path(f"/proc/{one}/task/{one}/children").read_text().split()
        except OSError:
            continue
        new += [int(child) for child in children]
        found |= {int(child) for child in children}
    return found

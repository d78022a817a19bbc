"""Clients that write as fast as they can while the server is told to stop: which requests get no answer?

python -m tests.integration.shutdown_load --rounds 100
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import ssl
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.integration.conftest import start

_MAPS = "/api/v1/namespaces/default/configmaps"


@dataclass
class Outcome:
    """What became of the requests of one round."""

    sent: int = 0
    """Requests that were written while the connection was open as far as the client could see."""
    answered: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    unanswered: list[str] = field(default_factory=list)
    """How each request ended that was sent and got no whole answer."""
    announced: int = 0
    """Connections whose last answer said that it was the last one."""
    acknowledged: set[str] = field(default_factory=set)
    """Names of objects whose creation was answered with 201."""
    seconds: float = 0.0
    """From the signal to the end of the process."""
    code: int | None = None


class Writer:
    """One keep-alive connection in a closed loop: create, replace, get."""

    def __init__(self, number: int, run: str, token: str, outcome: Outcome) -> None:
        self._number, self._run, self._token, self._outcome = number, run, token, outcome
        self._cuts_bodies, self._pipelines = number % 4 == 1, number % 8 == 2

    def _request(self, step: int) -> tuple[str, bytes, bytes]:
        """Name of the object, head and body."""
        name = f"{self._run}-{self._number}-{step // 3}"
        kind = step % 3
        method, path = (("POST", _MAPS), ("PUT", f"{_MAPS}/{name}"), ("GET", f"{_MAPS}/{name}"))[kind]
        body = json.dumps({"metadata": {"name": name}, "data": {"step": str(step)}}).encode() if kind < 2 else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return name if kind == 0 else "", f"{head}\r\n".encode(), body

    async def run(self, port: int, trust: ssl.SSLContext, until: asyncio.Event) -> None:
        """Write until the server says that it ends, or has gone."""
        step = 0
        with contextlib.suppress(ConnectionError, ssl.SSLError):  # between requests; within one it is noted
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
            while not until.is_set() and not reader.at_eof() and not writer.transport.is_closing():
                count = 2 if self._pipelines else 1
                if not await self._exchange(reader, writer, [self._request(step + one) for one in range(count)]):
                    break
                step += count
            writer.close()

    async def _exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[tuple[str, bytes, bytes]]
    ) -> bool:
        """Send requests and read their answers; False if the connection does not go on."""
        outcome = self._outcome
        if self._cuts_bodies:
            for _, head, body in requests:
                writer.write(head)
                await asyncio.sleep(random.random() * 0.02)
                writer.write(body)
        else:
            writer.write(b"".join(head + body for _, head, body in requests))
        outcome.sent += len(requests)
        for index, (name, _, _) in enumerate(requests):
            try:
                status, goes_on = await asyncio.wait_for(_answer(reader), 30)
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                outcome.unanswered.append(f"{requests[index][1][:50]!r}: {error!r}")
                return False
            outcome.answered += 1
            outcome.statuses[status] += 1
            if name and status == 201:
                outcome.acknowledged.add(name)
            if not goes_on:
                outcome.announced += 1
                outcome.unanswered += ["sent in one piece with one that was answered"] * (len(requests) - index - 1)
                return False
        return True


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Status of an answer, and whether the connection goes on."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    await reader.readexactly(length)
    return int(head.split()[1]), "connection: close" not in head


async def _write_through_the_end(process: subprocess.Popen[str], directory: Path, run: str, writers: int) -> Outcome:
    config = yaml.safe_load((directory / "kubeconfig").read_text())
    port = int(config["clusters"][0]["cluster"]["server"].rpartition(":")[2])
    token = (directory / "pki" / "admin-token").read_text()
    trust = ssl.create_default_context(cafile=directory / "pki" / "ca.crt")
    outcome, gone = Outcome(), asyncio.Event()
    tasks = [asyncio.create_task(Writer(n, run, token, outcome).run(port, trust, gone)) for n in range(writers)]
    await asyncio.sleep(0.3 + random.random() * 0.5)
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    outcome.code = await asyncio.to_thread(process.wait, 60)
    outcome.seconds = time.monotonic() - started
    await asyncio.wait(tasks, timeout=30)
    gone.set()
    await asyncio.gather(*tasks)
    return outcome


def run_round(directory: Path, run: str, *, writers: int = 64, flags: tuple[str, ...] = ()) -> Outcome:
    """Start a cluster on a directory, stop it under load."""
    process = start("--data-dir", str(directory), "--port", "0", "--nodes", "1", *flags)
    try:
        return asyncio.run(_write_through_the_end(process, directory, run, writers))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def main() -> None:
    """Run many rounds, and say what became of their requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--writers", type=int, default=64)
    options = parser.parse_args()
    total, worst = Counter[str](), 0.0
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as directory:
            outcome = run_round(Path(directory), f"r{number}", writers=options.writers)
        worst = max(worst, outcome.seconds)
        total.update(
            sent=outcome.sent,
            answered=outcome.answered,
            unanswered=len(outcome.unanswered),
            announced=outcome.announced,
            bad=sum(n for status, n in outcome.statuses.items() if status >= 400),
            nonzero=int(outcome.code != 0),
        )
        print(number, dict(total), f"{outcome.seconds:.2f} s, worst {worst:.2f} s", *outcome.unanswered[:3], flush=True)


if __name__ == "__main__":
    main()

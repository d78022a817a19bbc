"""The two servers: programs with the same flags, each over an empty store, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp

from bayplan.testing.replay import Player
from tests.apiserver.serving import TOKENS
from tests.store.etcd.server import ENDS_WITH_PARENT, EtcdServer, free_ports

_START_SECONDS = 120.0
_WATCH_SECONDS = 4.0
"""How long a step waits for events that do not come: watches end by themselves before."""


def _flags(directory: Path, port: int) -> list[str]:
    """What both programs are started with; see `serving.AS_RECORDED`."""
    (directory / "tokens").write_text(
        "".join(f'{token},{name},{uid},"{",".join(groups)}"\n' for token, name, uid, groups in TOKENS.values())
    )
    return [
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={directory / 'certificates'}",
        f"--token-auth-file={directory / 'tokens'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--advertise-address=192.0.2.1",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-jwks-uri=https://kubernetes.default.svc/openid/v1/jwks",
        f"--service-account-signing-key-file={directory / 'key'}",
        f"--service-account-key-file={directory / 'key'}",
    ]


@functools.cache
def _signing_key() -> bytes:
    """The key that signs tokens of service accounts, which all servers publish."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain)


def _prepare(directory: Path) -> None:
    """Make the directory of a server."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "key").write_bytes(_signing_key())


@contextlib.asynccontextmanager
async def running(program: Sequence[str], directory: Path) -> AsyncIterator[Player]:
    """A player of scenarios against a program, which is ended with it. program: its first words; a log is written to the directory."""
    _prepare(directory)
    port = free_ports(1)[0]
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *ENDS_WITH_PARENT,
            *program,
            *_flags(directory, port),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd=directory,
        )
    try:
        url = f"https://127.0.0.1:{port}"
        connector = aiohttp.TCPConnector(ssl=False, limit=0)  # each server makes a certificate of its own
        async with aiohttp.ClientSession(connector=connector) as session:
            if not await _becomes_ready(url, session, process):
                raise RuntimeError(f"{url} does not get ready: {_end_of(directory / 'log')}")
            yield Player(url, {user: row[0] for user, row in TOKENS.items()}, session, patience=_WATCH_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _becomes_ready(url: str, session: aiohttp.ClientSession, process: asyncio.subprocess.Process) -> bool:
    """Wait until a server is ready; False if it ends, or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    headers = {"Authorization": f"Bearer {TOKENS['admin'][0]}"}
    while process.returncode is None and time.monotonic() < deadline:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(f"{url}/readyz", headers=headers) as response:
                if response.status == 200:
                    return True
        await asyncio.sleep(0.1)
    return False


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


@contextlib.asynccontextmanager
async def running_reference(program: Sequence[str], directory: Path) -> AsyncIterator[Player]:
    """kube-apiserver over an etcd of its own."""
    etcd = EtcdServer(directory / "etcd", name="reference")
    etcd.start()
    try:
        async with running([*program, f"--etcd-servers=http://{etcd.endpoint}"], directory) as player:
            yield player
    finally:
        etcd.stop()

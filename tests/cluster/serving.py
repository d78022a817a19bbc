"""A server of a cluster for tests, over HTTPS: no controllers, no nodes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from bayplan.apiserver.certificates import KeyPair
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


def written(path: Path, pair: KeyPair) -> tuple[Path, Path]:
    """Certificate and key as files."""
    certificate, key = path.with_suffix(".crt"), path.with_suffix(".key")
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


@contextlib.asynccontextmanager
async def running(given: ClusterSettings) -> AsyncIterator[Cluster]:
    """A running cluster."""
    cluster = Cluster(given)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


def client_of(cluster: Cluster, path: Path, pair: KeyPair | None) -> aiohttp.ClientSession:
    """A client with this certificate."""
    tls = ssl.create_default_context(cadata=cluster.credentials.authority.certificate.decode())
    if pair is not None:
        tls.load_cert_chain(*written(path / "client", pair))
    return aiohttp.ClientSession(cluster.server_url, connector=aiohttp.TCPConnector(ssl=tls))


async def reviewed(session: aiohttp.ClientSession, headers: Mapping[str, str] = {}) -> tuple[int, dict[str, Any]]:
    """Status, and who the server says that one is."""
    url = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with session.post(url, json=REVIEW, headers=headers) as answer:
        return answer.status, (await answer.json()).get("status", {}).get("userInfo", {}) if answer.ok else {}


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something is true, but not for ever."""
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 - nobody tells when
            await asyncio.sleep(0.01)

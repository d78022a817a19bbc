"""Who may ask the kubelet's server for what: certificates, tokens, anonymous requests, rights by path and verb."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from bayplan.apiserver.certificates import make_authority
from bayplan.kubelet.server.access import subresources
from bayplan.support.clock import SystemClock
from tests.kubelet.server.served import served


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/pods", ("pods", "proxy")),
        ("/pods/", ("pods", "proxy")),
        ("/podsother", ("proxy",)),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz", ("healthz", "proxy")),
        ("/healthz/syncloop", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/stats/summary", ("stats",)),
        ("/metrics", ("metrics",)),
        ("/metrics/cadvisor", ("metrics",)),
        ("/logs/messages", ("log",)),
        ("/checkpoint/ns/p/c", ("checkpoint",)),
        ("/containerLogs/ns/p/c", ("proxy",)),
        ("/exec/ns/p/c", ("proxy",)),
        ("//exec/ns/p/c", ("proxy",)),
        ("/", ("proxy",)),
    ],
)
def test_rights_follow_from_the_path(path: str, expected: tuple[str, ...]) -> None:
    assert subresources(path) == expected


@pytest.mark.parametrize(
    ("user", "method", "path", "status"),
    [
        ("admin", "GET", "/pods", 200),
        ("admin", "GET", "/metrics", 200),
        ("admin", "GET", "/stats/summary", 200),
        ("admin", "GET", "/logs/messages", 200),
        ("admin", "GET", "/configz", 200),
        ("admin", "DELETE", "/pods", 403),
        ("watcher", "GET", "/pods", 200),
        ("watcher", "GET", "/runningpods/", 200),
        ("watcher", "GET", "/healthz", 200),
        ("watcher", "GET", "/configz", 200),
        ("watcher", "GET", "/metrics", 403),
        ("watcher", "POST", "/pods", 403),
        ("watcher", "GET", "/containerLogs/ns/p/c", 403),
        ("prometheus", "GET", "/metrics/cadvisor", 200),
        ("prometheus", "GET", "/stats/summary", 403),
        ("prometheus", "GET", "/logs/messages", 403),
    ],
)
def test_users_get_what_they_have_a_right_to(tmp_path: Path, user: str, method: str, path: str, status: int) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            assert (await server.ask(path, user, method=method))[0] == status
            assert (await server.ask(path, "", token=user, method=method))[0] == status

    asyncio.run(steps())


def test_refusals_are_in_kubelets_words(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            forbidden = "Forbidden (user=prometheus, verb=create, resource=nodes, subresource(s)=[pods proxy])\n"
            assert await server.ask("/pods", "prometheus", method="POST") == (403, forbidden)
            assert await server.ask("/pods", "", token="nobody") == (401, "Unauthorized")
            assert await server.ask("/pods", "") == (401, "Unauthorized")
            server.reviewer.is_away = True
            error = "Authorization error (user=admin, verb=get, resource=nodes, subresource=pods)"
            assert await server.ask("/pods") == (500, error)
            assert await server.ask("/pods", "", token="watcher") == (401, "Unauthorized")

    asyncio.run(steps())


def test_answers_of_the_api_server_are_kept(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server:
            for _ in range(3):
                assert (await server.ask("/metrics", "", token="prometheus"))[0] == 200
                assert (await server.ask("/stats/summary", "", token="prometheus"))[0] == 403
            kinds = [path.rpartition("/")[2] for path in server.reviewer.requests]
            assert sorted(kinds) == ["subjectaccessreviews", "subjectaccessreviews", "tokenreviews"]

    asyncio.run(steps())


def test_groups_of_users_are_those_of_the_certificate_and_of_all_that_are_known(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server, aiohttp.ClientSession() as session:
            url = f"https://127.0.0.1:{server.port}/metrics"
            async with session.get(url, ssl=server.tls("admin", "system:masters", "ops")) as answer:
                assert answer.status == 200
            assert set(server.reviewer.groups[0]) == {"system:masters", "ops", "system:authenticated"}
            await server.ask("/metrics", "", token="admin")
            assert server.reviewer.groups[1] == ["system:authenticated"]

    asyncio.run(steps())


def test_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async def steps() -> None:
        async with served(tmp_path) as server, aiohttp.ClientSession() as session:
            foreign = server.tls("admin", authority=make_authority(SystemClock().now()))
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
                await session.get(f"https://127.0.0.1:{server.port}/metrics", ssl=foreign)
            assert server.reviewer.requests == []

    asyncio.run(steps())


def test_anonymous_requests_are_let_in_where_the_configuration_says_so(tmp_path: Path) -> None:
    settings = {"authentication": {"anonymous": {"enabled": True}}}

    async def steps() -> None:
        async with served(tmp_path, settings) as server:
            status, text = await server.ask("/metrics", "")
            assert (status, text.split(",")[0]) == (403, "Forbidden (user=system:anonymous")
            assert server.reviewer.groups == [["system:unauthenticated"]]
            assert await server.ask("/metrics", "", token="nobody") == (401, "Unauthorized")

    asyncio.run(steps())


def test_without_authorization_whoever_is_known_may_everything(tmp_path: Path) -> None:
    settings = {"authorization": {"mode": "AlwaysAllow"}, "authentication": {"webhook": {"enabled": False}}}

    async def steps() -> None:
        async with served(tmp_path, settings) as server:
            assert (await server.ask("/pods", "somebody"))[0] == 200
            assert await server.ask("/pods", "", token="admin") == (401, "Unauthorized")
            assert server.reviewer.requests == []

    asyncio.run(steps())

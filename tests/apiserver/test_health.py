"""Health endpoints: single checks, verbose answers, exclusions."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, new_api, opened, served


async def _ask(api: ApiServer, path: str, **query: str) -> tuple[int, str]:
    response = await api.handle(Request("GET", path, query, ADMIN))
    return response.code, response.body.decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_a_verbose_answer_tells_every_check_and_each_can_be_asked_alone(path: str) -> None:
    async def scenario() -> None:
        async with opened() as api:
            assert await _ask(api, path) == (200, "ok")
            code, text = await _ask(api, path, verbose="")
            *lines, last = text.splitlines()
            assert (code, last) == (200, f"{path[1:]} check passed")
            names = [line.removeprefix("[+]").removesuffix(" ok") for line in lines]
            own = [] if path == "/readyz" else ["loopback-serving-certificate"]
            assert names[: 3 + len(own)] == ["ping", "log", *own, "etcd"]
            assert "poststarthook/rbac/bootstrap-roles" in names
            assert ("shutdown" in names) == (path == "/readyz")
            for name in names:
                assert await _ask(api, f"{path}/{name}") == (200, "ok")
            assert (await _ask(api, f"{path}/nosuch"))[0] == 404

    asyncio.run(scenario())


def test_checks_are_left_out_by_name_and_unknown_names_are_told() -> None:
    async def scenario() -> None:
        async with served() as server:
            url = f"{server.url}/readyz?verbose&exclude=etcd&exclude=nosuch&exclude=ping"
            async with server.session.get(url, headers=server.headers()) as answer:
                lines = (await answer.text()).splitlines()
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert "[+]etcd excluded: ok" in lines
            assert "[+]ping excluded: ok" in lines
            warning = 'warn: some health checks cannot be excluded: no matches for "nosuch"'
            assert lines[-2:] == [warning, "readyz check passed"]

    asyncio.run(scenario())


def test_a_server_that_is_not_open_or_closes_is_not_ready_and_says_which_check_failed() -> None:
    async def scenario() -> None:
        api = new_api()
        code, text = await _ask(api, "/readyz")
        assert code == 500
        assert "[-]etcd failed: reason withheld" in text
        assert "[+]ping ok" in text
        assert text.endswith("readyz check failed\n")
        assert await _ask(api, "/readyz/etcd") == (500, "internal server error: the store is not open\n")
        await api.open()
        assert await _ask(api, "/readyz") == (200, "ok")
        await api.close()
        assert await _ask(api, "/readyz/shutdown") == (500, "internal server error: process is shutting down\n")
        assert (await _ask(api, "/livez/ping"))[0] == 200

    asyncio.run(scenario())

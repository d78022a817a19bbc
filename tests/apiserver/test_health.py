"""Health endpoints: single checks, verbose answers, exclusions."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from bayplan.apiserver.requests import Request
from bayplan.apiserver.server import ApiServer
from bayplan.store.memory import MemoryStore
from bayplan.support.clock import SystemClock
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


def test_each_check_is_counted_with_its_result() -> None:
    async def scenario() -> None:
        async with served() as server:
            for path in ("readyz", "readyz", "livez?exclude=log", "readyz/ping"):
                async with server.session.get(f"{server.url}/{path}", headers=server.headers()) as answer:
                    assert answer.status == 200
            server.api.stopping = True
            async with server.session.get(f"{server.url}/readyz", headers=server.headers()) as answer:
                assert answer.status == 500
            async with server.session.get(f"{server.url}/metrics/slis", headers=server.headers()) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                lines = set((await answer.text()).splitlines())
            async with server.session.get(f"{server.url}/metrics/slis", headers=server.headers("carol")) as answer:
                assert answer.status == 403
        assert 'kubernetes_healthcheck{name="ping",type="readyz"} 1' in lines
        assert 'kubernetes_healthcheck{name="shutdown",type="readyz"} 0' in lines
        assert 'kubernetes_healthchecks_total{name="ping",status="success",type="readyz"} 3' in lines
        assert 'kubernetes_healthchecks_total{name="shutdown",status="success",type="readyz"} 2' in lines
        assert 'kubernetes_healthchecks_total{name="shutdown",status="error",type="readyz"} 1' in lines
        assert 'kubernetes_healthchecks_total{name="ping",status="success",type="livez"} 1' in lines
        assert not any('name="log"' in line and 'type="livez"' in line for line in lines)
        assert {"# TYPE kubernetes_healthcheck gauge", "# TYPE kubernetes_healthchecks_total counter"} <= lines

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("module", "function", "failing"),
    [
        ("bayplan.apiserver.server", "publish_beside_others", "poststarthook/rbac/bootstrap-roles"),
        ("bayplan.apiserver.server", "publish_service", "poststarthook/bootstrap-controller"),
    ],
)
def test_a_hook_has_not_finished_until_what_it_stands_for_is_done(
    module: str, function: str, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, reached = asyncio.Event(), asyncio.Event()
    original = getattr(sys.modules[module], function)

    async def slow(*arguments: Any) -> None:
        reached.set()
        await done.wait()
        await original(*arguments)

    async def scenario() -> None:
        monkeypatch.setattr(sys.modules[module], function, slow)
        api = new_api()

        async def start() -> None:
            await api.open()
            await api.publish_address("192.0.2.1", 6443)

        starting = asyncio.create_task(start())
        await asyncio.wait_for(reached.wait(), 10)
        assert await _ask(api, f"/readyz/{failing}") == (500, "internal server error: not finished\n")
        assert f"[-]{failing} failed" in (await _ask(api, "/livez"))[1]
        assert await _ask(api, "/readyz/informer-sync") == (200, "ok")
        done.set()
        await starting
        assert await _ask(api, f"/readyz/{failing}") == (200, "ok")
        assert await _ask(api, "/readyz") == (200, "ok")
        await api.close()

    asyncio.run(scenario())


def test_a_task_that_fails_makes_its_check_fail_until_it_runs_again() -> None:
    async def scenario() -> None:
        async with opened() as api:
            failures = [RuntimeError("no lease")]

            async def identity() -> None:
                if failures:
                    raise failures.pop()
                await asyncio.Event().wait()

            api.keep_running("identity", identity)
            check = "/livez/poststarthook/start-kube-apiserver-identity-lease-controller"
            expected = "internal server error: identity failed: RuntimeError: no lease\n"
            await _until(api, check, (500, expected))
            await _until(api, check, (200, "ok"))

    asyncio.run(scenario())


async def _until(api: ApiServer, path: str, expected: tuple[int, str]) -> None:
    async with asyncio.timeout(10):
        while await _ask(api, path) != expected:  # noqa: ASYNC110  (nothing sets an event)
            await asyncio.sleep(0.005)


class FullStore(MemoryStore):
    """A store that says that it cannot write."""

    error = ""

    @property
    def write_error(self) -> str:
        return self.error


def test_a_store_that_cannot_write_is_told() -> None:
    async def scenario() -> None:
        store = FullStore(clock=SystemClock())
        async with opened(store) as api:
            assert await _ask(api, "/readyz") == (200, "ok")
            store.error = "the disk is full"
            for check in ("/readyz/etcd", "/readyz/etcd-readiness", "/livez/etcd"):
                assert await _ask(api, check) == (500, "internal server error: the disk is full\n")
            code, text = await _ask(api, "/api/v1/componentstatuses/etcd-0")
            assert code == 200
            unhealthy = {"type": "Healthy", "status": "False", "error": "the disk is full"}
            assert json.loads(text)["conditions"] == [unhealthy]
            store.error = ""
            assert await _ask(api, "/readyz") == (200, "ok")

    asyncio.run(scenario())


def test_components_that_run_elsewhere_are_not_vouched_for() -> None:
    async def scenario() -> None:
        async with opened() as api:
            code, text = await _ask(api, "/api/v1/componentstatuses")
            assert code == 200
            found = {one["metadata"]["name"]: one["conditions"] for one in json.loads(text)["items"]}
            healthy = {"type": "Healthy", "status": "True", "message": "ok"}
            assert found["etcd-0"] == [healthy]
            refused = 'Get "https://127.0.0.1:10259/healthz": dial tcp 127.0.0.1:10259: connect: connection refused'
            assert found["scheduler"] == [{"type": "Healthy", "status": "False", "message": refused}]
            api.context.component_failures = {"scheduler": lambda: "", "controllers": lambda: "it is away"}
            code, text = await _ask(api, "/api/v1/componentstatuses/scheduler")
            assert json.loads(text)["conditions"] == [healthy]
            assert await _ask(api, "/readyz/component-process") == (500, "internal server error: it is away\n")

    asyncio.run(scenario())

"""What the audit log says of requests that are refused, and of those that fail."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.apiserver.context import Call
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.audit.recording import MAPS, Tree, config_map, recorded, send
from tests.apiserver.serving import AS_RECORDED

METADATA: Tree = {"level": "Metadata"}


@pytest.mark.parametrize(
    ("path", "headers", "user", "code", "reason", "decision"),
    [
        pytest.param(f"{MAPS}/absent", (), "admin", 404, "NotFound", "allow", id="what there is not"),
        pytest.param("/api/v1/nosuches", (), "admin", 404, "NotFound", "allow", id="a resource that there is not"),
        pytest.param(MAPS, (), "", 403, "Forbidden", "forbid", id="nobody in particular"),
        pytest.param(MAPS, (("Impersonate-User", "x"),), "alice", 403, "Forbidden", None, id="who may not be another"),
        pytest.param(MAPS, (("Accept", "text/html"),), "admin", 406, "NotAcceptable", "allow", id="a form"),
    ],
)
def test_refused_requests(
    path: str, headers: tuple[tuple[str, str], ...], user: str, code: int, reason: str, decision: str | None
) -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):
            await send(server, "GET", path, None, headers, user)
            status = (await log.last())["responseStatus"]
            assert (status["code"], status["reason"], status["status"]) == (code, reason, "Failure")
            await send(server, "GET", path, None, headers, user)
            found = (await log.last()).get("annotations", {}).get("authorization.k8s.io/decision")
            assert found == decision

    asyncio.run(main())


def test_a_request_with_wrong_credentials_is_one_event_without_a_user() -> None:
    async def main() -> None:
        known = {"level": "None", "userGroups": ["system:unauthenticated"]}
        async with recorded(known, METADATA) as (server, log):
            _, headers, _ = await send(server, "GET", MAPS, None, [("Authorization", "Bearer wrong")])
            (found,) = log.events
            assert headers["audit-id"] == found["auditID"]
            assert (found["stage"], found["verb"], found["user"]) == ("ResponseStarted", "list", {})
            assert found["objectRef"]["resource"] == "configmaps"
            assert found["responseStatus"] == {
                "metadata": {},
                "status": "Failure",
                "message": "Unauthorized",
                "reason": "Unauthorized",
                "code": 401,
            }

    asyncio.run(main())


def test_requests_that_have_to_wait_or_are_too_large() -> None:
    async def main() -> None:
        settings = ApiServerSettings(
            enable_priority_and_fairness=False,
            max_requests_inflight=1,
            authorization_modes=("RBAC",),
            max_request_bytes=100,
        )
        async with recorded(METADATA, settings=settings) as (server, log):
            begun, go_on = asyncio.Event(), asyncio.Event()

            async def hold(_call: Call) -> None:
                begun.set()
                await go_on.wait()

            server.api.interceptor = hold
            first = asyncio.create_task(send(server, "GET", MAPS))
            await begun.wait()
            log.events.clear()
            code, _, _ = await send(server, "GET", MAPS, user="alice")
            go_on.set()
            await first
            assert code == 429
            assert log.stages()[:2] == [("list", "RequestReceived", 0), ("list", "ResponseComplete", 429)]
            await send(server, "POST", MAPS, config_map(x="y" * 100))
            status = (await log.last())["responseStatus"]
            assert (status["code"], status["reason"]) == (413, "RequestEntityTooLarge")

    asyncio.run(main())


def test_a_refused_request_shows_no_object_and_one_that_admission_refuses_does() -> None:
    async def main() -> None:
        async with recorded({"level": "Request"}, settings=AS_RECORDED) as (server, log):
            await send(server, "POST", MAPS, config_map(), user="alice")
            found = await log.last()
            assert (found["responseStatus"]["code"], "requestObject" in found) == (403, False)
            await send(server, "POST", MAPS.replace("default", "nowhere"), config_map(x="1"))
            found = await log.last()
            assert (found["responseStatus"]["code"], found["requestObject"]) == (404, config_map(x="1"))
            await send(server, "POST", MAPS, b"{")
            found = await log.last()
            assert (found["responseStatus"]["code"], "requestObject" in found) == (400, False)

    asyncio.run(main())


def test_what_fails_in_the_server_is_a_panic(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with recorded(METADATA) as (server, log):

            async def fail(_call: Call) -> None:
                raise RuntimeError("broken")

            server.api.interceptor = fail
            await send(server, "GET", MAPS)
            assert [one["stage"] for one in log.events] == ["RequestReceived", "Panic"]
            assert log.events[1]["responseStatus"] == {
                "metadata": {},
                "status": "Failure",
                "message": "APIServer panic'd: RuntimeError: broken",
                "reason": "InternalError",
                "code": 500,
            }

    asyncio.run(main())
    assert "failed" in caplog.text


def test_what_cannot_be_recorded_is_refused_if_the_log_is_strict() -> None:
    async def main() -> None:
        async with recorded(METADATA, takes=False) as (server, log):
            code, _, body = await send(server, "GET", MAPS)
            assert code == 500
            assert body == f'Internal Server Error: "{MAPS}": failed to store audit event\n'.encode()
            assert log.stages() == [("list", "RequestReceived", 0)]
            assert b"apiserver_audit_requests_rejected_total 1\n" in server.api.metrics.render()

    asyncio.run(main())

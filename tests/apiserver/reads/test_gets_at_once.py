"""Gets that wait for nothing are answered without a task: what they get is what `handle` answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bayplan.apiserver.context import Call
from bayplan.apiserver.flow_control.parameters import EXPRESS_SEATS_PER_TURN
from bayplan.apiserver.requests import Impersonation, Request, Response, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from tests.apiserver.serving import ADMIN, opened

NAMESPACE = "/api/v1/namespaces/default"
ALICE = User("alice", ("system:authenticated",))


def compared(response: Response | None) -> Response:
    assert response is not None
    return replace(response, flow=None)


async def at_once(api: ApiServer, request: Request) -> Response:
    """The response of the fast path, which is that of the slow one."""
    slow = await api.handle(replace(request))
    fast = api.handle_at_once(replace(request))
    assert compared(fast) == compared(slow)
    assert fast is not None
    assert slow.flow is fast.flow
    assert fast.flow is not None
    return fast


@pytest.mark.parametrize(
    ("path", "query", "user", "code"),
    [
        (NAMESPACE, {}, ADMIN, 200),
        ("/api/v1/namespaces/nowhere", {}, ADMIN, 404),
        (NAMESPACE, {}, ALICE, 403),
        (NAMESPACE, {"resourceVersion": "x"}, ADMIN, 500),
        (NAMESPACE, {"timeout": "x"}, ADMIN, 400),
        ("/api/v1/configmaps/no-namespace", {}, ADMIN, 404),
        ("/apis/policy/v1/podsecuritypolicies/gone", {}, ADMIN, 404),
    ],
)
def test_what_gets_are_answered(path: str, query: dict[str, str], user: User, code: int) -> None:
    async def run() -> None:
        settings = ApiServerSettings(authorization_modes=("RBAC",))
        async with opened(settings=settings) as api:
            request = Request("GET", path, query, user)
            if path.startswith("/apis/policy"):  # not for certain a get of something that is there
                assert api.handle_at_once(request) is None
                return
            assert (await at_once(api, request)).code == code

    asyncio.run(run())


@pytest.mark.parametrize(
    "accept", ["application/yaml", "application/vnd.kubernetes.protobuf", "application/json;as=Table"]
)
def test_other_forms_and_warnings(accept: str) -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings()) as api:
            request = Request("GET", NAMESPACE, {}, ADMIN, accept=accept, warning="the credentials are odd")
            response = await at_once(api, request)
            assert response.content_type.startswith(accept.partition(";")[0])
            assert list(response.warnings) == ["the credentials are odd"]

    asyncio.run(run())


def test_what_may_have_to_wait_is_left_to_the_slow_path() -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings()) as api:
            get = Request("GET", NAMESPACE, {}, ADMIN)
            assert api.handle_at_once(get) is not None
            for path in ("/api/v1/namespaces", "/healthz/ping", NAMESPACE + "/status", NAMESPACE + "/pods/p/log"):
                assert api.handle_at_once(Request("GET", path, {}, ADMIN)) is None, path
            assert api.handle_at_once(Request("DELETE", NAMESPACE, {}, ADMIN)) is None
            assert api.handle_at_once(replace(get, impersonation=Impersonation("alice"))) is None

            async def look(call: Call) -> None:
                """See every request first."""

            api.interceptor = look
            assert api.handle_at_once(get) is None

    asyncio.run(run())


def test_a_get_that_would_have_to_wait_for_a_seat_has_not_happened() -> None:
    async def run() -> None:
        async with opened(
            settings=ApiServerSettings(max_requests_inflight=60, max_mutating_requests_inflight=0)
        ) as api:
            gate = api.gate
            assert gate is not None
            get = Request("GET", NAMESPACE, {}, ALICE)
            level = gate.configuration.classify(get.info, ALICE).level
            level.queue_set.seats_per_turn = level.current
            seats = [gate.enter(get) for _ in range(level.current)]
            assert seats
            assert all(one is not None and one.is_executing for one in seats)
            at_once = [api.handle_at_once(get) is not None for _ in range(EXPRESS_SEATS_PER_TURN + 1)]
            assert at_once[-1] is False, "at most so many need no seat, of those that find an empty queue"
            for one in seats:
                assert one is not None
                gate.leave(one)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert api.handle_at_once(get) is not None
            assert gate.executing == [0, 0]
            assert level.queue_set.is_idle

    asyncio.run(run())


def test_gets_at_once_are_measured_as_others_are() -> None:
    async def run() -> None:
        async with opened(settings=ApiServerSettings()) as api:
            for _ in range(3):
                api.handle_at_once(Request("GET", NAMESPACE, {}, ADMIN))
            assert api.gate is not None
            api.gate.update_metrics()
            text = api.metrics.render().decode()
            assert (
                'apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="namespaces"'
                in text
            )
            assert (
                'apiserver_flowcontrol_work_estimated_seats_count{flow_schema="exempt",priority_level="exempt"} 3'
                in text
            )

    asyncio.run(run())


def test_gets_that_always_execute_are_measured_as_if_they_had_been_let_in() -> None:
    async def run() -> None:
        async with opened() as api:
            gate = api.gate
            assert gate is not None
            request = Request("GET", NAMESPACE, {}, ADMIN)
            flow = gate.classify(request)
            before = flow.counts.dispatched
            flow.level.queue_set.highest_demand = 0
            for _ in range(3):
                assert api.handle_at_once(replace(request)) is not None
            assert flow.counts.dispatched == before + 3
            assert flow.level.queue_set.highest_demand == flow.level.queue_set.seats + 1
            assert flow.counts.executing == flow.level.queue_set.executing == 0
            assert flow.series is not None
            assert flow.series.executed.count == before + 3
            gate.update_metrics()
            assert flow.series.seats.count == before + 3

    asyncio.run(run())


def test_health_checks_are_answered_at_once_and_by_who_may() -> None:
    async def run() -> None:
        settings = ApiServerSettings(authorization_modes=("RBAC",))
        async with opened(settings=settings) as api:
            for path in ("/livez", "/readyz", "/healthz"):
                assert (await at_once(api, Request("GET", path, {}, ADMIN))).code == 200
            nobody = User("nobody", ())
            assert (await at_once(api, Request("GET", "/livez", {}, nobody))).code == 403
            for path, method in (("/livez/ping", "GET"), ("/livez/", "GET"), ("/version", "GET"), ("/livez", "POST")):
                assert api.handle_at_once(Request(method, path, {}, ADMIN)) is None

    asyncio.run(run())

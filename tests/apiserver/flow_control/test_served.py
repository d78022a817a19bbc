"""Priority and fairness over the server's transports: headers, rejections, waiting, what is exempt, pages of the debugger, metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bayplan.api.types import core_v1
from bayplan.apiserver.context import Call
from bayplan.apiserver.flow_control.pacing import Paced
from bayplan.apiserver.flow_control.queues import FlowCounts
from bayplan.apiserver.requests import Request, Response, User
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.store.url import open_store
from bayplan.support.clock import LoopClock
from bayplan.support.randomness import SystemRandomness
from tests.apiserver.serving import ADMIN, Served, client_of, opened, served

MAPS = "/api/v1/namespaces/default/configmaps"
GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
ALICE = User("alice", ("system:authenticated",))
SMALL = ApiServerSettings(max_requests_inflight=10, max_mutating_requests_inflight=0)
SMALL_AT_ONCE = ApiServerSettings(max_requests_inflight=20, max_mutating_requests_inflight=0)
"""Enough for each level to have a seat before the first adjustment, ten seconds after the start."""
"""One seat each for catch-all and global-default."""
FEW = ApiServerSettings(max_requests_inflight=100, max_mutating_requests_inflight=0)
"""Some seats for each."""


async def send(
    server: Served, method: str, path: str, body: Any = None, user: str = "admin"
) -> tuple[int, dict[str, str], str]:
    async with server.session.request(method, server.url + path, json=body, headers=server.headers(user)) as answer:
        return answer.status, dict(answer.headers), await answer.text()


async def uid_of(server: Served, path: str) -> str:
    _, _, text = await send(server, "GET", GROUP + path)
    uid: str = json.loads(text)["metadata"]["uid"]
    return uid


def with_server(test: Callable[[Served], Awaitable[None]], settings: ApiServerSettings | None = None) -> None:
    async def run() -> None:
        async with served(settings or ApiServerSettings()) as server:
            await test(server)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something holds. Raises TimeoutError."""
    async with asyncio.timeout(30):
        for _ in iter(condition, True):
            await asyncio.sleep(0)


class SteppingClock(LoopClock):
    """Time that passes by being looked at, 20 microseconds each time: requests take as long on every machine."""

    moment = 0.0

    def monotonic(self) -> float:
        self.moment += 20e-6
        return self.moment


class Held:
    """Holds requests of one user, or all, where they are worked on."""

    def __init__(self, server: Served, user: str) -> None:
        self._user = user
        self.waiting = 0
        self.go_on = asyncio.Event()
        self.came = asyncio.Event()
        server.api.interceptor = self

    async def __call__(self, call: Call) -> None:
        if call.request.user.name == self._user:
            self.waiting += 1
            self.came.set()
            await self.go_on.wait()


@pytest.mark.parametrize(
    ("user", "path", "schema", "level"),
    [
        ("admin", MAPS, "exempt", "exempt"),
        ("admin", "/healthz", "exempt", "exempt"),
        ("carol", "/healthz", "probes", "exempt"),
        ("carol", MAPS, "global-default", "global-default"),
        ("carol", f"{MAPS}/missing", "global-default", "global-default"),
        ("carol", "/version", "global-default", "global-default"),
        ("node1", "/api/v1/nodes/gold-node-1", "system-node-high", "node-high"),
        ("node1", MAPS, "system-nodes", "system"),
    ],
)
def test_answers_say_by_uid_where_requests_belong(user: str, path: str, schema: str, level: str) -> None:
    async def run(server: Served) -> None:
        _, headers, _ = await send(server, "GET", path, user=user)
        assert headers["X-Kubernetes-Pf-Flowschema-Uid"] == await uid_of(server, f"/flowschemas/{schema}")
        found = await uid_of(server, f"/prioritylevelconfigurations/{level}")
        assert headers["X-Kubernetes-Pf-Prioritylevel-Uid"] == found
        _, again, _ = await send(server, "GET", path, user=user)  # over headers that are known
        assert again["X-Kubernetes-Pf-Flowschema-Uid"] == headers["X-Kubernetes-Pf-Flowschema-Uid"]

    with_server(run)


def test_a_rejected_request_is_told_when_to_come_back() -> None:
    async def run(server: Served) -> None:
        held = Held(server, "alice")
        await send(server, "DELETE", f"{GROUP}/flowschemas/global-default")
        gate = server.api.gate
        assert gate is not None
        found = gate.configuration.classify(Request("GET", MAPS, {}, ALICE).info, ALICE)
        assert found.level.name == "catch-all"
        first = [asyncio.create_task(send(server, "GET", MAPS, user="alice")) for _ in range(found.level.current)]
        while held.waiting < found.level.current:
            held.came.clear()
            await held.came.wait()
        status, headers, text = await send(server, "GET", MAPS, user="carol")
        assert (status, headers["Retry-After"], text) == (429, "1", "Too many requests, please try again later.\n")
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        assert headers["X-Kubernetes-Pf-Flowschema-Uid"] == await uid_of(server, "/flowschemas/catch-all")
        held.go_on.set()
        assert {status for status, _, _ in await asyncio.gather(*first)} == {200}
        assert (await send(server, "GET", MAPS, user="carol"))[0] == 200
        _, _, metrics = await send(server, "GET", "/metrics")
        labels = 'flow_schema="catch-all",priority_level="catch-all",reason="concurrency-limit"'
        counted = [one for one in metrics.splitlines() if one.startswith("apiserver_request_total") and '"429"' in one]
        assert [('resource="configmaps"' in one, one.rpartition(" ")[2]) for one in counted] == [(True, "1")]
        line = next(one for one in metrics.splitlines() if one.startswith("apiserver_flowcontrol_rejected"))
        assert all(one in line for one in labels.split(","))
        assert line.endswith(" 1")

    with_server(run, SMALL)


def test_requests_wait_for_their_turn_and_exempt_ones_do_not() -> None:
    async def run(server: Served) -> None:
        held = Held(server, "alice")
        gate = server.api.gate
        assert gate is not None
        level = gate.configuration.levels["global-default"]
        count = level.current + 3
        tasks = [asyncio.create_task(send(server, "GET", MAPS, user="alice")) for _ in range(count)]
        await until(lambda: level.queue_set.waiting == 3)
        assert held.waiting == level.current
        assert (await send(server, "GET", MAPS))[0] == 200
        assert (await send(server, "GET", "/healthz", user="carol"))[0] == 200
        for page, columns, rows in (
            ("dump_priority_levels", "PriorityLevelName, ActiveQueues, IsIdle, IsQuiescing, WaitingRequests, ", 9),
            ("dump_queues", "PriorityLevelName,", 1 + 64 * 2 + 16 + 128 * 3),
            ("dump_requests?includeRequestDetails=1", "PriorityLevelName,", 1 + count + 1),
        ):
            status, headers, text = await send(server, "GET", f"/debug/api_priority_and_fairness/{page}")
            lines = text.splitlines()
            assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
            assert (lines[0].startswith(columns), len(lines)) == (True, rows)
        assert sum(" alice, " in line for line in lines) == count
        held.go_on.set()
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}
        assert level.queue_set.is_idle
        assert gate.executing == [0, 0]

    with_server(run, SMALL_AT_ONCE)


def test_a_get_of_another_flow_needs_no_seat_that_is_occupied() -> None:
    async def run(server: Served) -> None:
        held = Held(server, "alice")
        gate = server.api.gate
        assert gate is not None
        level = gate.configuration.levels["global-default"]
        assert [(await send(server, "GET", f"{MAPS}/none", user="carol"))[0] for _ in range(2)] == [404, 404]
        tasks = [asyncio.create_task(send(server, "GET", MAPS, user="alice")) for _ in range(level.current + 3)]
        await until(lambda: (held.waiting, level.queue_set.waiting) == (level.current, 3))
        server.api.interceptor = None  # for what comes next
        assert (await send(server, "GET", f"{MAPS}/none", user="carol"))[0] == 404  # over headers that are known
        assert (level.queue_set.waiting, level.queue_set.executing) == (3, level.current)
        held.go_on.set()
        assert {status for status, _, _ in await asyncio.gather(*tasks)} == {200}

    with_server(run, FEW)


def test_what_executes_is_paced_while_requests_of_its_level_wait() -> None:
    async def answer() -> Response:
        return Response(200)

    async def run(server: Served) -> None:
        gate = server.api.gate
        assert gate is not None
        request = Request("GET", MAPS, {}, ALICE)
        level = gate.configuration.classify(request.info, ALICE).level
        first = gate.enter(request)
        assert first is not None
        unpaced = gate.paced(first, answer())
        assert not isinstance(unpaced, Paced)
        await unpaced
        others = [gate.enter(request) for _ in range(level.current)]
        assert others[-1] is not None
        assert others[-1].is_waiting
        paced = gate.paced(first, answer())
        assert isinstance(paced, Paced)
        assert (await paced).code == 200

    with_server(run, FEW)


def test_only_who_may_reads_the_pages_of_the_debugger() -> None:
    async def run(server: Served) -> None:
        path = "/debug/api_priority_and_fairness/dump_priority_levels"
        assert (await send(server, "GET", path, user="carol"))[0] == 403
        assert (await send(server, "GET", path))[0] == 200
        assert (await send(server, "GET", "/debug/api_priority_and_fairness/other"))[0] == 404

    with_server(run, ApiServerSettings(authorization_modes=("RBAC",)))


def test_a_request_that_waits_too_long_is_rejected() -> None:
    async def run(server: Served) -> None:
        held = Held(server, "alice")
        gate = server.api.gate
        assert gate is not None
        level = gate.configuration.levels["global-default"]
        first = [asyncio.create_task(send(server, "GET", MAPS, user="alice")) for _ in range(level.current)]
        while held.waiting < level.current:
            held.came.clear()
            await held.came.wait()
        status, headers, _ = await send(server, "GET", f"{MAPS}?timeout=200ms", user="alice")
        assert (status, headers["Retry-After"]) == (429, "1")
        assert level.queue_set.timed_out == 1
        held.go_on.set()
        await asyncio.gather(*first)

    with_server(run, SMALL)


def test_a_client_that_goes_away_does_not_wait_any_longer() -> None:
    async def run() -> None:
        async with opened(settings=SMALL) as api:
            gate = api.gate
            assert gate is not None
            level = gate.configuration.levels["global-default"]
            occupied = [gate.enter(Request("GET", MAPS, {}, ALICE)) for _ in range(level.current)]
            task = asyncio.create_task(api.handle(Request("GET", MAPS, {}, ALICE)))
            await until(lambda: level.queue_set.waiting == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (level.queue_set.waiting, level.queue_set.cancelled) == (0, 1)
            for one in occupied:
                assert one is not None
                gate.leave(one)
            assert level.queue_set.is_idle

    asyncio.run(run())


def test_a_connection_that_closes_gives_up_its_place() -> None:
    """Also if its headers are known, so that no parser follows it."""

    async def run(server: Served) -> None:
        await send(server, "GET", MAPS, user="alice")
        held = Held(server, "alice")
        gate = server.api.gate
        assert gate is not None
        level = gate.configuration.levels["global-default"]
        first = [asyncio.create_task(send(server, "GET", MAPS, user="alice")) for _ in range(level.current)]
        await until(lambda: held.waiting == level.current)
        waits = asyncio.create_task(send(server, "GET", MAPS, user="alice"))
        await until(lambda: level.queue_set.waiting == 1)
        waits.cancel()
        await until(lambda: level.queue_set.waiting == 0)
        assert level.queue_set.cancelled == 1
        held.go_on.set()
        await asyncio.gather(*first)
        assert level.queue_set.is_idle

    with_server(run, SMALL_AT_ONCE)


def test_a_watch_has_a_seat_only_until_it_has_begun_and_counts_for_writes() -> None:
    async def run() -> None:
        async with opened() as api:
            gate = api.gate
            assert gate is not None
            watches = [(await api.handle(Request("GET", MAPS, {"watch": "1"}, ALICE))).watcher for _ in range(25)]
            level = gate.configuration.levels["global-default"]
            assert level.queue_set.executing == 0
            write = Request("POST", MAPS, {}, ALICE, b'{"metadata":{"name":"one"}}')
            assert gate.watch_counts.interested_in(write.info) == 25
            admission = gate.enter(write)
            assert admission is not None
            assert (admission.work.initial_seats, admission.work.final_seats) == (1, 3)
            gate.leave(admission)
            for watch in watches:
                assert watch is not None
                watch.close()
            assert gate.watch_counts.interested_in(write.info) == 0

    asyncio.run(run())


def test_what_lasts_is_not_counted() -> None:
    async def run() -> None:
        async with opened() as api:
            gate = api.gate
            assert gate is not None
            for path in (
                "/api/v1/namespaces/a/pods/p/log",
                "/api/v1/namespaces/a/pods/p/exec",
                "/api/v1/nodes/n/proxy",
            ):
                assert gate.enter(Request("GET", path, {}, ALICE)) is None

    asyncio.run(run())


def test_a_changed_schema_is_followed_and_a_deleted_mandatory_one_still_works() -> None:
    async def run(server: Served) -> None:
        level = {
            "metadata": {"name": "mine"},
            "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
        }
        rule = {
            "subjects": [{"kind": "User", "user": {"name": "carol"}}],
            "resourceRules": [
                {"verbs": ["*"], "apiGroups": ["*"], "resources": ["configmaps"], "namespaces": ["default"]}
            ],
        }
        schema = {
            "metadata": {"name": "mine"},
            "spec": {"priorityLevelConfiguration": {"name": "mine"}, "matchingPrecedence": 50, "rules": [rule]},
        }
        status, _, text = await send(server, "POST", f"{GROUP}/flowschemas", schema)
        assert status == 201
        uid = json.loads(text)["metadata"]["uid"]
        _, headers, _ = await send(server, "GET", MAPS, user="carol")
        assert headers["X-Kubernetes-Pf-Flowschema-Uid"] != uid  # its level is missing
        assert (await send(server, "POST", f"{GROUP}/prioritylevelconfigurations", level))[0] == 201
        _, headers, _ = await send(server, "GET", MAPS, user="carol")
        assert headers["X-Kubernetes-Pf-Flowschema-Uid"] == uid
        assert (await send(server, "DELETE", f"{GROUP}/flowschemas/exempt"))[0] == 200
        _, headers, _ = await send(server, "GET", MAPS)
        gate = server.api.gate
        assert gate is not None
        assert gate.configuration.classify(Request("GET", MAPS, {}, ADMIN).info, ADMIN).level.is_exempt

    with_server(run)


def test_metrics_have_the_names_of_kube_apiserver() -> None:
    async def run(server: Served) -> None:
        await send(server, "GET", MAPS, user="carol")
        await send(server, "POST", MAPS, {"metadata": {"name": "one"}}, user="carol")
        _, _, text = await send(server, "GET", "/metrics")
        for line in (
            'nominal_limit_seats{priority_level="global-default"} 49',
            'lower_limit_seats{priority_level="workload-high"} 49',
            'current_executing_requests{flow_schema="exempt",priority_level="exempt"} 1',
            'current_inqueue_requests{flow_schema="global-default",priority_level="global-default"} 0',
            'dispatched_requests_total{flow_schema="global-default",priority_level="global-default"} 2',
            'request_wait_duration_seconds_count{execute="true",flow_schema="global-default",priority_level="global-default"} 2',
            'request_execution_seconds_count{flow_schema="global-default",priority_level="global-default",type="regular"} 2',
            'work_estimated_seats_bucket{flow_schema="global-default",priority_level="global-default",le="1"} 2',
            'watch_count_samples_count{flow_schema="global-default",priority_level="global-default"} 1',
        ):
            assert f"apiserver_flowcontrol_{line}\n" in text, line
        assert 'apiserver_flowcontrol_demand_seats_bucket{priority_level="system",le="0.2"}' in text
        assert 'apiserver_current_inflight_requests{request_kind="readOnly"} 1\n' in text

    with_server(run)


def test_when_it_is_off_answers_say_nothing_of_it() -> None:
    async def run(server: Served) -> None:
        _, headers, _ = await send(server, "GET", MAPS)
        assert not [name for name in headers if "Kubernetes-Pf" in name]
        assert (await send(server, "GET", "/debug/api_priority_and_fairness/dump_queues"))[0] == 404
        assert "apiserver_flowcontrol" not in (await send(server, "GET", "/metrics"))[2]
        assert server.api.gate is None

    with_server(run, ApiServerSettings(enable_priority_and_fairness=False))


def test_who_acts_as_somebody_else_is_who_they_act_as() -> None:
    async def run(server: Served) -> None:
        headers = {**server.headers(), "Impersonate-User": "carol", "Impersonate-Group": "system:authenticated"}
        async with server.session.get(server.url + MAPS, headers=headers) as answer:
            found = answer.headers["X-Kubernetes-Pf-Flowschema-Uid"]
        assert found == await uid_of(server, "/flowschemas/global-default")

    with_server(run, ApiServerSettings(authorization_modes=("AlwaysAllow",)))


def test_requests_in_this_process_pass_the_gate_too() -> None:
    async def run() -> None:
        async with opened() as api:
            gate = api.gate
            assert gate is not None
            counts: FlowCounts = gate.configuration.levels["global-default"].flow_counts("global-default")
            before = counts.dispatched
            await client_of(api, ALICE).list(core_v1.ConfigMap, "default")
            assert counts.dispatched == before + 1
            assert counts.executing == 0

    asyncio.run(run())


def test_a_table_of_schemas_is_in_the_order_in_which_they_are_tried() -> None:
    async def run(server: Served) -> None:
        headers = {**server.headers(), "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        async with server.session.get(f"{server.url}{GROUP}/flowschemas", headers=headers) as answer:
            rows = (await answer.json())["rows"]
        assert [row["cells"][0] for row in rows][:3] == ["exempt", "probes", "system-leader-election"]
        assert [row["cells"][2] for row in rows] == sorted(row["cells"][2] for row in rows)

    with_server(run)


class Tenants:
    """Two users of one server: one of them with many connections that are always busy."""

    def __init__(self, *, is_on: bool) -> None:
        """is_on: whether there is priority and fairness."""
        clock = SteppingClock(1_700_000_000.0)
        settings = ApiServerSettings(enable_priority_and_fairness=is_on)
        store = open_store("memory:", clock=clock)
        self.api = ApiServer(store, clock=clock, randomness=SystemRandomness(), settings=settings)
        self.executed = 0
        """Requests of the busy one that were answered."""

    async def keep_busy(self, index: int) -> None:
        """One connection: its next request comes when the loop has looked for input."""
        while True:
            await asyncio.sleep(0)
            response = await self.api.handle(Request("GET", f"{MAPS}/x-{index}", {}, ALICE))
            assert response.code == 404
            self.executed += 1

    async def ask(self, path: str, user: User) -> int:
        """A request of somebody else: how many of the busy one's were executed until it was answered."""
        before = self.executed
        response = await self.api.handle(Request("GET", path, {}, user))
        assert response.code in (200, 404)
        return self.executed - before


@pytest.mark.parametrize("is_on", [True, False])
def test_a_tenant_with_many_connections_does_not_hold_up_another_one(is_on: bool) -> None:
    """Without priority and fairness whoever asks next to 500 connections comes after all of them, which shows that the count means something."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"
    node = User("system:node:n", ("system:nodes", *ALICE.groups))

    async def run() -> None:
        tenants = Tenants(is_on=is_on)
        await tenants.api.open()
        tasks = [asyncio.create_task(tenants.keep_busy(index)) for index in range(500)]
        try:
            for _ in range(5):
                await asyncio.sleep(0)
            waits = []
            for _ in range(20):
                before = tenants.executed
                await tenants.ask(f"{MAPS}/other", User("bob", ALICE.groups))
                await asyncio.sleep(0)  # the answer is written
                waits.append(tenants.executed - before)
            for path, user in (("/healthz", ALICE), ("/livez", ALICE), (lease, node)):
                assert await tenants.ask(path, user) == 0
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await tenants.api.close()
        if is_on:
            assert sorted(waits)[10] <= 10
            assert max(waits) <= 60
        else:
            assert min(waits) >= 500

    asyncio.run(run())

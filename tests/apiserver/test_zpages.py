"""Pages about the server itself: `/flagz`, `/statusz`, `/debug/pprof/`, `/debug/flags/`, and the index at `/`."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging

import pytest

from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.apiserver.zpages import flagz, statusz
from bayplan.support.randomness import SeededRandomness
from tests.apiserver.serving import ADMIN, AS_RECORDED, TOKENS, new_api, opened, served

_FLAGZ = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
_STARTED = 1_700_000_000.0


async def _ask(api: ApiServer, method: str, path: str, accept: str = "", body: bytes = b"", **query: str) -> Response:
    return await api.handle(Request(method, path, query, ADMIN, body, accept=accept))


def test_flags_are_an_object_with_a_version_or_text_with_a_delimiter_that_no_program_can_rely_on() -> None:
    flags = {"v": "2", "authorization-mode": "Node,RBAC"}
    answer = flagz(_FLAGZ, flags, SeededRandomness(1))
    assert answer.content_type == "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
    tree = json.loads(answer.body)
    assert (tree["kind"], tree["apiVersion"]) == ("Flagz", "config.k8s.io/v1beta1")
    assert list(tree["flags"].items()) == [("authorization-mode", "Node,RBAC"), ("v", "2")]
    texts = {flagz("text/plain", flags, SeededRandomness(seed)).body.decode() for seed in range(30)}
    assert {text.splitlines()[-1] for text in texts} == {"v:2", "v: 2", "v=2", "v 2"}
    assert all(text.splitlines()[:2] == ["", "apiserver flagz"] for text in texts)


def test_the_older_version_of_the_object_is_served_with_a_warning() -> None:
    answer = flagz(_FLAGZ.replace("beta", "alpha").replace("json", "yaml"), {}, SeededRandomness(1))
    assert answer.warnings == ("This version of the flagz endpoint is deprecated. Please use a newer version.",)
    assert answer.body.decode().startswith("apiVersion: config.k8s.io/v1alpha1\n")
    assert flagz(_FLAGZ, {}, SeededRandomness(1)).warnings == ()


def test_the_status_says_since_when_the_server_runs_and_the_first_parts_of_its_paths() -> None:
    accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
    paths = ("/api", "/apis/apps", "/livez/ping", "/livez", "/version", "/debug/pprof")
    tree = json.loads(statusz(accept, _STARTED, _STARTED + 3661.5, paths, SeededRandomness(1)).body)
    assert (tree["startTime"], tree["uptimeSeconds"], tree["paths"]) == (
        "2023-11-14T22:13:20Z",
        3661,
        ["/livez", "/version"],
    )
    text = statusz("*/*", _STARTED, _STARTED + 3661.5, paths, SeededRandomness(1)).body.decode()
    assert "Tue Nov 14 22:13:20 UTC 2023\n" in text
    assert "1 hr 01 min 01 sec\n" in text


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("", 200),
        ("*/*", 200),
        ("text/*", 200),
        ("text/plain", 200),
        ("application/json", 406),
        ("application/*", 406),
        ("text/html", 406),
        ("application/json;v=v1;g=config.k8s.io;as=Flagz", 406),
        ("application/json;v=v1beta1;g=config.k8s.io;as=Statusz", 406),
        ("application/json, text/plain;q=0.1", 200),
    ],
)
def test_a_media_type_that_the_page_does_not_have_is_not_acceptable(accept: str, code: int) -> None:
    async def scenario() -> None:
        async with opened() as api:
            for method in ("GET", "POST", "OPTIONS"):
                answer = await _ask(api, method, "/flagz", accept)
                assert answer.code == code
            if code == 406:
                message = json.loads(answer.body)["message"]
                assert message.endswith("application/json, application/yaml, text/plain")
            assert (await _ask(api, "GET", "/flagz/", accept)).code == 404

    asyncio.run(scenario())


def test_the_index_is_sorted_and_has_each_check_and_page() -> None:
    async def scenario() -> None:
        async with opened() as api:
            answer = await _ask(api, "GET", "/")
            assert answer.body.startswith(b'{\n  "paths": [\n')
            paths = json.loads(answer.body)["paths"]
            assert paths == sorted(set(paths))
            wanted = {
                "/flagz",
                "/statusz",
                "/metrics/slis",
                "/openid/v1/jwks",
                "/livez/poststarthook/rbac/bootstrap-roles",
                "/apis/apps/v1",
            }
            assert wanted <= set(paths)
            for path in paths:
                accept = "" if path != "/apis/" else "application/json"
                code = 404 if path == "/openapi/v3/" else 200  # what begins with it is there
                assert (await _ask(api, "GET", path, accept)).code == code, path

    asyncio.run(scenario())


def test_counters_begin_anew_when_metrics_are_deleted_and_gauges_go_on() -> None:
    async def scenario() -> None:
        async with opened() as api:
            counter = api.metrics.counter("test_total", "A test.").labels()
            histogram = api.metrics.histogram("test_seconds", "A test.").labels()
            gauge = api.metrics.gauge("test_now", "A test.").labels()
            counter.inc()
            histogram.observe(1.0)
            gauge.set(3.0)
            for path in ("/metrics", "/metrics/slis"):
                answer = await _ask(api, "DELETE", path)
                assert (answer.code, answer.body) == (200, b"metrics reset\n")
            assert (counter.value, histogram.count, histogram.sum, gauge.value) == (0.0, 0, 0.0, 3.0)
            counter.inc()
            page = await _ask(api, "GET", "/metrics")
            assert b"test_total 1\n" in page.body
            assert float(page.headers["Process-Start-Time-Unix"]) > _STARTED
            assert (await _ask(api, "GET", "/metrics/")).code == 404

    asyncio.run(scenario())


def test_profiles_show_tasks_objects_and_threads_and_others_are_unknown() -> None:
    async def scenario() -> None:
        async with opened() as api:
            moved = await _ask(api, "GET", "/debug/pprof")
            assert (moved.code, moved.headers["Location"]) == (302, "/debug/pprof/")
            index = (await _ask(api, "GET", "/debug/pprof/")).body.decode()
            for name in ("goroutine", "heap", "profile", "threadcreate"):
                assert f"href='{name}?debug=1'" in index
            waiting = asyncio.create_task(asyncio.Event().wait(), name="the one that waits")
            await asyncio.sleep(0)
            assert "the one that waits" in (await _ask(api, "GET", "/debug/pprof/goroutine", debug="2")).body.decode()
            waiting.cancel()
            assert b"builtins.dict\n" in (await _ask(api, "GET", "/debug/pprof/heap")).body
            assert b"test_zpages" in (await _ask(api, "GET", "/debug/pprof/threadcreate")).body
            unknown = await _ask(api, "GET", "/debug/pprof/nosuch")
            assert (unknown.code, unknown.body) == (404, b"Unknown profile\n")

    asyncio.run(scenario())


def test_a_cpu_profile_names_the_functions_that_ran_and_only_one_is_taken_at_once() -> None:
    def busy_work() -> int:
        return sum(number * number for number in range(20_000))

    async def work(until: asyncio.Task[Response]) -> None:
        while not until.done():
            busy_work()
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with opened() as api:
            first = asyncio.create_task(_ask(api, "GET", "/debug/pprof/profile", seconds="0.3"))
            await asyncio.sleep(0)
            second = await _ask(api, "GET", "/debug/pprof/profile", seconds="0.1")
            assert (second.code, second.body) == (
                500,
                b"Could not enable CPU profiling: cpu profiling already in use\n",
            )
            await work(first)
            data = gzip.decompress((await first).body)
            assert b"busy_work" in data
            assert b"nanoseconds" in data
            again = await _ask(api, "GET", "/debug/pprof/profile", seconds="0.01")
            assert again.code == 200

    asyncio.run(scenario())


def test_the_verbosity_of_the_log_is_changed_while_the_server_runs() -> None:
    async def scenario() -> None:
        async with opened() as api:
            root = logging.getLogger()
            before = root.level
            try:
                answer = await _ask(api, "PUT", "/debug/flags/v", body=b"4")
                assert answer.body == b"successfully set klog.logging.verbosity to 4\n"
                assert root.level == logging.DEBUG
                bad = await _ask(api, "PUT", "/debug/flags/v", body=b"x")
                assert (bad.code, bad.body) == (400, b'strconv.ParseUint: parsing "x": invalid syntax\n')
                assert (await _ask(api, "GET", "/debug/flags/v")).code == 406
                assert b"<tr>v<br>" in (await _ask(api, "GET", "/debug/flags")).body
            finally:
                root.setLevel(before)

    asyncio.run(scenario())


def test_without_profiling_there_are_no_profiles() -> None:
    async def scenario() -> None:
        api = new_api(settings=ApiServerSettings(profiling=False))
        await api.open()
        for path in ("/debug/pprof/", "/debug/pprof/heap", "/debug/flags/v"):
            assert (await _ask(api, "GET", path)).code == 404
        await api.close()

    asyncio.run(scenario())


def test_only_those_who_may_see_a_page_see_it() -> None:
    async def scenario() -> None:
        async with served(AS_RECORDED) as server:
            for path in ("/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v", "/metrics", "/"):
                for user, code in (("alice", 403), ("admin", 406 if path == "/debug/flags/v" else 200)):
                    async with server.session.get(server.url + path, headers=server.headers(user)) as answer:
                        assert answer.status == code, path
            name = TOKENS["alice"][1]
            async with server.session.get(server.url + "/flagz", headers=server.headers("alice")) as answer:
                assert (await answer.json())["message"] == f'forbidden: User "{name}" cannot get path "/flagz"'

    asyncio.run(scenario())


def test_each_answer_names_its_request_by_what_the_client_calls_it_or_by_a_name_of_its_own() -> None:
    async def scenario() -> None:
        async with served(AS_RECORDED) as server:
            found = []
            for path in ("/api/v1/namespaces/default", "/api/v1/namespaces/default", "/version", "/nosuch"):
                async with server.session.get(server.url + path, headers=server.headers()) as answer:
                    found.append(answer.headers["Audit-Id"])
            assert len(set(found)) == 4
            assert all(len(one) == 36 for one in found)
            own = {**server.headers(), "Audit-Id": "mine"}
            async with server.session.get(server.url + "/version", headers=own) as answer:
                assert answer.headers["Audit-Id"] == "mine"
            async with server.session.get(
                server.url + "/version", headers={"Authorization": "Bearer nosuch"}
            ) as answer:
                assert (answer.status, len(answer.headers["Audit-Id"])) == (401, 36)

    asyncio.run(scenario())

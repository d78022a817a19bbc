"""The page's server over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp
import msgspec
import pytest

from bayplan.api.types import core_v1, meta_v1, rbac_v1
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.cluster import eventually
from bayplan.ui.access import HEADERS
from bayplan.ui.errors import UiError
from tests.ui.page import Page, page_of, small_copy


def with_copy(story: Callable[[Page], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def whole() -> None:
        async with page_of(small_copy(), **settings) as page:
            await story(page)

    asyncio.run(whole())


def with_cluster(story: Callable[[Page, Cluster], Coroutine[Any, Any, None]], user: str = "") -> None:
    async def whole() -> None:
        cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=2, start_seconds=0.02)))
        await cluster.start()
        try:
            client = cluster.client(user, ()) if user else cluster.client()
            async with page_of(client) as page:
                await story(page, cluster)
        finally:
            await cluster.stop()

    asyncio.run(whole())


def test_every_answer_has_the_headers_and_none_of_cors() -> None:
    async def story(page: Page) -> None:
        for path in ("/", "/static/app.js", "/static/nothing.js", "/api/snapshot", "/api/object", "/nowhere"):
            async with page.session.get(path) as response:
                for name, value in HEADERS.items():
                    if name != "Cache-Control":
                        assert response.headers[name] == value, path
                assert not [name for name in response.headers if name.startswith("Access-Control-")]

    with_copy(story)


def test_without_cookie_there_is_a_locked_page_and_nothing_else() -> None:
    async def story(page: Page) -> None:
        base = page.url.partition("/?")[0]
        async with aiohttp.ClientSession(base) as stranger:
            async with stranger.get("/") as response:
                assert response.status == 401
                assert "locked" in await response.text()
            async with stranger.get("/?token=wrong", allow_redirects=False) as response:
                assert response.status == 401
                assert "Set-Cookie" not in response.headers
            for path in ("/api/snapshot", "/api/changes?after=0", "/static/app.js", "/api/object?kind=Pod&name=web"):
                async with stranger.get(path) as response:
                    assert response.status == 401, path

    with_copy(story)


def test_other_hosts_and_sites_are_refused_even_with_the_cookie() -> None:
    async def story(page: Page) -> None:
        for headers, status in (
            ({"Host": "evil.example"}, 421),
            ({"Origin": "http://evil.example"}, 403),
        ):
            async with page.session.get("/api/snapshot", headers=headers) as response:
                assert response.status == status

    with_copy(story)


def test_a_failure_of_the_server_itself_says_nothing_of_its_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("an inner secret")

    monkeypatch.setattr("bayplan.ui.objects.selected", broken)

    async def story(page: Page) -> None:
        async with page.session.get("/api/select?table=pods") as response:
            assert response.status == 500
            assert response.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
            assert "secret" not in await response.text()

    with_copy(story)


def test_the_page_is_not_served_on_other_addresses() -> None:
    async def story(page: Page) -> None:
        runner = page.server._runner
        assert runner is not None
        assert {address[0] for address in runner.addresses} == {"127.0.0.1"}

    with_copy(story)


def test_a_port_in_use_is_an_error_that_says_what_to_do() -> None:
    async def story(page: Page) -> None:
        assert page.server.access is not None
        with pytest.raises(UiError, match="--ui-port"):
            async with page_of(small_copy(), port=page.server.access.port):
                pass

    with_copy(story)


def test_static_files_are_compressed_and_kept_by_browsers() -> None:
    async def story(page: Page) -> None:
        async with page.session.get("/static/vendor/preact.js") as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert response.headers["Content-Type"].startswith("text/javascript")
            tag = response.headers["ETag"]
        async with page.session.get("/static/vendor/preact.js", headers={"If-None-Match": tag}) as response:
            assert response.status == 304
        await page.text("/static/../settings.py", 404)
        await page.text("/static/%2e%2e/settings.py", 404)

    with_copy(story)


def test_a_copy_is_shown_whole() -> None:
    async def story(page: Page) -> None:
        snapshot = await page.json("/api/snapshot")
        assert snapshot["tables"]["pods"]["keys"] == ["shop/web", "shop/db", "shop/odd"]
        assert snapshot["tables"]["nodes"]["columns"]["zone"] == ["one", "two"]
        assert snapshot["status"]["changes"] is False
        text = await page.text("/api/object?kind=pod&namespace=shop&name=web")
        assert "nodeName: a" in text
        assert "there is no kind nonsense" in await page.text("/api/object?kind=nonsense&name=x", 404)
        await page.text("/api/object?kind=Pod&namespace=shop&name=nobody", 404)
        await page.text("/api/logs?namespace=shop&name=web", 404)

    with_copy(story)


def test_objects_are_sent_as_text_whatever_they_say() -> None:
    async def story(page: Page) -> None:
        async with page.session.get("/api/object?kind=Pod&namespace=shop&name=web") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert "<script>" in await response.text()

    with_copy(story)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("table=pods&labelSelector=app=web", ["shop/web"]),
        ("table=pods&labelSelector=app!=web", ["shop/db", "shop/odd"]),
        ("table=pods&labelSelector=app+in+(web,db)", ["shop/web", "shop/db"]),
        ("table=pods&fieldSelector=status.phase=Pending", ["shop/db"]),
        ("table=pods&fieldSelector=spec.nodeName=b,metadata.namespace=shop", ["shop/odd"]),
        ("table=nodes&labelSelector=topology.kubernetes.io/zone=two", ["b"]),
        ("table=workloads", []),
    ],
)
def test_selectors_choose_as_those_of_the_api(query: str, keys: list[str]) -> None:
    async def story(page: Page) -> None:
        assert (await page.json(f"/api/select?{query}"))["keys"] == keys

    with_copy(story)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("table=pods&labelSelector=a===b", 400, "found '='"),
        ("table=pods&fieldSelector=spec.nonsense=1", 400, "field label not supported: spec.nonsense"),
        ("table=secrets", 404, "there is no table"),
    ],
)
def test_selectors_that_make_no_sense_are_named(query: str, status: int, words: str) -> None:
    async def story(page: Page) -> None:
        assert words in (await page.json(f"/api/select?{query}", status))["error"]

    with_copy(story)


async def next_frame(response: aiohttp.ClientResponse) -> tuple[str, Any]:
    """The next event of a stream: its name and content."""
    name = ""
    async for line in response.content:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            return name, msgspec.json.decode(line[6:])
    raise AssertionError("the stream has ended")


def test_changes_of_a_live_cluster_come_as_frames() -> None:
    async def story(page: Page, cluster: Cluster) -> None:
        async def both_nodes() -> bool:
            return len((await page.json("/api/snapshot"))["tables"]["nodes"]["keys"]) == 2

        await eventually(both_nodes)
        number = (await page.json("/api/snapshot"))["frame"]
        async with page.session.get(f"/api/changes?after={number}") as response:
            container = core_v1.Container(name="main", image="web")
            pod = core_v1.Pod(
                metadata=meta_v1.ObjectMeta(name="web", namespace="default"),
                spec=core_v1.PodSpec(containers=(container,), termination_grace_period_seconds=0),
            )
            await cluster.client().create(pod)
            states: list[str] = []
            while "Running" not in states:
                name, frame = await next_frame(response)
                assert name == "frame"
                pods = frame["tables"].get("pods", {"columns": {}})
                states += pods["columns"].get("status", [])
            await cluster.client().delete(core_v1.Pod, "web", "default")
            gone: list[str] = []
            while "default/web" not in gone:
                _, frame = await next_frame(response)
                gone += frame["tables"].get("pods", {}).get("gone", [])

    with_cluster(story)


def test_a_page_with_the_number_of_another_server_is_told_to_begin_again() -> None:
    async def story(page: Page) -> None:
        async with page.session.get("/api/changes?after=999") as response:
            assert (await next_frame(response))[0] == "resync"
        await page.text("/api/changes?after=x", 400)
        await page.text("/api/changes", 400)

    with_copy(story)


def test_more_streams_than_allowed_are_refused_and_free_places_taken_again() -> None:
    async def story(page: Page) -> None:
        number = (await page.json("/api/snapshot"))["frame"]
        path = f"/api/changes?after={number}"
        async with page.session.get(path), page.session.get(path):
            assert "close some" in await page.text(path, 503)
        page.server.feed.set_status(something="new")  # what is written shows that the pages are gone

        async def let_in() -> bool:
            page.server.feed.set_status(turn=page.server.feed.number)
            return page.server.feed.followers < 2

        await eventually(let_in)

    with_copy(story, most_streams=2)


def test_without_rights_the_page_says_what_it_cannot_show() -> None:
    async def story(page: Page, cluster: Cluster) -> None:
        status = (await page.json("/api/snapshot"))["status"]
        assert "cannot list resource" in status["refused"]["Pod"]
        assert "cannot list resource" in status["refused"]["Node"]
        assert (await page.json("/api/object?kind=Node&name=node-1", 403))["error"]
        admin = cluster.client()
        rules = (rbac_v1.PolicyRule(api_groups=("",), resources=("nodes",), verbs=("list", "watch")),)
        await admin.create(rbac_v1.ClusterRole(metadata=meta_v1.ObjectMeta(name="sees-nodes"), rules=rules))
        await admin.create(
            rbac_v1.ClusterRoleBinding(
                metadata=meta_v1.ObjectMeta(name="sees-nodes"),
                role_ref=rbac_v1.RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="sees-nodes"),
                subjects=(rbac_v1.Subject(kind="User", api_group="rbac.authorization.k8s.io", name="guest"),),
            )
        )

        async def nodes_are_shown() -> bool:
            snapshot = await page.json("/api/snapshot")
            assert "Node" not in snapshot["status"]["refused"]
            assert "Pod" in snapshot["status"]["refused"]
            return len(snapshot["tables"]["nodes"]["keys"]) == 2

        await eventually(nodes_are_shown, within=20)

    with_cluster(story, "guest")


def test_values_of_secrets_are_not_sent() -> None:
    async def story(page: Page, cluster: Cluster) -> None:
        secret = core_v1.Secret(
            metadata=meta_v1.ObjectMeta(name="key", namespace="default"), data={"password": "aHVzaA=="}
        )
        await cluster.client().create(secret)
        text = await page.text("/api/object?kind=Secret&namespace=default&name=key")
        assert "aHVzaA" not in text
        assert "password: (8 characters)" in text

    with_cluster(story)

"""The client does the same over HTTPS, in-process and through a pipe."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

import pytest

from bayplan.api.errors import ApiError
from bayplan.api.types import core_v1, meta_v1, policy_v1
from bayplan.client import Client
from bayplan.client.client import JSON_PATCH, STRATEGIC_PATCH, WatchStream
from bayplan.client.errors import TransportError
from bayplan.client.transport import SentRequest
from tests.client.doors import HTTP, PIPED, TRANSPORTS, Door, door

Case = Callable[[Door], Awaitable[None]]


@pytest.fixture(params=TRANSPORTS)
def over(request: pytest.FixtureRequest) -> Callable[[Case], None]:
    """Runs a case over one transport."""

    def run(case: Case) -> None:
        async def inner() -> None:
            async with door(request.param) as opened:
                await case(opened)

        asyncio.run(inner())

    return run


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=meta_v1.ObjectMeta(name=name, namespace="default"), data=data)


async def pod(client: Client, name: str, *, node_name: str = "") -> core_v1.Pod:
    """A pod that runs as the default service account."""
    account = core_v1.ServiceAccount(metadata=meta_v1.ObjectMeta(name="default", namespace="default"))
    try:
        await client.create(account)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    spec = core_v1.PodSpec(node_name=node_name, containers=(core_v1.Container(name="c", image="x"),))
    labels = {"app": name}
    return await client.create(
        core_v1.Pod(metadata=meta_v1.ObjectMeta(name=name, namespace="default", labels=labels), spec=spec)
    )


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def labelling(name: str, value: str) -> SentRequest:
    patch = b'{"metadata":{"labels":{"l":"%b"}}}' % value.encode()
    return SentRequest("PATCH", f"{CONFIG_MAPS}/{name}", patch, "application/merge-patch+json")


def test_an_error_goes_with_its_last_user(over: Callable[[Case], None]) -> None:
    """Without a collection of garbage: processes seldom look for it, and an error refers to all that was at hand where it was raised."""

    async def attempt(client: Client) -> weakref.ref[ApiError]:
        try:
            await client.delete(core_v1.ConfigMap, "none", "default")
        except ApiError as error:
            return weakref.ref(error)
        raise AssertionError("it was deleted")

    async def case(door: Door) -> None:
        gc.collect()
        gc.disable()
        try:
            error = await attempt(door.client)
            assert error() is None
        finally:
            gc.enable()

    over(case)


def test_requests_are_made_in_turn_until_one_fails(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        for name in ("a", "b", "c"):
            await client.create(config_map(name))
        await client.transport.send((labelling("a", "1"), labelling("a", "2")))
        with pytest.raises(ApiError) as caught:
            await client.transport.send((labelling("b", "1"), labelling("none", "2"), labelling("b", "3")))
        assert caught.value.code == 404
        problems = await client.transport.send_all(
            [
                (labelling("a", "3"), client.deletion(core_v1.ConfigMap, "a", "default")),
                (labelling("b", "-"), labelling("c", "4")),
                (client.deletion(core_v1.ConfigMap, "none", "default"), labelling("c", "5")),
                (labelling("c", "6"),),
            ]
        )
        codes = [problem.code if isinstance(problem, ApiError) else problem for problem in problems]
        assert codes == [None, 422, 404, None]
        left = [
            (one.metadata.name, one.metadata.labels) for one in (await client.list(core_v1.ConfigMap, "default")).items
        ]
        assert left == [("b", {"l": "1"}), ("c", {"l": "6"})]

    over(case)


def test_what_a_pod_is_only_until_the_next_event_may_be_left_out(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        target = b'{"status":{"conditions":[{"type":"DisruptionTarget","status":"True"}]}}'
        made = [await pod(client, f"p{index}") for index in range(8)]
        stream = await client.watch(core_v1.Pod)
        for one in made:
            path = f"/api/v1/namespaces/default/pods/{one.metadata.name}"
            why = SentRequest("PATCH", f"{path}/status", target, "application/strategic-merge-patch+json")
            await client.transport.send((why, client.deletion(core_v1.Pod, one.metadata.name, "default")))
        seen: dict[str, list[str]] = {}
        while sum(types.count("DELETED") for types in seen.values()) < len(made):
            for event_type, one in await stream.next_batch():
                seen.setdefault(one.metadata.name, []).append(event_type)
                if event_type == "DELETED":
                    assert one.metadata.deletion_timestamp
                    assert [each.type for each in one.status.conditions] == ["DisruptionTarget"]
        stream.close()
        whole = ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        if door.transport == PIPED:
            assert seen["p7"] == ["ADDED", "DELETED"]
        else:
            assert list(seen.values()) == [whole] * len(made)

    over(case)


def test_an_object_is_created_read_changed_and_deleted(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        made = await client.create(config_map("a", x="1"))
        assert made.metadata.uid
        assert made.metadata.resource_version
        made.data = {"x": "2"}
        changed = await client.update(made)
        assert (await client.get(core_v1.ConfigMap, "a", "default")).data == {"x": "2"}
        assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
        patched = await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"y": "3"}})
        assert patched.data == {"x": "2", "y": "3"}
        patched = await client.patch(
            core_v1.ConfigMap, "a", "default", [{"op": "remove", "path": "/data/x"}], patch_type=JSON_PATCH
        )
        assert patched.data == {"y": "3"}
        await client.delete(core_v1.ConfigMap, "a", "default")
        with pytest.raises(ApiError) as caught:
            await client.get(core_v1.ConfigMap, "a", "default")
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")

    over(case)


def test_a_stale_update_is_a_conflict_and_a_wrong_uid_protects_from_deletion(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        made = await client.create(config_map("a"))
        await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"y": "3"}})
        with pytest.raises(ApiError) as caught:
            await client.update(made)
        assert caught.value.reason == "Conflict"
        with pytest.raises(ApiError) as caught:
            await client.delete(core_v1.ConfigMap, "a", "default", uid="00000000-0000-0000-0000-000000000000")
        assert caught.value.reason == "Conflict"
        await client.delete(core_v1.ConfigMap, "a", "default", uid=made.metadata.uid)

    over(case)


def test_a_dry_run_changes_nothing(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        shown = await door.client.create(config_map("a"), dry_run=True)
        assert shown.metadata.uid
        assert not (await door.client.list(core_v1.ConfigMap, "default")).items

    over(case)


def test_pages_make_up_the_whole_list(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        for index in range(25):
            await door.client.create(config_map(f"c{index:02}"))
        found = await door.client.list(core_v1.ConfigMap, "default", page_size=4)
        assert [item.metadata.name for item in found.items] == [f"c{index:02}" for index in range(25)]
        chosen = await door.client.list(core_v1.ConfigMap, "default", field_selector="metadata.name=c03")
        assert [item.metadata.name for item in chosen.items] == ["c03"]

    over(case)


def test_a_watch_tells_what_happens_after_a_revision(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        await client.create(config_map("before"))
        listed = await client.list(core_v1.ConfigMap, "default")
        stream = await client.watch(core_v1.ConfigMap, "default", resource_version=listed.resource_version)
        await client.create(config_map("a"))
        await client.patch(core_v1.ConfigMap, "a", "default", {"data": {"y": "3"}})
        await client.delete(core_v1.ConfigMap, "a", "default")
        seen: list[tuple[str, str]] = []
        while len(seen) < 3:
            seen += [(event, obj.metadata.name) for event, obj in await stream.next_batch()]
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
        stream.close()

    over(case)


def test_a_watch_can_begin_with_what_is_there(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        await door.client.create(config_map("a"))
        stream = await door.client.watch(core_v1.ConfigMap, "default", send_initial_events=True, bookmarks=True)
        seen: list[str] = []
        while "BOOKMARK" not in seen:
            seen += [event for event, _ in await stream.next_batch()]
        assert seen == ["ADDED", "BOOKMARK"]
        stream.close()

    over(case)


def test_a_watch_that_is_given_up_before_it_is_open_leaves_nothing_behind() -> None:
    async def run() -> None:
        async with asyncio.timeout(10), door(PIPED) as opened:
            client = opened.client
            cache = opened.api.context.objects.cache(client.kinds.of_type(core_v1.ConfigMap))
            opening = asyncio.create_task(client.watch(core_v1.ConfigMap, "default"))
            await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await client.create(config_map("a"))  # by now the server has seen the watch
            while cache.watchers:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_watch_that_cannot_be_told_of_ends_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with asyncio.timeout(10), door(PIPED) as opened:
            client = opened.client
            broken, sound = [await client.watch(core_v1.ConfigMap, "default") for _ in range(2)]
            cache = opened.api.context.objects.cache(client.kinds.of_type(core_v1.ConfigMap))
            while not all(one.is_idle for one in cache.watchers) or len(cache.watchers) < 2:  # noqa: ASYNC110  (nothing tells)
                await asyncio.sleep(0.01)

            def fail(*_: object) -> bytes:
                raise ValueError("no line")

            next(iter(cache.watchers)).render = fail
            for number in range(120):
                await client.create(config_map(f"c-{number}"))
            seen: list[str] = []
            while len(seen) < 120:
                seen += [one.metadata.name for _, one in await sound.next_batch()]
            assert seen == [f"c-{number}" for number in range(120)]
            assert await broken.next_batch() == ()

    with caplog.at_level("CRITICAL"):
        asyncio.run(run())


def test_watches_of_the_same_get_the_same_objects_in_order() -> None:
    async def run() -> None:
        async with asyncio.timeout(20), door(PIPED) as opened:
            client = opened.client
            first = await client.watch(core_v1.ConfigMap, "default")
            second = await client.watch(core_v1.ConfigMap, "default", label_selector="half=yes")
            every = await client.watch(core_v1.ConfigMap, "default")
            made = []
            for number in range(130):
                one = config_map(f"c-{number}")
                one.metadata.labels = {"half": "yes" if number % 2 else "no"}
                made.append(client.create(one))
            await asyncio.gather(*made)

            async def taken(stream: WatchStream[core_v1.ConfigMap], count: int) -> list[core_v1.ConfigMap]:
                found: list[core_v1.ConfigMap] = []
                while len(found) < count:
                    found += [one for _, one in await stream.next_batch()]
                return found

            all_of_them, half, again = await taken(first, 130), await taken(second, 65), await taken(every, 130)
            revisions = [int(one.metadata.resource_version) for one in all_of_them]
            assert revisions == sorted(revisions)
            assert [one.metadata.name for one in half] == [
                one.metadata.name for one in all_of_them if one.metadata.labels["half"] == "yes"
            ]
            assert [one.metadata.resource_version for one in again] == [str(one) for one in revisions]
            assert all(one is other for one, other in zip(all_of_them, again, strict=True))

    asyncio.run(run())


def test_a_watch_ends_when_its_time_is_over(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        stream = await door.client.watch(core_v1.ConfigMap, "default", timeout_seconds=1)
        async with asyncio.timeout(10):
            assert [event async for event in stream] == []

    over(case)


def test_a_pod_is_bound_once(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        made = await pod(door.client, "p")
        await door.client.bind("default", "p", made.metadata.uid, "n1")
        assert (await door.client.get(core_v1.Pod, "p", "default")).spec.node_name == "n1"
        with pytest.raises(ApiError) as caught:
            await door.client.bind("default", "p", made.metadata.uid, "n2")
        assert caught.value.code == 409

    over(case)


def test_status_is_written_apart_from_the_rest(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        made = await pod(door.client, "p", node_name="n1")
        made.status.phase = "Running"
        made.metadata.labels = {"app": "p", "new": "label"}
        assert made.metadata.managed_fields
        written = await door.client.update_status(made)
        assert written.status.phase == "Running"
        assert made.metadata.managed_fields, "what a caller has is not changed"
        managers = [{each.manager for each in one.metadata.managed_fields} for one in (made, written)]
        assert managers[0] <= managers[1], "who wrote the rest is still known"
        assert any(each.subresource == "status" for each in written.metadata.managed_fields)
        patch = {"status": {"message": "m"}}
        patched = await door.client.patch(
            core_v1.Pod, "p", "default", patch, patch_type=STRATEGIC_PATCH, subresource="status"
        )
        assert (patched.status.phase, patched.status.message) == ("Running", "m")

    over(case)


def test_an_eviction_respects_the_budget(over: Callable[[Case], None]) -> None:
    async def case(door: Door) -> None:
        client = door.client
        made = await pod(client, "p", node_name="n1")
        made.status.phase = "Running"
        made.status.conditions = (core_v1.PodCondition(type="Ready", status="True"),)
        await client.update_status(made)
        spec = policy_v1.PodDisruptionBudgetSpec(
            min_available=1, selector=meta_v1.LabelSelector(match_labels={"app": "p"})
        )
        metadata = meta_v1.ObjectMeta(name="b", namespace="default")
        budget = await client.create(policy_v1.PodDisruptionBudget(metadata=metadata, spec=spec))
        budget.status.observed_generation = budget.metadata.generation
        budget = await client.update_status(budget)
        with pytest.raises(ApiError) as caught:
            await client.evict("default", "p")
        assert (caught.value.code, caught.value.reason) == (429, "TooManyRequests")
        budget.status.disruptions_allowed = 1
        await client.update_status(budget)
        await client.evict("default", "p", grace_period_seconds=0)
        with pytest.raises(ApiError):
            await client.get(core_v1.Pod, "p", "default")

    over(case)


def test_a_server_that_is_away_is_no_answer_and_the_client_works_again_when_it_is_back() -> None:
    async def run() -> None:
        async with door(HTTP) as opened:
            client = opened.client
            await client.create(config_map("a"))
            stream = await client.watch(core_v1.ConfigMap, "default")
            assert [event for event, _ in await stream.next_batch()] == ["ADDED"]
            await opened.shut()
            assert not await stream.next_batch()
            with pytest.raises(TransportError):
                await client.get(core_v1.ConfigMap, "a", "default")
            problems = await client.transport.send_all([(labelling("a", "1"),), (labelling("a", "2"),)])
            assert [type(problem) for problem in problems] == [TransportError] * 2
            await opened.serve()
            assert (await client.get(core_v1.ConfigMap, "a", "default")).metadata.name == "a"

    asyncio.run(run())

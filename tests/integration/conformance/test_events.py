"""Events of both groups. Conformance: Events, Events API."""

from __future__ import annotations

import pytest

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object, Requests, conformance

NEW = "/apis/events.k8s.io/v1/namespaces/conformance/events"
CORE = "/api/v1/namespaces/conformance/events"


def _core_event(name: str, label: str) -> Object:
    return {
        "metadata": {"name": name, "labels": {label: "true"}},
        "message": "This is a test event",
        "reason": "Test",
        "type": "Normal",
        "count": 1,
        "involvedObject": {"namespace": "conformance"},
    }


def _new_event(name: str, label: str) -> Object:
    regarding = {"namespace": "conformance", "kind": "Pod", "name": "a", "apiVersion": "v1"}
    return {
        "metadata": {"name": name, "labels": {label: "true"}},
        "regarding": regarding,
        "eventTime": "2017-09-19T13:49:16.000000Z",
        "note": f"This is {name}",
        "action": "Do",
        "reason": "Test",
        "type": "Normal",
        "reportingController": "test-controller",
        "reportingInstance": "test-node",
    }


def test_an_event_is_found_everywhere_patched_updated_and_deleted() -> None:
    """Events should manage the lifecycle of an event."""

    async def scenario(api: Requests) -> None:
        await api.namespace()
        await api.create(CORE, _core_event("event-test", "constant"))
        assert await api.names("/api/v1/events", labelSelector="constant=true") == ["event-test"]
        await api.patch(f"{CORE}/event-test", {"message": "patched"}, STRATEGIC_PATCH)
        event = await api.get(f"{CORE}/event-test")
        assert event["message"] == "patched"
        event["series"] = {"count": 100, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}
        event["action"], event["reportingComponent"], event["reportingInstance"] = "Do", "c", "i"
        updated = await api.update(f"{CORE}/event-test", event)
        assert updated["series"]["count"] == 100
        await api.delete(f"{CORE}/event-test")
        assert await api.names("/api/v1/events", labelSelector="constant=true") == []

    conformance(scenario)


def test_an_event_of_the_new_group_is_fetched_patched_deleted_and_listed() -> None:
    """Events API should ensure that an event can be fetched, patched, deleted, and listed."""

    async def scenario(api: Requests) -> None:
        await api.namespace()
        await api.create(NEW, _new_event("event-test", "constant"))
        for selector in ({}, {"fieldSelector": "reportingController=test-controller"}):
            for collection in (NEW, "/apis/events.k8s.io/v1/events"):
                assert "event-test" in await api.names(collection, **selector)
        event = await api.get(f"{NEW}/event-test")
        series = {"series": {"count": 2, "lastObservedTime": "2014-09-19T13:49:16.000000Z"}}
        patched = await api.patch(f"{NEW}/event-test", series, STRATEGIC_PATCH)
        assert patched["series"]["count"] == 2
        patched["series"] = {"count": 100, "lastObservedTime": "2014-09-19T13:49:16.000000Z"}
        updated = await api.update(f"{NEW}/event-test", patched)
        assert updated["series"]["count"] == 100
        assert updated["eventTime"] == event["eventTime"]
        assert (await api.get(f"{CORE}/event-test"))["message"] == event["note"]
        await api.delete(f"{NEW}/event-test")
        assert "event-test" not in await api.names(NEW)

    conformance(scenario)


@pytest.mark.parametrize(
    ("collection", "make"), [(CORE, _core_event), (NEW, _new_event)], ids=["core", "events.k8s.io"]
)
def test_a_collection_of_events_is_deleted_by_label(collection: str, make: object) -> None:
    """Events should delete a collection of events; Events API should delete a collection of events."""

    async def scenario(api: Requests) -> None:
        await api.namespace()
        assert callable(make)
        names = [f"test-event-{index}" for index in range(1, 4)]
        for name in names:
            await api.create(collection, make(name, "testevent-set"))
        await api.create(collection, make("other", "other"))
        assert await api.names(collection, labelSelector="testevent-set=true") == names
        await api.delete(collection, labelSelector="testevent-set=true")
        assert await api.names(collection) == ["other"]

    conformance(scenario)

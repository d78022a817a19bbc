"""Events of both groups, as typed clients write and compare them. Conformance: Events, Events API."""

from __future__ import annotations

import pytest

from tests.integration.conformance.requests import STRATEGIC_PATCH, Object
from tests.integration.conformance.workloads import Space, Workloads

FIRST, LATER = "2017-09-19T13:49:11.000000Z", "2017-09-19T13:49:16.000000Z"


def plain(event: Object) -> Object:
    """An event without what the server alone writes."""
    metadata = {
        key: event["metadata"][key] for key in event["metadata"] if key not in ("resourceVersion", "managedFields")
    }
    return {**event, "metadata": metadata}


def core_event(space: Space, name: str) -> Object:
    """An event of the core group, about nothing but its namespace."""
    return {
        "metadata": {"name": name, "labels": {"trial": space.name}},
        "message": f"The bell of {name}",
        "reason": "Rung",
        "type": "Normal",
        "count": 1,
        "involvedObject": {"namespace": space.name},
    }


def new_event(space: Space, name: str) -> Object:
    """An event of the group for events, about nothing but its namespace."""
    return {
        "metadata": {"name": name, "labels": {"trial": space.name}},
        "regarding": {"namespace": space.name},
        "eventTime": LATER,
        "note": f"The bell of {name}",
        "action": "Ring",
        "reason": "Rung",
        "type": "Normal",
        "reportingController": "bell-ringer",
        "reportingInstance": "ringer-1",
    }


def of_new_group(space: Space) -> str:
    """The path of the namespace's events in the group for events."""
    return f"/apis/events.k8s.io/v1/namespaces/{space.name}/events"


def test_an_event_of_the_core_group_becomes_a_series(workloads: Workloads) -> None:
    """Events should manage the lifecycle of an event."""

    async def scenario(space: Space) -> None:
        api, query = space.api, {"labelSelector": f"trial={space.name}"}
        own = space.core("events/bell")
        await api.create(space.core("events"), core_event(space, "bell"))
        assert await api.names("/api/v1/events", **query) == ["bell"]
        await api.patch(own, {"message": "rung twice"}, STRATEGIC_PATCH)
        event = await api.get(own)
        assert event["message"] == "rung twice"
        wanted = {**plain(event), "series": {"count": 100, "lastObservedTime": LATER}}
        await api.update(own, wanted)
        assert plain(await api.get(own)) == wanted
        await api.delete(own)
        assert await api.names("/api/v1/events", **query) == []

    workloads.run(scenario)


def test_an_event_is_patched_and_updated_and_nothing_else_of_it_changes(workloads: Workloads) -> None:
    """Events API should ensure that an event can be fetched, patched, deleted, and listed."""

    async def scenario(space: Space) -> None:
        api, events, query = space.api, of_new_group(space), {"labelSelector": f"trial={space.name}"}
        everywhere, own = "/apis/events.k8s.io/v1/events", f"{of_new_group(space)}/bell"
        await api.create(events, new_event(space, "bell"))
        for path in (everywhere, events):
            assert await api.names(path, **query) == ["bell"]
        assert await api.names(space.core("events"), fieldSelector="source=bell-ringer") == ["bell"]
        assert await api.names(events, fieldSelector="reportingController=bell-ringer") == ["bell"]
        event = plain(await api.get(own))
        series = {"count": 2, "lastObservedTime": FIRST}
        await api.patch(own, {"series": series}, STRATEGIC_PATCH)
        assert plain(await api.get(own)) == {**event, "series": series}
        wanted = {**event, "series": {"count": 100, "lastObservedTime": LATER}}
        await api.update(own, wanted)
        assert plain(await api.get(own)) == wanted
        await api.delete(own)
        for path in (everywhere, events):
            assert await api.names(path, **query) == []

    workloads.run(scenario)


@pytest.mark.parametrize("group", ["core", "events.k8s.io"])
def test_events_of_a_label_go_and_others_stay(workloads: Workloads, group: str) -> None:
    """Events should delete a collection of events; Events API should delete a collection of events."""

    async def scenario(space: Space) -> None:
        api, query = space.api, {"labelSelector": f"trial={space.name}"}
        path = space.core("events") if group == "core" else of_new_group(space)
        make = core_event if group == "core" else new_event
        names = [f"bell-{number}" for number in (1, 2, 3)]
        for name in names:
            await api.create(path, make(space, name))
        other = make(space, "other")
        await api.create(path, {**other, "metadata": {"name": "other"}})
        assert await api.names(path, **query) == names
        await api.delete(path, **query)
        assert await api.names(path, **query) == []
        assert "other" in await api.names(path)

    workloads.run(scenario)

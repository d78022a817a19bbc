"""Which events are worth writing."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.client.event_correlation import BURST, COMBINED, EventCorrelator
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.support.virtual_time import run
from bayplan.testing.builders import deployment

NOW = 1_767_323_045.0
WEB = core_v1.ObjectReference(kind="ReplicaSet", namespace="default", name="web", uid="1", api_version="apps/v1")


def tell(
    correlator: EventCorrelator, message: str, at: float = 0.0, about: core_v1.ObjectReference = WEB
) -> str | None:
    """The message under which an event is kept; None if it is not told."""
    key = correlator.correlate(about, "Normal", "SuccessfulCreate", message, NOW + at)
    return None if key is None else key[-1]


def test_events_that_differ_in_their_message_only_are_combined_from_the_tenth_on() -> None:
    correlator = EventCorrelator()
    told = [tell(correlator, f"Created pod: web-{number}") for number in range(12)]
    assert told == [*(f"Created pod: web-{number}" for number in range(9)), COMBINED, COMBINED, COMBINED]


def test_after_ten_minutes_of_silence_counting_begins_anew() -> None:
    correlator = EventCorrelator()
    for number in range(12):
        tell(correlator, f"Created pod: web-{number}")
    assert tell(correlator, "Created pod: web-x", at=599) == COMBINED
    assert tell(correlator, "Created pod: web-y", at=1300) == "Created pod: web-y"


def test_about_one_object_there_are_25_at_once_and_then_one_in_five_minutes() -> None:
    correlator = EventCorrelator()
    assert sum(tell(correlator, "again") is not None for _ in range(40)) == 25
    assert tell(correlator, "again", at=299) is None
    assert tell(correlator, "again", at=301) == "again"
    assert tell(correlator, "again", at=302) is None
    other = core_v1.ObjectReference(kind="ReplicaSet", namespace="default", name="other", uid="2")
    assert tell(correlator, "again", about=other) == "again"


def test_messages_are_counted_once_each_and_the_oldest_make_room() -> None:
    correlator = EventCorrelator()
    for number in (*range(9), *range(9)):
        assert tell(correlator, f"m{number}", about=WEB) == f"m{number}"
    assert tell(correlator, "m9") == COMBINED  # and m0 is forgotten for it
    assert tell(correlator, "m1") == "m1"
    assert tell(correlator, "m0") == COMBINED


def test_objects_that_were_told_of_lately_are_remembered_among_thousands() -> None:
    correlator = EventCorrelator()
    for _ in range(BURST):
        tell(correlator, "again")
    for number in range(20_000):
        other = core_v1.ObjectReference(kind="Pod", namespace="default", name=f"pod-{number}", uid=str(number))
        assert tell(correlator, "Started", at=number / 1000, about=other) == "Started"
        if number % 100 == 0:
            assert tell(correlator, "again", at=number / 1000) is None


def test_a_large_set_is_told_of_in_few_events() -> None:
    async def main() -> list[core_v1.Event]:
        async with VirtualCluster(nodes=3) as cluster:
            await cluster.client.create(deployment("web", 60))
            await cluster.advance(minutes=1)
            found = (await cluster.client.list(core_v1.Event, "default")).items
            return [event for event in found if event.reason == "SuccessfulCreate"]

    events = run(main())
    assert len(events) == 10
    (combined,) = [
        event for event in events if event.message.startswith("(combined from similar events): Created pod: ")
    ]
    assert combined.count == 16

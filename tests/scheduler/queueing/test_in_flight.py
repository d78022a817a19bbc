"""Events that happen while pods are being scheduled."""

from __future__ import annotations

from collections import Counter

from bayplan.scheduler.framework.events import Action, ClusterEvent
from bayplan.scheduler.queueing.in_flight import InFlight

NODE, POD = ClusterEvent("Node", Action.ADD), ClusterEvent("Pod", Action.DELETE)


def test_each_pod_has_missed_what_happened_since_it_was_taken() -> None:
    log, tracked = InFlight(), Counter[str]()
    log.tracked = lambda event, more: tracked.update({event: more})
    log.note(NODE, None, "unseen")
    log.take("p")
    log.note(NODE, None, "e0")
    log.note(POD, "e1", None)
    log.take("q")
    log.note(NODE, None, "e2")
    assert tracked == {"NodeAdd": 2, "PodDelete": 1}
    assert log.missed("p") == [(NODE, None, "e0"), (POD, "e1", None), (NODE, None, "e2")]
    log.end("p")
    assert log.missed("q") == [(NODE, None, "e2")]
    assert tracked == {"NodeAdd": 1, "PodDelete": 0}
    log.end("q")
    assert (len(log), tracked.total(), log.missed("q")) == (0, 0, [])


def test_a_change_of_one_pod_is_missed_by_no_other() -> None:
    log = InFlight()
    log.take("p")
    log.take("q")
    log.note(POD, "old", "new", only="q")
    assert (log.missed("p"), log.missed("q")) == ([], [(POD, "old", "new")])


def test_what_the_oldest_pod_in_flight_can_have_missed_is_kept() -> None:
    log = InFlight()
    log.take("p")
    log.note(NODE, None, "e0")
    log.take("q")
    log.end("q")
    log.take("q")
    log.end("unknown")
    log.note(NODE, None, "e1")
    assert [entry[2] for entry in log.missed("p")] == ["e0", "e1"]
    assert [entry[2] for entry in log.missed("q")] == ["e1"]

"""Seats of requests: cases of kube-apiserver's `width_test.go`; lists are served from the cache here."""

from __future__ import annotations

import pytest

from bayplan.apiserver.flow_control.estimation import Estimator, ObjectStatistics
from bayplan.apiserver.flow_control.watch_counts import WatchCounts
from bayplan.apiserver.flow_control.work import SCALE, Work, seat_seconds, work_text
from bayplan.apiserver.request_info import parse_request_info

EVENTS = "/apis/foo.bar/v1/events"
MEDIUM = 10_000


def query_of(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split("&")) if text else {}


@pytest.mark.parametrize(
    ("query", "number", "size", "most", "seats"),
    [
        pytest.param("limit=invalid", 799, MEDIUM, 100, 100, id="options that cannot be read"),
        pytest.param(
            "limit=399&resourceVersion=1", 699, MEDIUM, 100, 40, id="a page at a revision comes from the store"
        ),
        pytest.param("resourceVersion=1", 699, MEDIUM, 100, 10, id="lists from the cache are sent in pieces"),
        pytest.param("resourceVersion=1", 69, MEDIUM, 100, 7, id="a short list from the cache"),
        pytest.param("", 69, MEDIUM, 100, 7, id="a consistent list comes from the cache"),
        pytest.param("", 699, MEDIUM, 5, 5, id="not more than the level allows"),
        pytest.param("continue=token&limit=399", 699, MEDIUM, 100, 40, id="a further page"),
        pytest.param("limit=299&resourceVersion=0", 399, MEDIUM, 100, 10, id="a page of the cache is capped, too"),
        pytest.param("limit=20&resourceVersion=0", 399, MEDIUM, 100, 2, id="a short page of the cache"),
        pytest.param(
            "resourceVersion=1&resourceVersionMatch=Exact&limit=399", 699, MEDIUM, 100, 40, id="exactly at a revision"
        ),
        pytest.param(
            "resourceVersion=1&resourceVersionMatch=NotOlderThan", 79, MEDIUM, 100, 8, id="not older than a revision"
        ),
        pytest.param("resourceVersion=1&resourceVersionMatch=Exact", 5000, MEDIUM, 20, 20, id="capped by the level"),
        pytest.param("resourceVersionMatch=foo", 200, MEDIUM, 100, 20, id="a match that there is not"),
        pytest.param(
            "resourceVersion=1&resourceVersionMatch=Exact&limit=1", 1, 0, 100, 15, id="objects of unknown size"
        ),
        pytest.param("resourceVersion=0&limit=499", 1, 0, 100, 10, id="objects of unknown size in the cache"),
        pytest.param("fieldSelector=metadata.name=test", 799, 200_000, 100, 2, id="one object"),
        pytest.param(
            "fieldSelector=metadata.name=test&resourceVersion=1&resourceVersionMatch=Exact",
            799,
            1_500_000,
            100,
            15,
            id="one large object",
        ),
        pytest.param(
            "labelSelector=app&continue=t&limit=49", 799, MEDIUM, 100, 40, id="a selector reads more than it gives"
        ),
        pytest.param("watch=true", 69, MEDIUM, 100, 7, id="a watch begins with what there is"),
        pytest.param("watch=true&resourceVersion=0", 69, MEDIUM, 100, 7, id="a watch from anywhere does, too"),
        pytest.param("watch=true&resourceVersion=5", 69, MEDIUM, 100, 1, id="a watch from a revision does not"),
        pytest.param(
            "watch=true&resourceVersion=5&sendInitialEvents=true", 69, MEDIUM, 100, 7, id="unless it asks for that"
        ),
        pytest.param("", 0, 0, 100, 1, id="nothing is one seat"),
    ],
)
def test_lists(query: str, number: int, size: int, most: int, seats: int) -> None:
    parsed = query_of(query)
    found = Estimator(lambda _: ObjectStatistics(number, size), lambda _: 0).read(
        parse_request_info("GET", EVENTS, parsed), parsed, most
    )
    assert (found.seats, found.final_seats) == (seats, 0)


def test_a_list_of_what_this_server_does_not_keep_is_one_seat() -> None:
    assert Estimator(lambda _: None, lambda _: 0).read(parse_request_info("GET", EVENTS, {}), {}, 100).seats == 1


@pytest.mark.parametrize(
    ("watches", "most", "final", "milliseconds"),
    [
        (0, 10, 0, 0),
        (9, 10, 0, 0),
        (10, 10, 1, 5),
        (25, 10, 3, 5),
        (140, 10, 10, 7),
        (1000, 10, 10, 50),
        (1000, 5, 5, 100),
        (1000, 0, 10, 50),
    ],
)
def test_writes(watches: int, most: int, final: int, milliseconds: int) -> None:
    work = Estimator(lambda _: None, lambda _: watches).write(watches, most)
    assert (work.initial_seats, work.final_seats) == (1, final)
    assert work.additional_seconds * 1000 == pytest.approx(milliseconds)


def test_tokens_of_service_accounts_have_no_events() -> None:
    estimator = Estimator(lambda _: None, lambda _: 7777)
    assert estimator.watches(parse_request_info("POST", "/api/v1/namespaces/a/serviceaccounts/b/token", {})) == 0
    assert estimator.watches(parse_request_info("PUT", "/api/v1/namespaces/a/serviceaccounts/b", {})) == 7777


def test_watches_are_counted_by_what_they_are_about() -> None:
    counts = WatchCounts()
    opened = []
    for path, query in (
        ("/api/v1/pods", ""),
        ("/api/v1/namespaces/a/pods", ""),
        ("/api/v1/namespaces/b/pods", ""),
        ("/api/v1/namespaces/a/pods", "fieldSelector=metadata.name=one"),
        ("/api/v1/pods", "fieldSelector=spec.nodeName=node"),
        ("/api/v1/pods", "fieldSelector=spec.nodeName="),
        ("/api/v1/nodes", ""),
    ):
        parsed = query_of(query)
        opened.append(counts.opened(parse_request_info("GET", path, {"watch": "1", **parsed}), parsed))

    def interested(method: str, path: str) -> int:
        return counts.interested_in(parse_request_info(method, path, {}))

    assert opened[4] is None
    assert interested("POST", "/api/v1/namespaces/a/pods") == 3
    assert interested("PUT", "/api/v1/namespaces/a/pods/one") == 4
    assert interested("DELETE", "/api/v1/namespaces/b/pods/one") == 3
    assert interested("GET", "/api/v1/namespaces/a/pods/one") == 0
    assert interested("PATCH", "/api/v1/nodes/n") == 1
    for one in opened:
        if one is not None:
            counts.closed(one)
    assert interested("PUT", "/api/v1/namespaces/a/pods/one") == 0


def test_work_is_seats_and_time() -> None:
    assert seat_seconds(3, 0.5) == 1.5 * SCALE
    assert Work(2, 4, 0.5).total_work == 200_600_000
    assert work_text(Work(2, 4, 0.5).total_work) == "2.00600000ss"
    narrowed = Work(1, 8, 1.0).limited_to(2)
    assert (narrowed.final_seats, narrowed.additional_seconds) == (2, 4.0)
    assert Work(1, 2, 1.0).limited_to(2).additional_seconds == 1.0

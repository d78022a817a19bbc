"""Writes of one object that repeat an earlier one but for times: what the fast path makes of them is what the slow path would have made."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.apiserver.writes.repeated_writes import RepeatedWrite, RepeatedWrites
from tests.apiserver.standing_still import JSON, Server

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
STEPS = ("renew", "renew", "renew", "patch", "other", "stale", "past", "odd time", "no such time", "same", "label")
Step = tuple[str, float]
"""What is done, and how many seconds pass before."""
Tree = dict[str, Any]


def request_of(step: str, number: int, lease: Tree, stale: Tree) -> tuple[str, bytes, str]:
    """Method, body and content type of a step. stale: the lease as it was before the last change."""
    time = f"2030-01-01T00:{number:02d}:00.{number:06d}Z"
    if step == "patch":
        return "PATCH", msgspec.json.encode({"spec": {"renewTime": time}}), MERGE
    if step == "label":
        return "PATCH", msgspec.json.encode({"metadata": {"labels": {"time": f"t{number}"}}}), MERGE
    times = {
        "past": "2020-01-01T00:00:00.000000Z",
        "odd time": f"2030-01-01T00:{number:02d}:00.5Z",
        "no such time": f"2030-01-41T00:{number:02d}:00.{number:06d}Z",
        "same": lease["spec"]["renewTime"],
    }
    spec = {**lease["spec"], "renewTime": times.get(step, time)}
    if step == "other":
        spec["holderIdentity"] = f"other-{number}"
    changed = {**(stale if step == "stale" else lease), "spec": spec}
    return "PUT", msgspec.json.encode(changed), JSON


async def played(steps: list[Step]) -> tuple[list[Any], int]:
    """What a server answers to steps and has in the end, and how many writes took the fast path."""
    fast: list[str] = []
    submit = RepeatedWrite.submit

    def counted(self: RepeatedWrite) -> Any:
        submitted = submit(self)
        if submitted is not None:
            fast.append(submitted.entry.name)
        return submitted

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RepeatedWrite, "submit", counted)
        async with Server() as server:
            owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u-1"}
            spec = {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000001Z"}
            code, lease = await server.send(
                "POST", LEASES, {"metadata": {"name": "n", "ownerReferences": [owner]}, "spec": spec}
            )
            assert code == 201, lease
            answers: list[Any] = [lease]
            stale = lease
            for number, (step, seconds) in enumerate(steps):
                server.clock.advance(seconds)
                method, body, content_type = request_of(step, number, lease, stale)
                code, answer = await server.send(method, f"{LEASES}/n", body, content_type)
                answers.append((step, code, answer))
                if code == 200:
                    stale, lease = lease, answer
            kind = server.api.context.kinds.of_kind("coordination.k8s.io/v1", "Lease")
            assert kind is not None
            cache = server.api.context.objects.cache(kind)
            answers += [(one.body, one.labels, one.fields, one.uid, one.revision) for one in cache.ordered()]
            answers += [(one.revision, one.entry.body if one.entry else b"") for one in cache.events_after(0)]
            return answers, len(fast)


def none(self: RepeatedWrites, *_: Any) -> None:
    """The fast path is switched off."""


@settings(max_examples=15, deadline=None)
@example(steps=[(step, 10.0) for step in ("renew", "renew", "renew", "no such time", "odd time", "renew", "past")])
@example(steps=[*[("renew", 10.0)] * 4, ("same", 10.0), ("stale", 0.0), ("other", 1.0), ("renew", 0.0)])
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from([0.0, 10.0, 10.0])), min_size=1, max_size=14))
def test_any_sequence_of_writes(steps: list[Step]) -> None:
    fast, _ = asyncio.run(played(steps))
    with pytest.MonkeyPatch.context() as closed:
        closed.setattr(RepeatedWrites, "find", none)
        slow, count = asyncio.run(played(steps))
    assert not count
    assert fast == slow


@pytest.mark.parametrize(("step", "known"), [("renew", 7), ("patch", 7), ("other", 0), ("same", 0)])
def test_what_is_a_repetition(step: str, known: int) -> None:
    _, fast = asyncio.run(played([(step, 10.0)] * 10))
    assert fast == known

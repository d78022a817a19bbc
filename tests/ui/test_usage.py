"""What the metrics API says of nodes and pods, kept within bounds; a cluster without it is said to have none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
import pytest

from bayplan.api.errors import ApiError
from bayplan.api.kinds import DEFAULT_KINDS, KindTable
from bayplan.api.types import meta_v1
from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.client.transport import Transport
from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run
from bayplan.ui import usage as usage_module
from bayplan.ui.usage import UsageHistory

BASE = "/apis/metrics.k8s.io/v1beta1"


class Answers(Transport):
    """Answers by path."""

    def __init__(self) -> None:
        self.by_path: dict[str, Any] = {}

    async def request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes = b"", content_type: str = ""
    ) -> bytes:
        answer = self.by_path.get(path, ApiError(meta_v1.Status(code=404, message="not found")))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else msgspec.json.encode(answer)

    async def watch(self, *arguments: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def node(name: str, cpu: str, memory: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": memory}}


def play(story: Callable[[UsageHistory, Answers], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        answers = Answers()
        client = Client(answers, KindTable(DEFAULT_KINDS))
        await story(UsageHistory(client, LoopClock(1000.0)), answers)

    run(whole())


def test_readings_of_a_node_are_kept_with_their_times() -> None:
    async def story(usage: UsageHistory, answers: Answers) -> None:
        answers.by_path[f"{BASE}/nodes"] = {"items": [node("a", "1500000000n", "2Ki")]}
        await usage.read(pods=False)
        await asyncio.sleep(15)
        answers.by_path[f"{BASE}/nodes"] = {"items": [node("a", "2", "1Mi")]}
        await usage.read(pods=False)
        expected = {"at": [1000.0, 1015.0], "cpu": [1500, 2000], "memory": [2048, 1 << 20], "missing": ""}
        assert usage.to_dict("nodes", "", "a") == expected
        assert usage.to_dict("nodes", "", "b") == {"at": [], "cpu": [], "memory": [], "missing": ""}

    play(story)


def test_usage_of_a_pod_is_the_sum_of_its_containers() -> None:
    async def story(usage: UsageHistory, answers: Answers) -> None:
        containers = [{"usage": {"cpu": "100m", "memory": "1Ki"}}, {"usage": {"cpu": "20m", "memory": "1Ki"}}]
        pod = {"metadata": {"name": "web", "namespace": "shop"}, "containers": containers}
        answers.by_path |= {f"{BASE}/nodes": {"items": None}, f"{BASE}/pods": {"items": [pod]}}
        await usage.read(pods=True)
        found = usage.to_dict("pods", "shop", "web")
        assert (found["cpu"], found["memory"]) == ([120], [2048])
        answers.by_path[f"{BASE}/namespaces/shop/pods/web"] = pod
        await usage.read_pod("shop", "web")
        assert usage.to_dict("pods", "shop", "web")["cpu"] == [120, 120]

    play(story)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ApiError(meta_v1.Status(code=404, message="page not found")), "no metrics API"),
        (ApiError(meta_v1.Status(code=403, message="nodes is forbidden")), "nodes is forbidden"),
        (ApiError(meta_v1.Status(code=503, message="service unavailable")), "service unavailable"),
        (TransportError("refused"), "refused"),
        (b"<html>", "malformed"),
    ],
)
def test_why_there_are_no_readings_is_said_until_there_are(answer: Any, words: str) -> None:
    async def story(usage: UsageHistory, answers: Answers) -> None:
        answers.by_path[f"{BASE}/nodes"] = answer
        await usage.read(pods=False)
        assert words in usage.to_dict("nodes", "", "a")["missing"]
        assert usage.to_dict("pods", "shop", "web")["missing"] == ""
        answers.by_path[f"{BASE}/nodes"] = {"items": []}
        await usage.read(pods=False)
        assert usage.to_dict("nodes", "", "a")["missing"] == ""

    play(story)


def test_a_pod_without_a_reading_yet_is_no_missing_api() -> None:
    async def story(usage: UsageHistory, answers: Answers) -> None:
        await usage.read_pod("shop", "new")
        assert usage.to_dict("pods", "shop", "new")["missing"] == ""

    play(story)


def test_the_history_is_bounded_in_readings_and_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "_READINGS_KEPT", 3)
    monkeypatch.setattr(usage_module, "_OBJECTS_KEPT", 2)

    async def story(usage: UsageHistory, answers: Answers) -> None:
        answers.by_path[f"{BASE}/nodes"] = {"items": [node(name, "1", "1") for name in "abc"]}
        for _ in range(5):
            await usage.read(pods=False)
            await asyncio.sleep(15)
        assert usage.to_dict("nodes", "", "a")["at"] == []
        answers.by_path[f"{BASE}/nodes"] = {"items": [node("c", "1", "1")]}
        for _ in range(5):
            await usage.read(pods=False)
            await asyncio.sleep(15)
        assert len(usage.to_dict("nodes", "", "c")["at"]) == 3

    play(story)

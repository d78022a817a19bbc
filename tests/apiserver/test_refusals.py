"""What a server says of objects that it refuses or warns of, case by case in Kubernetes' words.

Each line of `refusals.jsonl` is an object as a user sends it and what Kubernetes 1.36 answers to a dry run of its creation: the causes, or the message where
there are none, and the warnings. The order of causes is that of the map they were found in, so it does not count.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.serving import Served, served

Case = dict[str, Any]
CASES: list[Case] = [
    json.loads(line) for line in Path(__file__).with_name("refusals.jsonl").read_text(encoding="utf-8").splitlines()
]
_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


@functools.cache
def answers() -> list[dict[str, Any]]:
    """What one server says of each case, in the order of the cases."""

    async def play() -> list[dict[str, Any]]:
        async with served() as server:
            await _answer(server, {"path": "/api/v1/namespaces/default/serviceaccounts", "object": _ACCOUNT}, {})
            return [await _answer(server, case, {"dryRun": "All"}) for case in CASES]

    return asyncio.run(play())


_ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


async def _answer(server: Served, case: Case, query: dict[str, str]) -> dict[str, Any]:
    if "fieldValidation" in case:
        query = query | {"fieldValidation": case["fieldValidation"]}
    async with server.session.post(
        server.url + case["path"],
        data=json.dumps(case["object"]),
        headers=server.headers("admin") | {"Content-Type": "application/json"},
        params=query,
    ) as response:
        body = json.loads(await response.read())
        given = ", ".join(response.headers.getall("Warning", []))
        found: dict[str, Any] = {"code": response.status, "warnings": []}
        found["warnings"] = [re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(given)]
        causes = (body.get("details") or {}).get("causes") if body["kind"] == "Status" else None
        if causes:
            found["causes"] = sorted(f"{one.get('field', '')}: {one['message']}" for one in causes)
        elif body["kind"] == "Status":
            found["message"] = body["message"]
        return found


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case["case"] for case in CASES])
def test_objects_are_refused_and_warned_of_in_kubernetes_words(index: int) -> None:
    expected = {key: value for key, value in CASES[index].items() if key in ("code", "causes", "message", "warnings")}
    if "causes" in expected:
        expected["causes"] = sorted(expected["causes"])
    assert answers()[index] == expected

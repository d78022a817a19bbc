"""Requests that make no sense: whatever comes in, no answer says that the server is broken, nothing hangs, and what was there stays.

`BAYPLAN_FUZZ_REQUESTS` sets how many requests are made (6,000 if it is not set).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter

import pytest

from bayplan.apiserver.requests import Request, Response
from bayplan.apiserver.server import ApiServer
from tests.apiserver.serving import ADMIN, opened
from tests.fuzz.nonsense import Nonsense

REQUESTS = int(os.environ.get("BAYPLAN_FUZZ_REQUESTS", "6000"))
SEEDS = range(2)
EXPECTED_FAILURES = (500, 501, 503, 504)


def describe(request: Request, response: Response) -> str:
    """A request and its answer, for people."""
    asked = f"{request.method} {request.path!r} {request.query} {request.content_type!r} {request.accept!r}"
    return f"{response.code} {response.body[:300]!r}\n  for {asked}\n  {request.body[:500]!r}"


def is_fault(request: Request, response: Response) -> bool:
    """Whether an answer says that the server itself failed. Kubernetes answers some nonsense with 500, too, but says what is wrong with it."""
    if response.code < 500:
        return False
    return response.code not in EXPECTED_FAILURES or b"Error:" in response.body


async def play(api: ApiServer, seed: int, count: int) -> list[str]:
    nonsense = Nonsense(seed)
    faults = []
    codes: Counter[int] = Counter()
    for _ in range(count):
        request = nonsense.request()
        response = await asyncio.wait_for(api.handle(request), 5)
        codes[response.code] += 1
        assert isinstance(response.whole_body(), bytes)
        if response.watcher is not None:
            watcher = response.watcher
            watcher.close()
            for event in await watcher.next_batch():
                watcher.line(*event)
        if is_fault(request, response):
            faults.append(describe(request, response))
    assert min(codes[code] for code in (200, 201, 400, 404, 405, 406, 409, 415, 422)) > 0, codes  # else it is no test
    return faults


@pytest.mark.parametrize("seed", SEEDS)
def test_nonsense_is_refused_and_nothing_breaks(seed: int) -> None:
    async def run() -> None:
        async with opened() as api:
            kept = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kept", "namespace": "kube-public"},
                "data": {"a": "b"},
            }
            path = "/api/v1/namespaces/kube-public/configmaps"
            made = await api.handle(Request("POST", path, {}, ADMIN, json.dumps(kept).encode(), "application/json"))
            assert made.code == 201
            faults = await play(api, seed, REQUESTS // len(SEEDS))
            assert not faults, f"{len(faults)} faults\n" + "\n".join(faults[:10])
            found = await api.handle(Request("GET", f"{path}/kept", {}, ADMIN))
            if found.code == 200:
                assert json.loads(found.body)["data"] == {"a": "b"}
            else:
                gone = await api.handle(Request("GET", "/api/v1/namespaces/kube-public", {}, ADMIN))
                assert b"Terminating" in gone.body or gone.code == 404

    asyncio.run(run())

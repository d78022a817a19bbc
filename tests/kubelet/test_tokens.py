"""Tokens of pods are renewed before they end, and no sooner than needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest

from bayplan.client import Client
from bayplan.client.errors import TransportError
from bayplan.kubelet.objects import ObjectError
from bayplan.kubelet.tokens import TokenManager
from bayplan.support.randomness import SeededRandomness
from bayplan.support.timestamps import rfc3339
from bayplan.support.virtual_time import run
from bayplan.testing.builders import pod
from bayplan.testing.clock import ManualClock

HOUR = 3600.0


class Server:
    """Gives out tokens that are good for as long as was asked for, or for `granted` seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.requests: list[Mapping[str, object]] = []
        self.paths: list[str] = []
        self.fails = False
        self.granted: int | None = None
        self.tokens = TokenManager(cast(Client, self), self.clock, SeededRandomness(1))

    async def raw(self, method: str, path: str, query: object = None, body: bytes = b"") -> bytes:
        if self.fails:
            raise TransportError("connection refused")
        asked = json.loads(body)
        self.requests.append(asked["spec"])
        self.paths.append(f"{method} {path}")
        seconds = self.granted or asked["spec"]["expirationSeconds"]
        asked["spec"]["expirationSeconds"] = seconds
        expires = rfc3339(self.clock.now() + seconds)
        asked["status"] = {"token": f"token {len(self.requests)}", "expirationTimestamp": expires}
        return json.dumps(asked).encode()

    def token(self, uid: str = "u", audience: str = "", seconds: int | None = None) -> str:
        asked = pod("p", meta={"uid": uid}, service_account_name="sa")
        return run(self.tokens.token(asked, audience, seconds)).text


def test_a_token_is_bound_to_its_pod() -> None:
    server = Server()
    assert server.token(audience="vault", seconds=600) == "token 1"
    assert server.paths == ["POST /api/v1/namespaces/default/serviceaccounts/sa/token"]
    assert server.requests == [
        {
            "audiences": ["vault"],
            "expirationSeconds": 600,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"},
        }
    ]


@pytest.mark.parametrize(
    ("seconds", "granted", "due"),
    [(None, None, 0.8 * HOUR), (600, None, 480), (600, 3607, 0.8 * 3607), (365 * 24 * 3600, None, 24 * HOUR)],
    ids=["the usual hour", "as short as may be", "longer than asked for", "a year"],
)
def test_it_is_renewed_after_four_fifths_of_its_life_or_a_day(
    seconds: int | None, granted: int | None, due: float
) -> None:
    server = Server()
    server.granted = granted
    assert server.token(seconds=seconds) == "token 1"
    server.clock.advance(due - 11)
    assert server.token(seconds=seconds) == "token 1"
    server.clock.advance(12)
    assert server.token(seconds=seconds) == "token 2"


def test_a_token_that_holds_is_used_while_no_other_can_be_had() -> None:
    server = Server()
    server.token()
    server.fails = True
    server.clock.advance(0.9 * HOUR)
    assert server.token() == "token 1"
    server.clock.advance(0.2 * HOUR)
    with pytest.raises(
        ObjectError, match=r"^token default/sa of pod p expired and refresh failed: connection refused$"
    ):
        server.token()
    server.fails = False
    assert server.token() == "token 2"


def test_a_first_token_that_cannot_be_had_is_an_error() -> None:
    server = Server()
    server.fails = True
    with pytest.raises(ObjectError, match=r"^failed to fetch token: connection refused$"):
        server.token()


def test_each_pod_and_audience_has_its_own() -> None:
    server = Server()
    found = [server.token("u1"), server.token("u2"), server.token("u1", "vault"), server.token("u1", seconds=600)]
    assert found == [f"token {number}" for number in range(1, 5)]
    assert server.token("u1") == "token 1"
    server.tokens.forget("u1")
    assert server.token("u2") == "token 2"
    assert server.token("u1") == "token 5"

"""Keys of issuers: when they are fetched, and what an issuer that is away or slow means."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bayplan.apiserver.authentication.oidc.issuer import discover
from bayplan.apiserver.authentication.oidc.key_sets import FetchError, KeySet
from bayplan.apiserver.authentication.oidc.tokens import ALGORITHMS, Candidate, TokenInvalid
from bayplan.support.clock import LoopClock
from bayplan.support.virtual_time import run
from tests.apiserver.authentication.oidc.provider import EC_KEY, OTHER_KEY, RSA_KEY, public_key, token

CLOCK = LoopClock(1_800_000_000.0)


class Pages:
    """See Fetch."""

    def __init__(self, *keys: dict[str, Any]) -> None:
        self.page: bytes | None = json.dumps({"keys": keys}).encode()
        """None if nobody answers."""
        self.seconds = 0.0
        self.times: list[float] = []

    async def __call__(self, url: str, token: str = "") -> bytes:
        self.times.append(CLOCK.monotonic())
        await asyncio.sleep(self.seconds)
        if self.page is None:
            raise FetchError("nobody answers")
        return self.page

    async def close(self) -> None:
        """Nothing is open."""


def candidate(key: Any = RSA_KEY, key_id: str = "k1", algorithm: str = "RS256") -> Candidate:
    return Candidate(token(key, {}, key_id=key_id, algorithm=algorithm), ALGORITHMS)


def key_set(pages: Pages) -> tuple[KeySet, list[bytes | None]]:
    """A key set, and what it told of its fetches."""
    told: list[bytes | None] = []
    return KeySet(pages, "https://a/keys", CLOCK, told.append), told


def test_keys_are_fetched_once_for_all_who_wait() -> None:
    async def case() -> None:
        pages = Pages(public_key(RSA_KEY, "k1"))
        pages.seconds = 5
        keys, told = key_set(pages)
        await asyncio.gather(*(keys.verify(candidate()) for _ in range(10)))
        await keys.verify(candidate())
        assert len(pages.times) == len(told) == 1

    run(case())


def test_a_new_key_is_found_and_the_old_one_stays_good_until_then() -> None:
    async def case() -> None:
        pages = Pages(public_key(RSA_KEY, "k1"))
        keys, _ = key_set(pages)
        await keys.verify(candidate())
        pages.page = json.dumps({"keys": [public_key(EC_KEY, "k2")]}).encode()
        await keys.verify(candidate())
        await keys.verify(candidate(EC_KEY, "k2", "ES256"))
        with pytest.raises(TokenInvalid, match="failed to verify id token signature"):
            await keys.verify(candidate())

    run(case())


def test_tokens_with_unknown_keys_do_not_make_many_fetches() -> None:
    async def case() -> None:
        pages = Pages(public_key(RSA_KEY, "k1"))
        keys, _ = key_set(pages)
        started = CLOCK.monotonic()
        for index in range(5):
            with pytest.raises(TokenInvalid):
                await keys.verify(candidate(OTHER_KEY, f"made up {index}"))
        assert [time - started for time in pages.times] == pytest.approx([0, 1, 2, 3, 4], abs=0.01)

    run(case())


def test_an_issuer_that_is_away_keeps_the_keys_that_are_known() -> None:
    async def case() -> None:
        pages = Pages(public_key(RSA_KEY, "k1"))
        page, pages.page = pages.page, None
        keys, told = key_set(pages)
        with pytest.raises(TokenInvalid, match="fetching keys oidc: get keys failed nobody answers"):
            await keys.verify(candidate())
        pages.page = page
        await keys.verify(candidate())
        pages.page = None
        await CLOCK.sleep(3601)
        await keys.verify(candidate())
        await CLOCK.sleep(1)
        await keys.verify(candidate())
        assert told == [None, page, None]

    run(case())


def test_a_withdrawn_key_is_not_believed_for_ever() -> None:
    async def case() -> None:
        pages = Pages(public_key(RSA_KEY, "k1"))
        keys, _ = key_set(pages)
        await keys.verify(candidate())
        pages.page = b'{"keys": []}'
        await CLOCK.sleep(3601)
        await keys.verify(candidate())  # which lets them be fetched
        await CLOCK.sleep(1)
        with pytest.raises(TokenInvalid):
            await keys.verify(candidate())

    run(case())


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (b"x", "failed to decode provider discovery object"),
        (
            b'{"issuer": "https://b", "jwks_uri": "https://a/k"}',
            'issuer did not match .* expected "https://a" got "https://b"',
        ),
        (b'{"issuer": "https://a"}', "provider did not return JWKS URL"),
    ],
)
def test_what_an_issuer_says_of_itself_must_be_right(page: bytes, problem: str) -> None:
    pages = Pages()
    pages.page = page
    with pytest.raises(FetchError, match=problem):
        run(discover(pages, "https://a"))

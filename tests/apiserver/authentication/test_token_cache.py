"""What is kept of tokens that had to be waited for."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.apiserver.authentication.authenticator import TokenFound
from bayplan.apiserver.authentication.token_cache import CacheMetrics, TokenCache
from bayplan.apiserver.requests import User
from bayplan.support.clock import LoopClock
from bayplan.support.metrics.instruments import Registry
from bayplan.support.virtual_time import run

CLOCK = LoopClock(0.0)
NOBODY = TokenFound(None, (), "not good")
AUDIENCES = ("a",)


class Source:
    """Knows users by the first letter of their tokens."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.asked: list[str] = []
        self.seconds = seconds

    async def find(self, token: str, audiences: tuple[str, ...]) -> TokenFound:
        self.asked.append(token)
        await asyncio.sleep(self.seconds)
        return TokenFound(User(token), audiences) if token.startswith("g") else NOBODY


def cache_of(source: Source, registry: Registry | None = None, **more: bool | float) -> TokenCache:
    seconds = {"success_seconds": 10.0, "failure_seconds": 0.0} | {k: float(v) for k, v in more.items() if "sec" in k}
    keeps = bool(more.get("keeps_errors", True))
    return TokenCache(source.find, CLOCK, CacheMetrics(registry or Registry()), **seconds, keeps_errors=keeps)


def test_a_user_is_kept_for_a_while() -> None:
    async def case() -> None:
        source, registry = Source(), Registry()
        cache = cache_of(source, registry)
        assert cache.known("good", AUDIENCES) is None
        found = await cache.find("good", AUDIENCES)
        assert found.user == User("good")
        await CLOCK.sleep(9.9)
        assert cache.known("good", AUDIENCES) is found
        assert cache.known("good", ("b",)) is None
        await CLOCK.sleep(0.2)
        assert cache.known("good", AUDIENCES) is None
        assert source.asked == ["good"]
        text = registry.render()
        assert b'authentication_token_cache_request_total{status="hit"} 1\n' in text
        assert b'authentication_token_cache_request_total{status="miss"} 1\n' in text
        assert b'authentication_token_cache_fetch_total{status="ok"} 1\n' in text

    run(case())


def test_who_asks_meanwhile_waits_for_the_same_answer_also_if_the_first_one_goes() -> None:
    async def case() -> None:
        source = Source()
        cache = cache_of(source)
        first = asyncio.create_task(cache.find("good", AUDIENCES))
        others = [asyncio.create_task(cache.find("good", AUDIENCES)) for _ in range(3)]
        await asyncio.sleep(0.5)
        first.cancel()
        assert [found.user for found in await asyncio.gather(*others)] == [User("good")] * 3
        assert source.asked == ["good"]

    run(case())


@pytest.mark.parametrize(("failure_seconds", "keeps_errors", "asked"), [(0, True, 2), (5, True, 1), (5, False, 2)])
def test_what_is_not_good_is_kept_as_long_as_is_said(failure_seconds: float, keeps_errors: bool, asked: int) -> None:
    async def case() -> None:
        source = Source()
        cache = cache_of(source, failure_seconds=failure_seconds, keeps_errors=keeps_errors)
        for _ in range(2):
            assert await cache.find("bad", AUDIENCES) == NOBODY
        assert len(source.asked) == asked

    run(case())


def test_what_was_asked_before_it_was_cleared_is_not_kept() -> None:
    async def case() -> None:
        cache = cache_of(Source())
        task = asyncio.create_task(cache.find("good", AUDIENCES))
        await asyncio.sleep(0.5)
        cache.clear()
        await task
        assert cache.known("good", AUDIENCES) is None

    run(case())


def test_sources_that_do_not_answer_are_given_up() -> None:
    async def case() -> None:
        found = await cache_of(Source(seconds=1000)).find("good", AUDIENCES)
        assert (found.user, found.error) == (None, "context deadline exceeded")
        assert CLOCK.monotonic() == pytest.approx(30, abs=0.1)

    run(case())

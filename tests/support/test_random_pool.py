"""Random bytes that are drawn ahead are given out once, soon, and to one process."""

from __future__ import annotations

import os
from collections.abc import Callable

from bayplan.support.random_pool import RandomPool


class Source:
    """Counts instead of chance: no two bytes of a call are equal to those of another one."""

    def __init__(self) -> None:
        self.now = 0.0
        self.draws = 0

    def draw(self, size: int) -> bytes:
        self.draws += 1
        return b"".join((self.draws * 100_000 + at).to_bytes(4) for at in range(size // 4))

    def pool(self) -> RandomPool:
        return RandomPool(lambda: self.now, self.draw)


def numbers(pool: Callable[[int], bytes], count: int) -> list[bytes]:
    return [pool(12) for _ in range(count)]


def test_no_bytes_are_given_out_twice() -> None:
    source = Source()
    found = b"".join([*numbers(source.pool(), 1000), source.pool()(20_000)])
    pieces = [found[at : at + 4] for at in range(0, len(found), 4)]
    assert len(found) == 32_000
    assert len(set(pieces[:3000])) == 3000
    assert source.draws == 4


def test_what_is_a_second_old_is_drawn_anew() -> None:
    source = Source()
    pool = source.pool()
    numbers(pool, 2)
    source.now = 0.9
    numbers(pool, 2)
    assert source.draws == 1
    source.now = 1.0
    numbers(pool, 1)
    assert source.draws == 2


def test_a_forked_process_has_bytes_of_its_own() -> None:
    pool = RandomPool(lambda: 0.0)
    pool(12)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, pool(12))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 12) != pool(12)
    for one in (reading, writing):
        os.close(one)

"""Code that takes longer than it may is interrupted, and then left alone for a while."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from bayplan.support.time_limit import TimeLimit, TimeLimitExceeded


def loop() -> None:
    while True:
        try:
            time.monotonic()
        except Exception:
            time.monotonic()


def test_what_is_quick_is_as_if_there_were_no_limit() -> None:
    former = signal.getsignal(signal.SIGALRM)
    limit = TimeLimit(5.0, 60.0)
    assert limit.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        limit.run(divmod, 7, 0)
    assert limit.run(lambda: limit.run(len, "abc")) == 3
    assert signal.getsignal(signal.SIGALRM) is former
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_loop_ends_and_nothing_is_called_until_the_rest_is_over() -> None:
    limit = TimeLimit(0.02, 0.05)
    with pytest.raises(TimeLimitExceeded, match=r"took longer than 0\.02 s$"):
        limit.run(loop)
    with pytest.raises(TimeLimitExceeded, match=r"is not asked for 0\.05 s"):
        limit.run(len, "abc")
    while limit._not_before > time.monotonic():
        pass
    assert limit.run(len, "abc") == 3
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_after_one_subject_others_go_on_and_after_two_none() -> None:
    limit, first, second, third = TimeLimit(0.02, 0.2), object(), object(), object()
    for subject in (first, second):
        with pytest.raises(TimeLimitExceeded, match=r"took longer than 0\.02 s$"):
            limit.run(loop, subject=subject)
        with pytest.raises(TimeLimitExceeded, match="before, and is not asked"):
            limit.run(len, "abc", subject=subject)
        if subject is first:
            assert limit.run(len, "abc", subject=third) == limit.run(len, "abc") == 3
    with pytest.raises(TimeLimitExceeded, match="before, and is not asked"):
        limit.run(len, "abc", subject=third)


def test_other_threads_have_no_limit() -> None:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(TimeLimit(0.0001, 1.0).run(sum, range(100))))
    thread.start()
    thread.join()
    assert found == [4950]

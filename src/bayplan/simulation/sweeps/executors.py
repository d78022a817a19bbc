"""Executors for sweeps: this process, or several on this machine."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class InlineExecutor(Executor):
    """Runs each call when it is submitted, here."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def executor_of(jobs: int) -> Callable[[], Executor]:
    """Makes executors with so many processes, each of which begins anew; for one job that is this process."""
    if jobs == 1:
        return InlineExecutor
    return lambda: ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"))

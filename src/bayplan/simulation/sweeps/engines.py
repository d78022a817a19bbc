"""Executors on many machines: the workers of a Dask or Ray cluster that runs.

    engine = open_engine("dask://scheduler:8786")
    sweep(function, units, engine.executor, results, workers=engine.workers)

Workers need the same version of Bayplan, and files that units name at the same paths. A worker that dies is an executor that breaks: the sweep finds out which
unit was to blame.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from bayplan import __version__

T = TypeVar("T")
ANSWER_SECONDS: Final = 10.0
"""Within which an engine has to answer at first."""
_URL: Final = re.compile(
    r"(?P<scheme>dask|ray)://(?P<address>(?:[^\s:/?#@\[\]]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5}))"
)
_LOST: Final = (
    "the engine is gone: run the command again when it is back; results that were kept are not worked out again"
)


class EngineError(Exception):
    """An engine cannot be used: the text says what to do."""


class Engine(NamedTuple):
    """Where units run."""

    executor: Callable[[], Executor]
    """Makes one; see `sweep`."""
    workers: int
    """Calls that can run at the same time."""


class EngineURLError(EngineError):
    """A URL that names no engine."""


def open_engine(url: str) -> Engine:
    """The engine that a URL names: `dask://HOST:PORT` or `ray://HOST:PORT`. Raises EngineError."""
    found = _URL.fullmatch(url)
    if found is None or not 0 < int(found["port"]) < 1 << 16:
        raise EngineURLError(f"{url!r}: expected dask://HOST:PORT or ray://HOST:PORT")
    scheme, address = found["scheme"], found["address"]
    opened = {"dask": _dask, "ray": _ray}[scheme]

    def connected(opening: Callable[[], T]) -> T:
        try:
            return opening()
        except OSError as error:
            raise EngineError(f"{url}: nothing answers there: {error}") from error

    try:
        executor, workers = connected(lambda: opened(address))
    except ModuleNotFoundError as error:
        raise EngineError(f"{url}: {error.name} is missing: pip install 'bayplan[{scheme}]'") from error
    with executor() as first:
        version = first.submit(bayplan_version).result()
    if version != __version__:
        raise EngineError(f"{url}: its workers have Bayplan {version}, this is {__version__}")
    return Engine(lambda: connected(executor), workers)


def bayplan_version() -> str:
    """The version of Bayplan where this is called."""
    return __version__


class EngineExecutor(Executor):
    """Calls through an engine's own futures, which name the death of a worker in their own way."""

    def __init__(
        self, submit: Callable[..., Future[Any]], deaths: tuple[type[BaseException], ...], close: Callable[[], object]
    ) -> None:
        """submit: as that of an executor. deaths: what futures fail with when a worker died."""
        self._submit = submit
        self._deaths = deaths
        self._close = close

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self._submit(fn, *args, **kwargs).add_done_callback(partial(self._finish, future))
        return future

    def _finish(self, future: Future[Any], done: Future[Any]) -> None:
        if done.cancelled():  # as engines do with what they will never know
            future.set_exception(EngineError(_LOST))
            return
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        elif isinstance(error, self._deaths):
            future.set_exception(BrokenExecutor(str(error)))
        else:
            future.set_exception(error)

    def __exit__(self, *_: object) -> None:
        """Take leave of the engine, which goes on."""
        self._close()


def _dask(address: str) -> tuple[Callable[[], Executor], int]:
    from distributed import Client
    from distributed.scheduler import KilledWorker

    def executor() -> Executor:
        client = Client(f"tcp://{address}", timeout=ANSWER_SECONDS)
        return EngineExecutor(client.get_executor(pure=False).submit, (KilledWorker,), client.close)

    with Client(f"tcp://{address}", timeout=ANSWER_SECONDS) as client:
        workers = sum(client.nthreads().values())
    if not workers:
        raise EngineError(f"dask://{address}: it has no workers")
    return executor, workers


def _ray(address: str) -> tuple[Callable[[], Executor], int]:
    import ray
    from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

    def connect() -> None:
        if not ray.is_initialized():
            ray.init(address=f"ray://{address}", log_to_driver=False, logging_level="ERROR")

    def executor() -> Executor:
        connect()
        call = ray.remote(max_retries=0)(_called)
        deaths = (WorkerCrashedError, NodeDiedError, OutOfMemoryError)
        return EngineExecutor(lambda *words, **options: call.remote(words, options).future(), deaths, lambda: None)

    ray.shutdown()  # there is one connection in a process; it stays for all executors, since each new one takes seconds
    connect()
    workers = int(ray.cluster_resources().get("CPU", 0))
    if not workers:
        raise EngineError(f"ray://{address}: it has no workers")
    return executor, workers


def _called(words: tuple[Any, ...], options: dict[str, Any]) -> Any:
    function, *arguments = words
    return function(*arguments, **options)

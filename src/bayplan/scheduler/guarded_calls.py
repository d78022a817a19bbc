"""Methods of other people's plugins that cannot fail as a decision does, or are asked outside of decisions: what stands in for an answer that does not come.

Reserve, Permit, PreBind and Bind fail as a PluginError, which puts the pod back into the queue and names the plugin. Where nothing could hold an error (the order of
the queue, hints about events, Unreserve, PostBind) the plugin counts as if it had nothing to say, and the log names it once for each kind of error.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import sys
from collections.abc import Awaitable, Callable, Collection, Generator
from functools import wraps
from pathlib import Path
from typing import Any, Final

from bayplan.scheduler.framework.events import EventHint
from bayplan.scheduler.framework.extension_points import Plugin
from bayplan.scheduler.framework.state import PodShape
from bayplan.scheduler.framework.verdicts import ActionError, PluginError, Reject, Status
from bayplan.scheduler.snapshot.pods import PodInfo
from bayplan.support.time_limit import TimeLimit, TimeLimitExceeded

logger = logging.getLogger(__name__)

LAST: Final = (math.inf,)
"""The key and the rank of pods whose order is not known: after all others."""


def _is_number(answer: Any) -> bool:
    return isinstance(answer, int | float) and not math.isnan(answer)


def _is_key(answer: Any) -> bool:
    return isinstance(answer, tuple) and all(_is_number(part) for part in answer)


def _is_hashable(answer: Any) -> bool:
    try:
        hash(answer)
    except TypeError:
        return False
    return True


def _is_reject(answer: Any) -> bool:
    return answer is None or isinstance(answer, Reject)


_ANSWERS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "reserve": (_is_reject, "neither None nor a Reject"),
    "permit": (lambda answer: _is_reject(answer) or _is_number(answer), "neither None, a number of seconds nor a Reject"),
}  # fmt: skip
"""Methods whose errors put the pod back into the queue -> what they may answer, and what another answer is not."""
_AWAITED: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "pre_bind": (_is_reject, "neither None nor a Reject"),
    "bind": (lambda answer: isinstance(answer, bool), "neither True nor False"),
}
"""The same of coroutines."""
_STAND_INS: Final[dict[str, tuple[object, Callable[[Any], bool]]]] = {
    "concerns": (True, lambda answer: isinstance(answer, bool)),
    "has_work": (True, lambda answer: isinstance(answer, bool)),
    "partition_of": (None, _is_hashable),
    "reads": (None, _is_hashable),
    "group_of": (None, _is_hashable),
    "asked_again": (None, lambda answer: answer is None or _is_number(answer)),
    "sort_key": (LAST, _is_key),
    "rank": (LAST, _is_key),
    "unreserve": (None, lambda answer: True),
    "conclude": (None, lambda answer: True),
    "post_bind": (None, lambda answer: True),
}
"""Methods whose errors cannot be told of a pod -> what counts in place of an answer, and what is an answer."""


def described(plugin: Plugin, error: BaseException) -> str:
    """An error with the last line of the plugin's file that it passed through: `KeyError: 'x' (few_pods.py:22)`."""
    path = getattr(sys.modules.get(type(plugin).__module__), "__file__", None)
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    place = f" ({Path(path).name}:{line})" if path is not None and line else ""
    return f"{type(error).__name__}: {error}{place}"


def subject(arguments: tuple[Any, ...]) -> PodShape | None:
    """The kind of pod that a plugin is asked about."""
    for one in arguments:
        if isinstance(one, PodShape):
            return one
        if isinstance(one, PodInfo):
            return one.shape
    pod = getattr(arguments[0], "pod", None) if arguments else None
    return pod.shape if isinstance(pod, PodInfo) else None


def guard_calls(plugin: Plugin, limit: TimeLimit) -> None:
    """Wrap the methods of a plugin that this module is about, as far as they are its own."""
    own, complaints = vars(plugin), _Complaints(plugin)
    for name, (is_answer, otherwise) in _ANSWERS.items():
        if _is_own(plugin, name):
            own[name] = _failing(plugin, limit, getattr(plugin, name), is_answer, otherwise)
    for name, (is_answer, otherwise) in _AWAITED.items():
        if _is_own(plugin, name):
            own[name] = _failing_later(plugin, limit, getattr(plugin, name), is_answer, otherwise)
    for name, (stand_in, is_answer) in _STAND_INS.items():
        if _is_own(plugin, name):
            own[name] = _replaced(limit, getattr(plugin, name), stand_in, is_answer, complaints)
    if _is_own(plugin, "explained"):
        own["explained"] = _explained(limit, plugin.explained, complaints)  # type: ignore[attr-defined]
    if _is_own(plugin, "release"):
        own["release"] = _released(plugin, limit, plugin.release)  # type: ignore[attr-defined]
    if _is_own(plugin, "generate_placements"):
        own["generate_placements"] = _generated(plugin, limit, plugin.generate_placements)  # type: ignore[attr-defined]
    if _is_own(plugin, "events"):
        own["events"] = _with_safe_hints(limit, plugin.events, complaints)


def _is_own(plugin: Plugin, name: str) -> bool:
    """Whether a plugin's class, or one that is not Bayplan's, has the method."""
    method = getattr(type(plugin), name, None)
    return method is not None and not str(getattr(method, "__module__", "")).startswith("bayplan.")


class _Complaints:
    """What the log has been told about a plugin."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self._told: set[tuple[str, str]] = set()

    def tell(self, method: str, problem: str, error: BaseException | None = None) -> None:
        """Once for each method and kind of error."""
        kind = (method, type(error).__name__)
        if kind not in self._told:
            self._told.add(kind)
            logger.error("plugin %s: %s %s", self.plugin.name, method, problem)


def _failing(
    plugin: Plugin, limit: TimeLimit, method: Callable[..., Any], is_answer: Callable[[Any], bool], otherwise: str
) -> Callable[..., Any]:
    @wraps(method)
    def guarded(*arguments: Any) -> Any:
        answer = called(plugin, limit, method, *arguments, prefix="")
        if not is_answer(answer):
            raise PluginError(plugin.name, f"it answered {answer!r}, {otherwise}")
        return answer

    return guarded


def called(plugin: Plugin, limit: TimeLimit, method: Callable[..., Any], *arguments: Any, prefix: str) -> Any:
    """What a method answers. Raises PluginError, whatever it raises; prefix: what the message begins with."""
    try:
        return limit.run(method, *arguments, subject=subject(arguments))
    except (PluginError, ActionError, KeyboardInterrupt):
        raise
    except TimeLimitExceeded as error:
        raise PluginError(plugin.name, f"{prefix}{error}") from error
    except BaseException as error:  # SystemExit as well: a plugin does not end the scheduler
        failed = "failed: " if prefix else ""
        raise PluginError(plugin.name, f"{prefix}{failed}{described(plugin, error)}") from error


def _failing_later(
    plugin: Plugin,
    limit: TimeLimit,
    method: Callable[..., Awaitable[Any]],
    is_answer: Callable[[Any], bool],
    otherwise: str,
) -> Callable[..., Awaitable[Any]]:
    @wraps(method)
    async def guarded(*arguments: Any) -> Any:
        try:
            answer = await _Stepped(limit, method(*arguments), subject(arguments))
        except (PluginError, ActionError):
            raise
        except TimeLimitExceeded as error:
            raise PluginError(plugin.name, str(error)) from error
        except (Exception, SystemExit) as error:
            raise PluginError(plugin.name, described(plugin, error)) from error
        if not is_answer(answer):
            raise PluginError(plugin.name, f"it answered {answer!r}, {otherwise}")
        return answer

    return guarded


class _Stepped:
    """A coroutine each of whose steps is limited in time; waiting is not."""

    def __init__(self, limit: TimeLimit, awaitable: Awaitable[Any], about: object) -> None:
        self._limit = limit
        self._awaitable = awaitable
        self._about = about

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Any = self._awaitable.__await__()
        advance = _sending(steps, None)
        try:
            while True:
                try:
                    waits_for = self._limit.run(advance, subject=self._about)
                except StopIteration as end:
                    return end.value
                try:
                    advance = _sending(steps, (yield waits_for))
                except BaseException as error:  # a cancellation, or what the future ended with
                    advance = _throwing(steps, error)
        finally:
            steps.close()


def _sending(steps: Any, value: Any) -> Callable[[], Any]:
    return lambda: steps.send(value)


def _throwing(steps: Any, error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _replaced(
    limit: TimeLimit,
    method: Callable[..., Any],
    stand_in: object,
    is_answer: Callable[[Any], bool],
    complaints: _Complaints,
) -> Callable[..., Any]:
    @wraps(method)
    def guarded(*arguments: Any) -> Any:
        try:
            answer = limit.run(method, *arguments, subject=subject(arguments))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            complaints.tell(method.__name__, f"failed: {described(complaints.plugin, error)}", error)
            return stand_in
        if not is_answer(answer):
            complaints.tell(method.__name__, f"answered {answer!r}, which is no answer")
            return stand_in
        return answer

    return guarded


def _explained(limit: TimeLimit, method: Callable[..., str], complaints: _Complaints) -> Callable[..., str]:
    @wraps(method)
    def guarded(pod: PodInfo, rejection: Reject) -> str:
        plain = ", ".join(rejection.reasons)
        text: str = _replaced(limit, method, plain, lambda answer: isinstance(answer, str), complaints)(pod, rejection)
        return text

    return guarded


def _released(
    plugin: Plugin, limit: TimeLimit, method: Callable[..., Awaitable[None]]
) -> Callable[..., Awaitable[None]]:
    @wraps(method)
    async def guarded(*arguments: Any) -> None:
        try:
            await _Stepped(limit, method(*arguments), subject(arguments))
        except ActionError:
            raise
        except (Exception, SystemExit) as error:
            raise ActionError(f"plugin {plugin.name} failed: {described(plugin, error)}") from error

    return guarded


def _generated(plugin: Plugin, limit: TimeLimit, method: Callable[..., Any]) -> Callable[..., Any]:
    """A group for which no placements are generated has none."""

    @wraps(method)
    def guarded(*arguments: Any) -> Any:
        try:
            return called(plugin, limit, method, *arguments, prefix=f"plugin {plugin.name} ")
        except PluginError as error:
            return Reject(Status.UNSCHEDULABLE, (str(error),))

    return guarded


def _with_safe_hints(
    limit: TimeLimit, method: Callable[[], tuple[EventHint, ...]], complaints: _Complaints
) -> Callable[[], tuple[EventHint, ...]]:
    """An event about which a hint fails may help."""

    def safe(one: EventHint) -> EventHint:
        hint, partitions = one.hint, one.partitions
        if hint is not None:
            hint = _replaced(limit, hint, True, lambda answer: isinstance(answer, bool), complaints)
        if partitions is not None:
            partitions = _replaced(limit, partitions, None, _are_partitions, complaints)
        return dataclasses.replace(one, hint=hint, partitions=partitions)

    @wraps(method)
    def events() -> tuple[EventHint, ...]:
        return tuple(map(safe, method()))

    return events


def _are_partitions(answer: object) -> bool:
    return answer is None or (isinstance(answer, Collection) and all(map(_is_hashable, answer)))

"""Faults of the API, one at a time: the next write conflicts, requests are refused or slow, watches break.

    cluster.faults.conflict_next("pods")
    cluster.faults.fail_next("deployments", code=500, verbs=("update", "patch"), times=3)

They meet everybody but Bayplan's own components and the test itself, so what they try is the program under test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from bayplan.api.errors import conflict, failure, gone
from bayplan.apiserver.context import Call
from bayplan.apiserver.server import ApiServer

OBSERVER: Final = "bayplan:test"
"""Who the test itself is: never met by a fault."""
COMPONENTS: Final = ("system:kube-controller-manager", "system:kube-scheduler", "system:node-simulator")
READS: Final = ("get", "list", "watch")
WRITES: Final = ("create", "update", "patch", "delete", "deletecollection")

Act = Callable[[Call], Awaitable[None]]


@dataclass(slots=True)
class _Rule:
    resource: str
    verbs: tuple[str, ...]
    times: int
    act: Act

    def meets(self, resource: str, verb: str) -> bool:
        return self.times > 0 and verb in self.verbs and self.resource in ("*", resource)


class Faults:
    """Faults that an API server commits. `resource` is a plural (`pods`, with a subresource `pods/status`) or `*`."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._rules: list[_Rule] = []
        self.committed: list[str] = []
        """`verb resource` of every request that a fault has met, in order."""
        self._spared = {OBSERVER, *COMPONENTS}
        api.interceptor = self._intercept

    def spare(self, *users: str) -> None:
        """Let no fault meet these users."""
        self._spared.update(users)

    def conflict_next(self, resource: str, *, times: int = 1) -> None:
        """Refuse the next updates and patches as if somebody else had been faster (409)."""

        async def act(call: Call) -> None:
            raise conflict(call.kind.plural, call.kind.group, call.path.name)

        self._add(resource, ("update", "patch"), times, act)

    def fail_next(
        self,
        resource: str,
        *,
        code: int = 500,
        verbs: Iterable[str] = (*READS, *WRITES),
        times: int = 1,
        retry_after: int = 0,
    ) -> None:
        """Refuse the next requests, which do nothing. retry_after: seconds after which the client is told to come back.

        Raises ValueError for a code that has no reason in Kubernetes.
        """
        reason = _REASONS.get(code)
        if reason is None:
            raise ValueError(f"code {code}: choose one of {', '.join(map(str, _REASONS))}")

        async def act(call: Call) -> None:
            what = f"{call.request.method} {call.request.path}: refused by a fault"
            raise failure(code, reason, what, retry_after=retry_after)

        self._add(resource, tuple(verbs), times, act)

    def delay_next(
        self, resource: str, seconds: float, *, verbs: Iterable[str] = (*READS, *WRITES), times: int = 1
    ) -> None:
        """Let the next requests take longer."""

        async def act(call: Call) -> None:
            await call.context.clock.sleep(seconds)

        self._add(resource, tuple(verbs), times, act)

    def expire_next_watch(self, resource: str, *, times: int = 1) -> None:
        """Answer the next watches with 410: the client has to list again."""

        async def act(call: Call) -> None:
            raise gone("too old resource version: lost by a fault")

        self._add(resource, ("watch",), times, act)

    def drop_watches(self, resource: str) -> int:
        """End all running watches of a resource, those of components too. Returns how many there were."""
        context = self._api.context
        dropped = 0
        for kind in context.kinds:
            if kind.plural != resource or not kind.is_stored:
                continue
            for watcher in tuple(context.objects.cache(context.kinds.storage_kind(kind)).watchers):
                if not watcher.closed:
                    watcher.close()
                    dropped += 1
        return dropped

    def clear(self) -> None:
        """Forget all faults that have not happened."""
        self._rules.clear()

    @property
    def pending(self) -> int:
        """Faults that are still to come."""
        return sum(rule.times for rule in self._rules)

    def _add(self, resource: str, verbs: tuple[str, ...], times: int, act: Act) -> None:
        unknown = [verb for verb in verbs if verb not in (*READS, *WRITES)]
        if unknown:
            raise ValueError(f"unknown verbs {', '.join(unknown)}; choose from {', '.join((*READS, *WRITES))}")
        self._rules.append(_Rule(resource, verbs, times, act))

    async def _intercept(self, call: Call) -> None:
        if not self._rules or call.request.user.name in self._spared:
            return
        path = call.path
        resource = f"{path.kind.plural}/{path.subresource.name}" if path.subresource is not None else path.kind.plural
        verb = path.verb
        for rule in tuple(self._rules):
            if rule.meets(resource, verb):
                rule.times -= 1
                if not rule.times:
                    self._rules.remove(rule)
                self.committed.append(f"{verb} {resource}")
                await rule.act(call)


_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}

"""EventRateLimit: bounds how fast events may come, in all, per namespace, per user, or per source and object.

Source: plugin `EventRateLimit`, API `eventratelimit.admission.k8s.io/v1alpha1`. Each limit is a token bucket per key; the least recently used
keys are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from bayplan.api.errors import failure
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

TYPES = ("Server", "Namespace", "User", "SourceAndObject")
_KEYS_KEPT = 4096


class _Limit:
    """One limit: `qps` tokens a second per key, at most `burst` at once."""

    def __init__(self, type_: str, qps: int, burst: int, cache_size: int) -> None:
        self.type = type_
        self._qps, self._burst, self._size = qps, burst, cache_size
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens left and when (Unix seconds) they were counted, by key, the least recently used first."""

    def takes(self, key: str, now: float) -> bool:
        """Take a token; False if there is none."""
        left, since = self._tokens.pop(key, (float(self._burst), now))
        left = min(float(self._burst), left + (now - since) * self._qps)
        allowed = left >= 1
        self._tokens[key] = (left - 1 if allowed else left, now)
        if len(self._tokens) > self._size:
            self._tokens.popitem(last=False)
        return allowed


class EventRateLimit(AdmissionPlugin):
    """See the module. Without a configuration nothing is limited."""

    name = "EventRateLimit"

    def __init__(self) -> None:
        self._limits: tuple[_Limit, ...] = ()

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take `limits`. Raises ValueError."""
        made = []
        for index, item in enumerate(configuration.get("limits") or []):
            type_, qps, burst = item.get("type"), int(item.get("qps") or 0), int(item.get("burst") or 0)
            if type_ not in TYPES:
                raise ValueError(f"limits[{index}].type: {type_!r} is none of {', '.join(TYPES)}")
            if qps <= 0 or burst <= 0:
                raise ValueError(f"limits[{index}]: qps and burst must be positive")
            made.append(_Limit(type_, qps, burst, int(item.get("cacheSize") or 0) or _KEYS_KEPT))
        if not made:
            raise ValueError("limits: at least one limit must be given")
        self._limits = tuple(made)

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Event" and not kind.is_custom and operation in (CREATE, UPDATE)

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse events that come too fast (429)."""
        if request.call.dry_run:
            return
        now = request.call.context.clock.now()
        reached = []
        for limit in self._limits:
            key = _key(limit.type, request)
            if not limit.takes(key, now):
                reached.append(f"limit reached on type {limit.type} for key {key}")
        if reached:
            shown = reached[0] if len(reached) == 1 else f"[{', '.join(reached)}]"
            raise failure(429, "TooManyRequests", f"Too many requests: {shown}", details=False)


def _key(type_: str, request: AdmissionRequest) -> str:
    event = request.obj
    if type_ == "Server":
        return ""
    if type_ == "Namespace":
        return request.namespace
    if type_ == "User":
        return request.call.request.user.name
    about = event.involved_object
    parts = (event.source.component, event.source.host, about.kind, about.namespace, about.name, about.uid)
    return "".join((*parts, about.api_version))

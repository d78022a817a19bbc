"""Extenders: schedulers' helpers behind HTTP, asked for further filtering, scoring, preemption and binding.

Here is what is asked and how answers are read; who carries a `Call` to its extender is passed in. Field names are those
of `k8s.io/kube-scheduler/extender/v1`, which Go reads in any case and so do we.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from bayplan.scheduler.framework.post_filter import Candidate
from bayplan.scheduler.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from bayplan.api.types.core_v1 import Node, Pod, PodSpec

EXTENDER_NAME: Final = "Extender"
"""Stands among a pod's rejecting plugins for all extenders; any event may help such a pod."""

SCALE: Final = 10
"""Extenders score up to 10, the scheduler up to 100."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to reach an extender over HTTPS; data (PEM) takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class Extender:
    """One entry of the configuration's `extenders`. An empty verb: the extender does not do that."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls: TlsSettings | None = None
    timeout_seconds: float = 5.0
    node_cache_capable: bool = False
    """Node names are enough; the extender knows the nodes."""
    managed_resources: frozenset[str] = frozenset()
    """Only pods that ask for one of these are its business; empty: all pods."""
    ignored_resources: frozenset[str] = frozenset()
    """Managed resources that the scheduler itself does not look at."""
    ignorable: bool = False
    """Scheduling goes on without it if it cannot be reached."""

    def is_interested(self, spec: PodSpec) -> bool:
        """Whether pods with this spec are its business."""
        managed = self.managed_resources
        return not managed or any(
            not managed.isdisjoint(container.resources.requests) or not managed.isdisjoint(container.resources.limits)
            for container in (*spec.containers, *spec.init_containers)
        )

    def url(self, verb: str) -> str:
        """Where a verb is."""
        return f"{self.url_prefix.rstrip('/')}/{verb}"


class ExtenderError(Exception):
    """An extender could not be asked, or answered with an error or with nonsense."""


@dataclass(frozen=True, slots=True)
class Call:
    """A question to an extender: a POST of JSON."""

    extender: Extender
    verb: str
    body: bytes

    @property
    def url(self) -> str:
        """Where it goes."""
        return self.extender.url(self.verb)


Answer = Any
"""The JSON that came back, or an ExtenderError."""

ExtenderTransport = Callable[[Call], Awaitable[Answer]]
"""Carries a call to its extender. Raises ExtenderError."""

ExtenderCaller = Callable[[Call], Answer]
"""Carries a call to its extender and waits for the answer, for those who have no event loop. Raises ExtenderError."""

T = TypeVar("T")
Questions = Generator[list[Call], list[Answer], T]
"""Steps towards a result with questions to extenders in between: yields the calls that can be made at the same time, is
sent their answers. What the steps look at must stay as it is until they are done."""


def asked(steps: Questions[T], ask: ExtenderCaller) -> T:
    """The result of such steps, each question waited for."""
    try:
        calls = next(steps)
        while True:
            calls = steps.send([_answer(call, ask) for call in calls])
    except StopIteration as finished:
        result: T = finished.value
    return result


def _answer(call: Call, ask: ExtenderCaller) -> Answer:
    try:
        return ask(call)
    except ExtenderError as error:
        return error


def unasked(steps: Questions[T]) -> T:
    """The result of steps for which nobody has to be asked. LookupError if they ask."""
    try:
        calls = next(steps)
    except StopIteration as finished:
        result: T = finished.value
        return result
    raise LookupError(f"no extender was to be asked, but {calls[0].url} is")


@dataclass(frozen=True, slots=True)
class Filtered:
    """What an extender lets through, by node name, and why not the others."""

    passed: frozenset[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]
    is_whole: bool = False
    """Whole nodes came back: from then on the scheduler sees them without their pods and images."""


def _field(answer: Answer, name: str) -> Any:
    """A field of an answer, in whatever case; None if it is not there."""
    if not isinstance(answer, dict):
        raise ExtenderError(f"expected a JSON object, not {type(answer).__name__}")
    if name in answer:
        return answer[name]
    lowered = name.lower()
    return next((value for key, value in answer.items() if key.lower() == lowered), None)


def _check(answer: Answer) -> None:
    if isinstance(answer, ExtenderError):
        raise answer


def _arguments(extender: Extender, pod: Pod, nodes: Sequence[Node]) -> bytes:
    if extender.node_cache_capable:
        names = [node.metadata.name for node in nodes]
        return msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": names})
    return msgspec.json.encode({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


def filter_call(extender: Extender, pod: Pod, nodes: Sequence[Node]) -> Call:
    """Which of these nodes can run the pod?"""
    return Call(extender, extender.filter_verb, _arguments(extender, pod, nodes))


def read_filter(call: Call, answer: Answer, asked: frozenset[str], known: Container[str]) -> Filtered:
    """The answer to `filter_call` about the nodes `asked`. Raises ExtenderError.

    Whole nodes may be any of those that are `known`, as kube-scheduler has it.
    """
    _check(answer)
    error = _field(answer, "Error")
    if error:
        raise ExtenderError(str(error))
    names, nodes = _field(answer, "NodeNames"), _field(answer, "Nodes")
    is_whole = not (call.extender.node_cache_capable and names is not None) and nodes is not None
    if is_whole:
        passed = frozenset(item["metadata"]["name"] for item in _field(nodes, "items") or ())
    else:
        passed = frozenset(names or ()) if call.extender.node_cache_capable else frozenset()
    for name in sorted(passed - asked):
        if is_whole and name in known:
            continue
        raise ExtenderError(
            f'extender "{call.extender.url_prefix}" claims a filtered node "{name}" which is not found in the input '
            "node list"
        )
    failed, unresolvable = _field(answer, "FailedNodes") or {}, _field(answer, "FailedAndUnresolvableNodes") or {}
    return Filtered(passed, failed, unresolvable, is_whole)


def prioritize_call(extender: Extender, pod: Pod, nodes: Sequence[Node]) -> Call:
    """How good are these nodes?"""
    return Call(extender, extender.prioritize_verb, _arguments(extender, pod, nodes))


def read_prioritize(call: Call, answer: Answer) -> dict[str, int]:
    """Node name -> score, weighted and brought to the scheduler's scale. Raises ExtenderError."""
    _check(answer)
    if not isinstance(answer, list):
        raise ExtenderError(f"expected a JSON list, not {type(answer).__name__}")
    factor = call.extender.weight * SCALE
    return {str(_field(item, "Host")): int(_field(item, "Score") or 0) * factor for item in answer}


def preempt_call(extender: Extender, pod: Pod, candidates: Mapping[str, Candidate]) -> Call:
    """Which of these nodes may be made room on, and by evicting whom?"""
    meta: dict[str, Any] | None = None
    full: dict[str, Any] | None = None
    if extender.node_cache_capable:
        meta = {
            name: {"Pods": [{"UID": victim.uid} for victim in item.victims], "NumPDBViolations": item.violations}
            for name, item in candidates.items()
        }
    else:
        full = {
            name: {"Pods": [victim.pod for victim in item.victims], "NumPDBViolations": item.violations}
            for name, item in candidates.items()
        }
    body = {"Pod": pod, "NodeNameToVictims": full, "NodeNameToMetaVictims": meta}
    return Call(extender, extender.preempt_verb, msgspec.json.encode(body))


def read_preempt(
    call: Call, answer: Answer, row_of: Mapping[str, int], pods_on: Sequence[Mapping[str, PodInfo]]
) -> dict[str, Candidate]:
    """Node name -> what would be done there. Raises ExtenderError."""
    _check(answer)
    found: dict[str, Candidate] = {}
    for name, victims in (_field(answer, "NodeNameToMetaVictims") or {}).items():
        row = row_of.get(name)
        if row is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        by_uid = {pod.uid: pod for pod in pods_on[row].values()}
        chosen: list[PodInfo] = []
        for item in _field(victims, "Pods") or ():
            uid = str(_field(item, "UID"))
            if uid not in by_uid:
                raise ExtenderError(
                    f"extender: {call.extender.url_prefix} claims to preempt pod (UID: {uid}) on node: {name}, but the "
                    "pod is not found on that node"
                )
            chosen.append(by_uid[uid])
        if not chosen:
            if call.extender.ignorable:
                continue
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
        found[name] = Candidate(row, tuple(chosen), int(_field(victims, "NumPDBViolations") or 0))
    return found


def bind_call(extender: Extender, pod: Pod, node_name: str) -> Call:
    """Bind the pod to a node."""
    metadata = pod.metadata
    body = {
        "PodName": metadata.name,
        "PodNamespace": metadata.namespace,
        "PodUID": metadata.uid,
        "Node": node_name,
    }
    return Call(extender, extender.bind_verb, msgspec.json.encode(body))


def read_bind(answer: Answer) -> None:
    """Raises ExtenderError if the pod was not bound."""
    _check(answer)
    error = _field(answer, "Error")
    if error:
        raise ExtenderError(str(error))

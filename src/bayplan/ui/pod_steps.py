"""The steps of a pod from its workload to readiness, as objects and events tell: when each was, who wrote it, and which fields. Pure.

Nothing is guessed: a step of which nothing is known says so. Times are as exact as their source: creation times, managed fields and conditions have whole seconds,
`eventTime` of the scheduler's events microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

Tree = Mapping[str, Any]
_MOST_FIELDS: Final = 40


@dataclass(slots=True)
class Step:
    """One step of the way."""

    title: str
    time: str = ""
    """RFC 3339; "" if it has not been, or is not known."""
    who: str = ""
    """The component or client that wrote."""
    source: str = ""
    """What says so."""
    detail: str = ""
    fields: list[str] = field(default_factory=list)
    """What was written, as paths."""
    trouble: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """A pod, its owners from the nearest one, and the events about all of them, as plain data."""

    pod: Tree
    owners: Sequence[Tree] = ()
    events: Sequence[Tree] = ()
    attempts: Sequence[Tree] = ()
    """What the scheduler itself says of its attempts for the pod (`scheduler.attempts`), newest first; nothing if it cannot be asked."""
    queued: Tree | None = None
    """Where the pod is in the scheduler's queue, as that says."""

    def event(self, obj: Tree, *reasons: str, text: str = "") -> Tree | None:
        """The first event about an object with one of the reasons."""
        return next(iter(self.events_of(obj, *reasons, text=text)), None)

    def events_of(self, obj: Tree, *reasons: str, text: str = "") -> list[Tree]:
        """All such events, oldest first."""
        metadata = obj["metadata"]
        found = [
            one
            for one in self.events
            if one.get("reason") in reasons
            and one["involvedObject"].get("kind") == obj.get("kind")
            and one["involvedObject"].get("name") == metadata["name"]
            and text in one.get("message", "")
        ]
        return sorted(found, key=first_time)


def first_time(event: Tree) -> str:
    """When an event was first."""
    return event.get("eventTime") or event.get("firstTimestamp") or event["metadata"].get("creationTimestamp") or ""


def pod_steps(chain: Chain) -> list[dict[str, Any]]:
    """The steps in order, as plain data."""
    return [asdict(step) for step in (*_owner_steps(chain), *_birth(chain), *_scheduling(chain), *_on_node(chain))]


def _owner_steps(chain: Chain) -> Iterator[Step]:
    """From the workload to the owner that makes the pod."""
    above: Tree | None = None
    for owner in reversed(chain.owners):
        kind, name = owner.get("kind", ""), owner["metadata"]["name"]
        step = created(f"{kind} {name} is created, admitted and stored", owner)
        if above is not None:
            event = chain.event(above, "ScalingReplicaSet", "SuccessfulCreate", text=name)
            if event is not None:
                step.who, step.detail = sender(event), event.get("message", "")
        yield step
        above = owner


def _birth(chain: Chain) -> Iterator[Step]:
    step = created("The pod is created, admitted and stored", chain.pod)
    if chain.owners:
        name = chain.pod["metadata"]["name"]
        event = chain.event(chain.owners[0], "SuccessfulCreate", text=name)
        if event is not None:
            step.detail, step.who = event.get("message", ""), sender(event)
            step.source += ", event SuccessfulCreate"
    yield step


def _scheduling(chain: Chain) -> Iterator[Step]:
    pod = chain.pod
    made = pod["metadata"].get("creationTimestamp", "")
    gates = [gate.get("name", "") for gate in pod.get("spec", {}).get("schedulingGates") or ()]
    if gates:
        yield Step("Gated: not queued", made, "scheduler", "spec.schedulingGates", ", ".join(gates), trouble=True)
    scheduler = pod.get("spec", {}).get("schedulerName", "default-scheduler")
    failures = chain.events_of(pod, "FailedScheduling")
    if not gates:
        yield _queued(chain, scheduler)
    for event in failures:
        series = event.get("series") or {}
        count = series.get("count") or event.get("count") or 1
        title = f"Tried {count} times: unschedulable" if count > 1 else "Tried: unschedulable"
        yield Step(
            title, first_time(event), sender(event), "event FailedScheduling", event.get("message", ""), trouble=True
        )
    if pod.get("status", {}).get("nominatedNodeName"):
        node = pod["status"]["nominatedNodeName"]
        yield Step("Nominated", "", scheduler, "status.nominatedNodeName", f"room is made on {node}")
    scheduled, node = chain.event(pod, "Scheduled"), pod.get("spec", {}).get("nodeName", "")
    condition = condition_of(pod, "PodScheduled", "True")
    decided = Step("Decided: a node is chosen", "", scheduler, "nothing says so yet")
    bound = Step("Bound to the node", "", scheduler, "nothing says so yet")
    if scheduled is not None:
        decided = Step(
            "Decided: a node is chosen",
            first_time(scheduled),
            sender(scheduled),
            "event Scheduled",
            scheduled.get("message", ""),
        )
    chosen = next((one for one in chain.attempts if one["node"]), None)
    if chosen is not None:
        detail = f"{chosen['node']}: {chosen['feasible']} of {chosen['nodes']} nodes fit; decided in {chosen['micros']} µs, attempt {chosen['number']}"
        decided = Step("Decided: a node is chosen", moment(chosen["at"]), scheduler, "the scheduler", detail)
    if node:
        bound = Step(
            "Bound to the node",
            (condition or {}).get("lastTransitionTime", ""),
            scheduler,
            "condition PodScheduled",
            node,
            ["spec.nodeName"],
        )
    yield decided
    yield bound  # fmt: skip


def _queued(chain: Chain, scheduler: str) -> Step:
    """That the pod came to the queue, and where in it it is."""
    queued = chain.queued
    if queued is None:
        return Step("Queued by the scheduler", "", scheduler, "not recorded in the API")
    detail = f"now {queued['place']}, in the queue for {queued['waited']:.1f} s, {queued['attempts']} attempts"
    detail += f", rejected by {', '.join(queued['rejectedBy'])}" if queued["rejectedBy"] else ""
    return Step("Queued by the scheduler", "", scheduler, "the scheduler", detail)


def moment(seconds: float) -> str:
    """A Unix time as RFC 3339 with microseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _on_node(chain: Chain) -> Iterator[Step]:
    status, pod = chain.pod.get("status", {}), chain.pod
    node = pod.get("spec", {}).get("nodeName", "")
    writer, wrote = writer_of(pod, "f:status")
    kubelet = writer or "kubelet"
    yield Step("Seen by the node", status.get("startTime", ""), kubelet, "status.startTime", node, wrote)
    yield _by_condition(
        pod, "PodReadyToStartContainers", "Sandbox and network are ready", kubelet, status.get("podIP", "")
    )
    yield _by_condition(pod, "Initialized", "Init containers are done", kubelet)
    yield _pulled(chain, kubelet)
    yield _started(chain, kubelet)
    yield _by_condition(pod, "Ready", "Ready", kubelet)


def _pulled(chain: Chain, kubelet: str) -> Step:
    statuses = chain.pod.get("status", {}).get("containerStatuses") or ()
    event = chain.event(chain.pod, "Pulled", "AlreadyPresent")
    failed = chain.event(chain.pod, "Failed", "ErrImagePull", "BackOff", text="ull")
    if event is not None:
        return Step("Images are pulled", first_time(event), sender(event), "event Pulled", event.get("message", ""))
    if failed is not None:
        return Step(
            "Images cannot be pulled",
            first_time(failed),
            sender(failed),
            f"event {failed.get('reason')}",
            failed.get("message", ""),
            trouble=True,
        )
    images = [one["imageID"] for one in statuses if one.get("imageID")]
    source = "status.containerStatuses" if images else "nothing says so yet"
    return Step("Images are pulled", "", kubelet, source, ", ".join(images))  # fmt: skip


def _started(chain: Chain, kubelet: str) -> Step:
    statuses = chain.pod.get("status", {}).get("containerStatuses") or ()
    states = [(one.get("name", ""), one.get("state") or {}) for one in statuses]
    times = [state["running"].get("startedAt", "") for _, state in states if "running" in state]
    times += [state["terminated"].get("startedAt") or "" for _, state in states if "terminated" in state]
    waiting = [f"{name}: {state['waiting'].get('reason', '')}" for name, state in states if "waiting" in state]
    began = len(times) == len(states) and states
    return Step(
        "Containers are started",
        max(times) if began else "",
        kubelet,
        "status.containerStatuses" if times else "nothing says so yet",
        ", ".join(waiting) or ", ".join(name for name, _ in states),
        trouble=bool(waiting),
    )


def _by_condition(pod: Tree, kind: str, title: str, who: str, detail: str = "") -> Step:
    found = condition_of(pod, kind)
    if found is None:
        return Step(title, "", who, "nothing says so yet")
    if found.get("status") != "True":
        why = found.get("message") or found.get("reason") or "not yet"
        return Step(title, "", who, f"condition {kind}", why, trouble=True)
    return Step(title, found.get("lastTransitionTime") or "", who, f"condition {kind}", detail)


def created(title: str, obj: Tree) -> Step:
    """The creation of an object: by whom and with which fields, as its managed fields tell."""
    made = obj["metadata"].get("creationTimestamp", "")
    entries = sorted(obj["metadata"].get("managedFields") or (), key=lambda entry: entry.get("time") or "")
    first = next((entry for entry in entries if not entry.get("subresource")), None)
    step = Step(title, made, "", "metadata.creationTimestamp")
    if first is not None:
        step.who, step.fields = first.get("manager", ""), list(paths(first.get("fieldsV1") or {}))[:_MOST_FIELDS]
        step.source += ", managed fields"
    return step


def writer_of(obj: Tree, part: str) -> tuple[str, list[str]]:
    """Who wrote a part of an object last through its subresource, and which of its fields."""
    for entry in obj["metadata"].get("managedFields") or ():
        inner = (entry.get("fieldsV1") or {}).get(part)
        if inner and entry.get("subresource"):
            return entry.get("manager", ""), list(paths(inner, part.removeprefix("f:")))[:_MOST_FIELDS]
    return "", []


def condition_of(pod: Tree, kind: str, status: str = "") -> Tree | None:
    """A condition of a pod, if it has it (in that state)."""
    conditions: Iterable[Tree] = pod.get("status", {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == kind and status in ("", one.get("status"))), None)


def sender(event: Tree) -> str:
    """The component that recorded an event."""
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or ""


def paths(tree: Tree, above: str = "") -> Iterator[str]:
    """The leaves of a managed field set, such as `spec.containers[name=main].image`."""
    for key, inner in tree.items():
        if key == ".":
            continue
        name = key[2:] if key.startswith("f:") else f"[{key[2:]}]"
        path = f"{above}.{name}" if above and not name.startswith("[") else above + name
        if any(each != "." for each in inner):
            yield from paths(inner, path)
        else:
            yield path

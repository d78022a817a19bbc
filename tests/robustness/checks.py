"""Whether what clients were told fits what really happened.

writes     an acknowledged write is there once, at its revision; a refused one is not there; one without an answer at most once
objects    no write is lost by a later one; updates are made of the version that they name
order      what was told to anybody before a request began is older than a write of that request, and not newer than what a read of it shows
lists      are the state at their revision; with a resourceVersion not older than that
shares     no address or port is given to two services, no quota exceeded, whichever servers are asked
watches    tell every change after their beginning, once and in order; a bookmark leaves nothing out
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tests.robustness.history import (
    DONE,
    MOST_SECRETS,
    REFUSED,
    SECRET_KEYS,
    SERVICE_KEYS,
    Change,
    History,
    Read,
    Session,
    Version,
    Write,
)


class Truth:
    """What really happened, to be asked about."""

    def __init__(self, changes: Sequence[Change], commits: Sequence[tuple[float, int]] = ()) -> None:
        """commits: (time, revision) of every change of the store, if that is known."""
        self.changes = changes
        self._revisions = [change.revision for change in changes]
        self._of_name: dict[str, list[Change]] = defaultdict(list)
        for change in changes:
            self._of_name[change.name].append(change)
        self._times = [time for time, _ in commits]
        self._committed = [revision for _, revision in commits]

    def of(self, name: str) -> list[Change]:
        """The changes of one object, in order."""
        return self._of_name[name]

    def at(self, name: str, revision: int) -> Change | None:
        """The last change of an object up to a revision."""
        changes = self._of_name[name]
        position = bisect_right(changes, revision, key=lambda change: change.revision)
        return changes[position - 1] if position else None

    def snapshot(self, revision: int) -> dict[str, Version]:
        """All objects as of a revision."""
        found = {}
        for name in self._of_name:
            change = self.at(name, revision)
            if change is not None and change.now is not None:
                found[name] = change.now
        return found

    def between(self, after: int, until: int) -> Sequence[Change]:
        """Changes with after < revision <= until."""
        return self.changes[bisect_right(self._revisions, after) : bisect_right(self._revisions, until)]

    def latest(self, time: float) -> int:
        """The revision of the store at a time; the last one if that is not known."""
        if not self._times:
            return self._revisions[-1] if self._revisions else 0
        position = bisect_right(self._times, time)
        return self._committed[position - 1] if position else 0

    def states(self, name: str, lowest: int, highest: int) -> Iterator[Version | None]:
        """What an object was at any revision between two."""
        first = self.at(name, lowest)
        yield first.now if first is not None else None
        for change in self._of_name[name]:
            if lowest < change.revision <= highest:
                yield change.now


class _Told:
    """The newest revision that anybody had been told of by a time."""

    def __init__(self, history: History) -> None:
        told = [(write.ended, write.revision) for write in history.writes if write.outcome == DONE]
        told += [(read.ended, read.revision) for read in history.reads if read.outcome == DONE]
        for read in history.reads:
            told += [(read.ended, version.revision) for version in read.items.values()]
        told += [(event.time, event.revision) for session in history.sessions for event in session.events]
        told.sort()
        self._times, self._newest = [], []
        newest = 0
        for time, revision in told:
            newest = max(newest, revision)
            self._times.append(time)
            self._newest.append(newest)

    def before(self, time: float) -> int:
        position = bisect_left(self._times, time)
        return self._newest[position - 1] if position else 0


def problems_of(history: History, truth: Truth) -> list[str]:
    """All that does not fit, in words."""
    told = _Told(history)
    found = list(history.servers_errors)
    found += _object_problems(truth)
    found += _write_problems(history.writes, truth, told)
    for read in history.reads:
        found += _read_problems(read, truth, told)
    for session in history.sessions:
        found += session_problems(session, truth)
    return found


def _object_problems(truth: Truth) -> Iterator[str]:
    for change in truth.changes:
        now, before = change.now, change.before
        if now is None or before is None or now.uid != before.uid:
            continue
        if not before.tokens <= now.tokens:
            yield f"{change.name}@{change.revision} has lost {sorted(before.tokens - now.tokens)}"
        elif len(now.tokens - before.tokens) != 1:
            yield f"{change.name}@{change.revision} has {len(now.tokens - before.tokens)} writes in one"


def _added(change: Change) -> frozenset[str]:
    """The writes that made a change."""
    if change.now is None:
        return frozenset()
    if change.before is None or change.before.uid != change.now.uid:
        return change.now.tokens
    return change.now.tokens - change.before.tokens


def _write_problems(writes: Sequence[Write], truth: Truth, told: _Told) -> Iterator[str]:
    made: dict[str, list[Change]] = defaultdict(list)
    for change in truth.changes:
        for token in _added(change):
            made[token].append(change)
    deleted = {
        change.before.uid: change for change in truth.changes if change.now is None and change.before is not None
    }
    deletes = Counter(write.uid for write in writes if write.verb == "delete" and write.outcome == DONE)
    for uid, count in deletes.items():
        if count > 1:
            yield f"the object with uid {uid} was deleted {count} times"
    for write in writes:
        what = f"{write.client}: {write.verb} {write.name} ({write.token}), {write.outcome} {write.code}"
        changes = made.get(write.token, [])
        if len(changes) > 1:
            yield f"{what}: made {len(changes)} times, at {[change.revision for change in changes]}"
        if write.outcome == REFUSED:
            if changes:
                yield f"{what}: made all the same, at {changes[0].revision}"
            yield from _refusal_problems(write, what, truth, told)
        if write.outcome != DONE:
            continue
        if write.verb == "delete":
            if write.uid not in deleted:
                yield f"{what}: the object with uid {write.uid} was never deleted"
                continue
            change = deleted[write.uid]
        elif not changes or changes[0].revision != write.revision:
            yield f"{what} at {write.revision}: in truth at {[change.revision for change in changes]}"
            continue
        else:
            change = changes[0]
        if change.revision <= told.before(write.started):
            yield f"{what}: revision {change.revision} had been passed before it began"
        if change.revision > truth.latest(write.ended):
            yield f"{what}: acknowledged before it was made"
        if write.base and (change.before is None or change.before.revision != write.base):
            yield f"{what}: made of {change.before}, not of revision {write.base}"


def _refusal_problems(write: Write, what: str, truth: Truth, told: _Told) -> Iterator[str]:
    states = list(truth.states(write.name, told.before(write.started), truth.latest(write.ended)))
    if write.code == 404 and all(state is not None for state in states):
        yield f"{what}: was not found, but was there all the time"
    elif write.code == 409 and write.verb == "create" and all(state is None for state in states):
        yield f"{what}: was said to exist, but was not there at any time"
    elif (
        write.code == 409 and write.base and all(state is not None and state.revision == write.base for state in states)
    ):
        yield f"{what}: a conflict, but nobody has changed it"


def _read_problems(read: Read, truth: Truth, told: _Told) -> Iterator[str]:
    if read.outcome == REFUSED and read.code not in (404, 410):
        yield f"{read.client}: a read of {read.name or 'all'} was refused with {read.code}"
    if read.outcome != DONE and not (read.outcome == REFUSED and read.code == 404):
        return
    lowest, highest = read.at_least or told.before(read.started), truth.latest(read.ended)
    if read.name:
        state = read.items.get(read.name)
        if state not in truth.states(read.name, lowest, highest):
            yield f"{read.client}: a get of {read.name} shows {state}, which it was not at any revision from {lowest} to {highest}"
        return
    what = f"{read.client}: a list at {read.revision}"
    if read.revision < lowest:
        yield f"{what} is older than {lowest}"
    if read.revision > highest:
        yield f"{what} is of the future: {highest} was the newest"
    snapshot = truth.snapshot(read.revision)
    if read.items != snapshot:
        wrong = [name for name in {*snapshot, *read.items} if snapshot.get(name) != read.items.get(name)]
        shown = [(name, snapshot.get(name), read.items.get(name)) for name in sorted(wrong)[:3]]
        yield f"{what} is not the state at that revision: (name, in truth, in the list) {shown}"


def session_problems(session: Session, truth: Truth) -> Iterator[str]:
    """What is wrong with all that an informer was told from one list on."""
    at = session.start
    for event in session.events:
        if event.version is None:
            missed = list(truth.between(at, event.revision))
            if missed or event.revision < at:
                yield f"{session.client}: a bookmark at {event.revision} after {at} leaves out {missed[:3]}"
            at = max(at, event.revision)
            continue
        expected = truth.between(at, event.revision)
        if len(expected) != 1 or not _is_of(event.kind, event.version, expected[0]):
            yield f"{session.client}: {event.kind} {event.name}@{event.revision} after {at}; in truth {list(expected[:3])}"
            return
        at = event.revision


def shared_problems(raw: Iterable[tuple[int, list[Any]]]) -> Iterator[str]:
    """What several servers gave out twice, or more often than there is, from etcd's events: (revision, mvccpb.Event messages) in order."""
    owners: dict[object, str] = {}
    given: dict[str, list[object]] = {}
    secrets = 0
    for revision, events in raw:
        for event in events:
            key = event.kv.key.decode()
            if key.startswith(SECRET_KEYS):
                secrets += event.kv.create_revision == revision
                if secrets == MOST_SECRETS + 1:
                    yield f"{key}@{revision} is more than the quota permits"
            if not key.startswith(SERVICE_KEYS):
                continue
            for one in given.pop(key, ()):
                if owners.get(one) == key:
                    del owners[one]
            if event.type:
                continue
            spec = msgspec.json.decode(event.kv.value)["spec"]
            given[key] = [*spec.get("clusterIPs", ()), *filter(None, (port.get("nodePort") for port in spec["ports"]))]
            for one in given[key]:
                if owners.setdefault(one, key) != key:
                    yield f"{key}@{revision} has {one}, which is of {owners[one]}"


def _is_of(kind: str, shown: Version, change: Change) -> bool:
    """Whether an event tells a change."""
    if change.now is None:
        before = change.before
        return kind == "DELETED" and before is not None and (shown.uid, shown.tokens) == (before.uid, before.tokens)
    return kind == ("MODIFIED" if change.before is not None else "ADDED") and shown == change.now

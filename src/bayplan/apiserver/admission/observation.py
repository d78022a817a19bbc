"""What decides an admission plugin's answer: plugins are shown the server through views that record what is read.

    plugin ── request.call ──┬─ .request.user                  who asks
                             ├─ .context.objects.cache(kind)   one object, or all of the kind
                             ├─ .context.randomness.suffix()   a text by chance: it decides nothing but itself
                             └─ clock, settings of the request, ...  more than is compared: the answer cannot be repeated

As long as all that was read is as it was (`Reads.hold`), the answer is the same, and need not be asked for again. Plugins know nothing of it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from bayplan.apiserver.admission.chain import AdmissionRequest, Step

if TYPE_CHECKING:
    from bayplan.api.kinds import KindTable
    from bayplan.apiserver.context import Call, Context
    from bayplan.apiserver.reads.cache import ResourceCache
    from bayplan.apiserver.reads.watching import Entry
    from bayplan.apiserver.requests import User

_VOWELS: Final = "aeiou"
"""Letters that are in no text of a server's own randomness."""
_FIRST_SUFFIX: Final = 2201
"""The first number that is written in vowels: one that gives no text like `aaaaa`."""


class StandInRandomness:
    """Gives out texts that no server would make, so that they are seen where they get into an object."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads

    def suffix(self, length: int) -> str:
        """Letters."""
        number, text = _FIRST_SUFFIX + len(self._reads.drawn), ""
        for _ in range(length):
            number, digit = divmod(number, len(_VOWELS))
            text += _VOWELS[digit]
        self._reads.drawn.append((text, length))
        return text

    def uuid4(self) -> str:
        """What stands for an identifier."""
        text = f"~~bayplan-uid-{len(self._reads.drawn)}~~"
        self._reads.drawn.append((text, 0))
        return text

    def __getattr__(self, name: str) -> Any:
        raise NotComparedError(name)


class Reads:
    """What was read of a server while something was decided."""

    __slots__ = ("_caches", "_kinds", "_objects", "_user", "drawn", "is_repeatable")

    def __init__(self) -> None:
        self.is_repeatable = True
        """Whether nothing else decided than what is compared."""
        self.drawn: list[tuple[str, int]] = []
        """Texts by chance that were asked for, with the length of each; 0 for a UUID."""
        self._objects: list[tuple[ResourceCache, str, str, int]] = []
        """Objects by namespace and name, with their revision; 0 of those that were not there."""
        self._caches: list[tuple[ResourceCache, int]] = []
        """Kinds of which more was read, with the revision of the last change."""
        self._kinds: tuple[KindTable, int] | None = None
        """The table of kinds, with the number of its changes."""
        self._user: User | None = None

    def note_object(self, cache: ResourceCache, namespace: str, name: str, entry: Entry | None) -> None:
        """An object was looked up."""
        self._objects.append((cache, namespace, name, 0 if entry is None else entry.revision))

    def note_kind(self, cache: ResourceCache) -> None:
        """Something was asked that any object of a kind may decide."""
        read = (cache, cache.revision)
        if read not in self._caches:
            self._caches.append(read)

    def note_kinds(self, kinds: KindTable) -> None:
        """A kind was looked up."""
        self._kinds = kinds, kinds.changes

    def add(self, other: Reads) -> None:
        """Somebody else's reads decide as well."""
        self._objects += other._objects
        self._caches += [one for one in other._caches if one not in self._caches]
        self._kinds = self._kinds or other._kinds
        self._user = self._user or other._user

    def note_user(self, user: User) -> None:
        """It was asked who asks."""
        self._user = user

    def note_more(self) -> None:
        """Something was asked that is not compared."""
        self.is_repeatable = False

    def hold(self, user: User) -> bool:
        """Whether somebody would read the same now."""
        if self._user is not None and self._user is not user and self._user != user:
            return False
        if self._kinds is not None and self._kinds[0].changes != self._kinds[1]:
            return False
        for cache, revision in self._caches:
            if cache.revision != revision:
                return False
        for cache, namespace, name, revision in self._objects:
            entry = cache.get(namespace, name)
            if (0 if entry is None else entry.revision) != revision:
                return False
        return True


class ObservedRequest(AdmissionRequest):
    """A request for admission through views. Its name is not compared."""

    __slots__ = ("reads",)

    def __init__(self, call: Call, operation: str, obj: Any, old: Any, subresource: str, reads: Reads) -> None:
        self.reads = reads
        self.call = cast("Call", _CallView(call, reads))
        self.operation, self.subresource, self.obj, self.old = operation, subresource, obj, old
        self.namespace = call.path.namespace

    @property
    def name(self) -> str:  # type: ignore[override]
        """What refusals call the object."""
        return self._name()

    @property
    def object_name(self) -> str:  # type: ignore[override]
        """The object's name."""
        return self._name()

    def _name(self) -> str:
        raise NotComparedError("name")


class Untouched:
    """Stands for an object whose content is not compared: the answer of a plugin that looks at it cannot be repeated."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        raise NotComparedError(name)

    def __setattr__(self, name: str, value: object) -> None:
        raise NotComparedError(name)


class NotComparedError(Exception):
    """A plugin looks at something that is not compared. It is not to go on: it may do something because of that."""


def ask(steps: tuple[Step, ...], request: ObservedRequest) -> bool:
    """Ask plugins; whether their answer may be repeated: they let the request pass, and everything that decided that is in `request.reads`."""
    warnings = request.call.warnings
    for step in steps:
        try:
            waiting = step(request)
        except Exception:  # whatever it is, the plugin is asked again, and then says it to the client
            request.reads.note_more()
            return False
        if waiting is not None:
            if isinstance(waiting, Coroutine):
                waiting.close()
            request.reads.note_more()
            return False
    if warnings:
        request.reads.note_more()
    return request.reads.is_repeatable


class _View:
    """Shows something, and records what of it is read. What a subclass does not name is not compared."""

    __slots__ = ("_reads", "_target")
    _constant: frozenset[str] = frozenset()
    """What is the same for all requests that are compared."""

    def __init__(self, target: Any, reads: Reads) -> None:
        self._target, self._reads = target, reads

    def __getattr__(self, name: str) -> Any:
        if name not in self._constant:
            raise NotComparedError(name)
        return getattr(self._target, name)


class _CallView(_View):
    __slots__ = ("context", "path", "request", "warnings")
    _constant = frozenset(("kind", "stored", "strategy"))

    def __init__(self, call: Call, reads: Reads) -> None:
        super().__init__(call, reads)
        self.context = _ContextView(call.context, reads)
        self.request = _RequestView(call.request, reads)
        self.path = _PathView(call.path, reads)
        self.warnings: list[str] = []


class _PathView(_View):
    __slots__ = ()
    _constant = frozenset(("kind", "namespace", "subresource", "verb"))


class _RequestView(_View):
    __slots__ = ()
    _constant = frozenset(("method",))

    @property
    def user(self) -> User:
        user: User = self._target.user
        self._reads.note_user(user)
        return user


class _ContextView(_View):
    __slots__ = ("objects", "randomness")
    _constant = frozenset(("settings",))

    def __init__(self, context: Context, reads: Reads) -> None:
        super().__init__(context, reads)
        self.objects = _ObjectsView(context.objects, reads)
        self.randomness = StandInRandomness(reads)

    @property
    def kinds(self) -> KindTable:
        """The kinds: custom ones come and go."""
        kinds: KindTable = self._target.kinds
        self._reads.note_kinds(kinds)
        return kinds

    def find(self, kind_name: str, namespace: str, name: str, api_version: str = "v1") -> Any:
        """An object, as the context finds it."""
        kind = self._target.kinds.of_kind(api_version, kind_name)
        cache = self.objects.cache(kind)
        entry = cache.get(namespace, name)
        return None if entry is None else cache.shared(entry)


class _ObjectsView(_View):
    __slots__ = ()

    def cache(self, kind: Any) -> _CacheView:
        """The cache of a kind."""
        return _CacheView(self._target.cache(kind), self._reads)


class _CacheView(_View):
    __slots__ = ()
    _constant = frozenset(("kind", "shared", "decode"))

    def get(self, namespace: str, name: str) -> Entry | None:
        """One object."""
        entry: Entry | None = self._target.get(namespace, name)
        self._reads.note_object(self._target, namespace, name, entry)
        return entry

    def __getattr__(self, name: str) -> Any:
        if name not in self._constant:
            self._reads.note_kind(self._target)
        return getattr(self._target, name)

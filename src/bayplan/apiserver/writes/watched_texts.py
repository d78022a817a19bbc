"""An object whose open texts are watched: whoever looks at one of them is found out, while what they belong to can be read and changed as usual.

pod.metadata ─ .labels["app"]         noted      pod.spec.containers[0].env[2].value   noted
             ─ "app" in .labels       not noted                              .name    not noted
             ─ .name                  noted      encode(pod)                           noted, all
                                                 msgspec.json.encode(pod)              refused, since it would read them unseen
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

from bayplan.api.codec import View
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.apiserver.writes.body_texts import OpenTexts, Path

_GENERATED: Final[Path] = ("metadata", "generateName")
_NAMES: Final[Sequence[Path]] = (("metadata", "name"), _GENERATED)


class WatchedTexts:
    """The open texts of an object that somebody else is about to change."""

    def __init__(self, obj: Any, open_texts: OpenTexts) -> None:
        """obj: is shown to them as `shown`."""
        self.read: set[int] = set()
        """Which texts were looked at, as indices into all texts; -1 for a name that the body does not have."""
        self._is_released = False
        places = {one.path: one.text for one in open_texts.open}
        name = places.get(_NAMES[0], -1)
        self.shown = self._watched(obj, places | dict.fromkeys(_NAMES, name))

    def released(self) -> Any:
        """The object as whoever changed it left it. It is watched no longer: what still watches, in whatever it has got to, is encoded as what it watches."""
        self._is_released = True
        obj = _target(self.shown)
        obj.metadata = metadata = _target(obj.metadata)
        metadata.labels, metadata.annotations = _target(metadata.labels), _target(metadata.annotations)
        return obj

    def _note(self, text: int) -> None:
        if not self._is_released:
            self.read.add(text)

    def _watched(self, target: Any, places: Mapping[Path, int]) -> Any:
        """Something with texts at some places in it, watched."""
        if isinstance(target, dict):
            return _WatchedValues(target, {str(path[0]): text for path, text in places.items()}, self._note)
        below: dict[str | int, dict[Path, int]] = {}
        for path, text in places.items():
            below.setdefault(path[0], {})[path[1:]] = text
        if isinstance(target, tuple):
            return tuple([self._watched(one, below[at]) if at in below else one for at, one in enumerate(target)])
        attributes, texts = dict(_attributes(type(target))), {}
        for field, inner in below.items():
            attribute = attributes[str(field)]
            if () in inner:
                texts[attribute] = inner[()]
            else:
                setattr(target, attribute, self._watched(getattr(target, attribute), inner))
        return _WatchedFields(target, texts, self._note) if texts else target


def _attributes(cls: Any) -> Iterator[tuple[str, str]]:
    """The fields of a type by their names in JSON, and its attributes."""
    if issubclass(cls, CustomObject):
        return iter((("metadata", "metadata"),))
    return zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)


class _WatchedFields(View):
    """An object some fields of which are watched. Not one of its type: code that reads objects without Python's knowledge refuses it."""

    __slots__ = ("_note", "_places", "_target")

    def __init__(self, target: Any, places: Mapping[str, int], note: Callable[[int], None]) -> None:
        for name, value in (("_target", target), ("_places", places), ("_note", note)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self._places:
            self._note(self._places[name])
        return getattr(self._target, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._target, name, value)

    def __eq__(self, other: object) -> bool:
        self._note_all()
        return bool(self._target == other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        self._note_all()
        return repr(self._target)

    def seen(self) -> Any:
        self._note_all()
        return self._target

    def _note_all(self) -> None:
        for place in self._places.values():
            self._note(place)


class _WatchedValues(View, MutableMapping[str, str]):
    """Labels or annotations, some values of which are watched."""

    __slots__ = ("_note", "_places", "_target")

    def __init__(self, target: dict[str, str], places: Mapping[str, int], note: Callable[[int], None]) -> None:
        self._target, self._places, self._note = target, places, note

    def __getitem__(self, key: str) -> str:
        value = self._target[key]
        if key in self._places:
            self._note(self._places[key])
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._target

    def __setitem__(self, key: str, value: str) -> None:
        self._target[key] = value

    def __delitem__(self, key: str) -> None:
        del self._target[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._target)

    def __len__(self) -> int:
        return len(self._target)

    def seen(self) -> Any:
        return {**self}

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**other, **self}


def _target(value: Any) -> Any:
    """What is watched, of what may be."""
    return value._target if type(value) in (_WatchedFields, _WatchedValues) else value

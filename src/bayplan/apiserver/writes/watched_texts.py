"""A pod whose open texts are watched: whoever looks at one of them is found out, while what they belong to can be read and changed as usual.

pod.metadata ─ .labels["app"]         noted      pod.spec.containers[0].env[2].value   noted
             ─ "app" in .labels       not noted                              .name    not noted
             ─ .name                  noted      msgspec.json.encode(pod)              refused, since it would read them unseen
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Final

from bayplan.api.types import core_v1
from bayplan.apiserver.writes.body_texts import OpenTexts

_NAME_FIELDS: Final = ("name", "generate_name")


class WatchedTexts:
    """The open texts of a pod that somebody else is about to change."""

    def __init__(self, pod: core_v1.Pod, open_texts: OpenTexts) -> None:
        self.read: set[int] = set()
        """Which texts were looked at, as indices into all texts; -1 for a name that the body does not have."""
        self._pod = pod
        self._metadata = metadata = pod.metadata
        self._labels, self._annotations = metadata.labels, metadata.annotations
        self._fields: list[_WatchedFields] = []
        metadata.labels = self._values(metadata.labels, open_texts.labels)
        metadata.annotations = self._values(metadata.annotations, open_texts.annotations)
        pod.metadata = self._of(metadata, dict.fromkeys(_NAME_FIELDS, open_texts.name))
        for attribute in {one.attribute for one in open_texts.variables}:
            for number, container in enumerate(getattr(pod.spec, attribute)):
                at = {
                    one.position: one.text
                    for one in open_texts.variables
                    if one.attribute == attribute and one.container == number
                }
                container.env = tuple(
                    [
                        self._of(each, {"value": at[index]}) if index in at else each
                        for index, each in enumerate(container.env)
                    ]
                )
        for number, text in open_texts.claims:
            volume = pod.spec.volumes[number]
            volume.persistent_volume_claim = self._of(volume.persistent_volume_claim, {"claim_name": text})
        if open_texts.group >= 0:
            pod.spec.scheduling_group = self._of(pod.spec.scheduling_group, {"pod_group_name": open_texts.group})

    def release(self) -> None:
        """Watch them no longer: the pod is as whoever changed it left it."""
        pod = self._pod
        pod.metadata = _released(pod.metadata)
        pod.metadata.labels = _plain(pod.metadata.labels)
        pod.metadata.annotations = _plain(pod.metadata.annotations)
        for container in (*pod.spec.containers, *pod.spec.init_containers):
            container.env = tuple(map(_released, container.env))
        for volume in pod.spec.volumes:
            volume.persistent_volume_claim = _released(volume.persistent_volume_claim)
        pod.spec.scheduling_group = _released(pod.spec.scheduling_group)

    def _values(self, texts: dict[str, str], places: Sequence[tuple[str, int]]) -> Any:
        return _WatchedValues(texts, dict(places), self.read.add) if places else texts

    def _of(self, target: Any, places: Mapping[str, int]) -> Any:
        return _WatchedFields(target, places, self.read.add)


class _WatchedFields:
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

    def _note_all(self) -> None:
        for place in self._places.values():
            self._note(place)


class _WatchedValues(MutableMapping[str, str]):
    """Labels or annotations, some values of which are watched."""

    __slots__ = ("_note", "_places", "_texts")

    def __init__(self, texts: dict[str, str], places: Mapping[str, int], note: Callable[[int], None]) -> None:
        self._texts, self._places, self._note = texts, places, note

    def __getitem__(self, key: str) -> str:
        value = self._texts[key]
        if key in self._places:
            self._note(self._places[key])
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __setitem__(self, key: str, value: str) -> None:
        self._texts[key] = value

    def __delitem__(self, key: str) -> None:
        del self._texts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __or__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**self, **other}

    def __ror__(self, other: Mapping[str, str]) -> dict[str, str]:
        return {**other, **self}


def _released(one: Any) -> Any:
    return one._target if type(one) is _WatchedFields else one


def _plain(texts: Any) -> dict[str, str]:
    return texts._texts if type(texts) is _WatchedValues else texts

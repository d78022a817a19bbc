"""The texts of a pod's body, told apart from all that stands between them, so that bodies which differ only in some of them are known to be alike.

    {"metadata":{"name":"a","labels":{"index":"7"}},"spec":{...,"image":"i"}}

    skeleton  {"metadata":{"name":_,"labels":{"index":_}},"spec":{...,"image":_}}
    texts     a, 7, i            open: the name, values of labels, annotations and environment, names of claims and of the group; fixed: all others

What is open decides nothing but itself: a valid value of a label is kept as it is, and no admission plugin looks at it (`watched_texts`). A text with escaped
characters belongs to the skeleton: without them a text ends at the next quote, and any other text without quotes in its place is again a text of the same
place. What stands between two texts of which the first ends with a colon looks like a text and is none: such bodies have no open texts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bayplan.api.types import core_v1
from bayplan.api.validation import formats
from bayplan.api.validation.pods.pod_warnings import pod_name_warnings

_TEXT: Final = re.compile(rb'(: ?")([^"\\]*)"')
_LABEL: Final = re.compile(rb"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?").fullmatch
_ANNOTATION: Final = re.compile(rb"[ -~]*").fullmatch
_VARIABLE: Final = re.compile(rb"[ -#%-~]+").fullmatch
"""No dollar, since a reference to another variable may give a warning; not empty, since that is not kept."""
_CLAIM: Final = re.compile(rb"[a-z0-9][a-z0-9.-]*").fullmatch
_READ_DOMAINS: Final = ("kubernetes.io", "k8s.io", "bayplan.dev")
"""Annotations under these may mean something to the server."""
_COPIES_LABELS: Final = b'LabelKeys"'
"""The end of the fields by which values of labels come into selectors."""
_CONTAINERS: Final = {"containers": "containers", "initContainers": "init_containers"}


class BodyTexts(NamedTuple):
    """A body in parts."""

    skeleton: tuple[bytes, bytes]
    """What stands between the texts, and how they are set apart from it."""
    texts: list[bytes]


class Variable(NamedTuple):
    """Where the value of an environment variable stands."""

    attribute: str
    """The list of containers."""
    container: int
    position: int
    text: int


class OpenTexts:
    """Which texts of a skeleton are open, as indices into them."""

    __slots__ = ("_count", "annotations", "claims", "fixed", "group", "labels", "name", "open", "variables")

    def __init__(
        self,
        count: int,
        name: int,
        labels: tuple[tuple[str, int], ...],
        annotations: tuple[tuple[str, int], ...],
        variables: tuple[Variable, ...],
        claims: tuple[tuple[int, int], ...],
        group: int,
    ) -> None:
        """count: of all texts. name, group: -1 if the body has none. claims: by place in the list of volumes."""
        self.name, self.labels, self.annotations, self.variables = name, labels, annotations, variables
        self.claims, self.group = claims, group
        self._count = count
        self.open = (
            *(at for _, at in labels),
            *(at for _, at in annotations),
            *(one.text for one in variables),
            *(at for _, at in claims),
            *((group,) if group >= 0 else ()),
        )
        """All but the name."""
        taken = {name, *self.open}
        self.fixed = tuple([at for at in range(count) if at not in taken])

    def without(self, read: Collection[int]) -> OpenTexts:
        """The same without texts that decide something."""
        return OpenTexts(
            self._count,
            -1 if self.name in read else self.name,
            tuple([one for one in self.labels if one[1] not in read]),
            tuple([one for one in self.annotations if one[1] not in read]),
            tuple([one for one in self.variables if one.text not in read]),
            tuple([one for one in self.claims if one[1] not in read]),
            -1 if self.group in read else self.group,
        )

    def are_valid(self, texts: Sequence[bytes]) -> bool:
        """Whether nothing is to be said against the open texts."""
        if self.name >= 0 and not is_valid_name(texts[self.name].decode(errors="replace")):
            return False
        if self.group >= 0 and formats.dns_subdomain(texts[self.group].decode(errors="replace")):
            return False
        return (
            all(_LABEL(texts[at]) for _, at in self.labels)
            and all(_ANNOTATION(texts[at]) for _, at in self.annotations)
            and all(_VARIABLE(texts[one.text]) for one in self.variables)
            and all(_CLAIM(texts[at]) for _, at in self.claims)
        )

    def are_in(self, pod: core_v1.Pod, texts: Sequence[bytes]) -> bool:
        """Whether a pod that was made of the texts has the open ones where they stood."""
        labels, annotations, spec = pod.metadata.labels, pod.metadata.annotations, pod.spec
        claims = [volume.persistent_volume_claim for volume in spec.volumes]
        group = spec.scheduling_group
        try:
            found = [
                *(labels.get(key) for key, _ in self.labels),
                *(annotations.get(key) for key, _ in self.annotations),
                *(getattr(spec, one.attribute)[one.container].env[one.position].value for one in self.variables),
                *(claim.claim_name if (claim := claims[at]) is not None else None for at, _ in self.claims),
                *((group.pod_group_name if group is not None else None,) if self.group >= 0 else ()),
            ]
        except IndexError:
            return False
        return found == [texts[at].decode() for at in self.open]


def texts_of(body: bytes) -> BodyTexts:
    """The parts of a body."""
    parts = _TEXT.split(body)
    return BodyTexts((b"\0".join(parts[::3]), b"".join(parts[1::3])), parts[2::3])


def open_texts_of(parts: BodyTexts) -> OpenTexts | None:
    """Which texts are open in bodies of this skeleton; None if it is no object."""
    marks = {f"~~text-{at}~~": at for at in range(len(parts.texts))}
    between, apart = parts.skeleton[0].split(b"\0"), parts.skeleton[1].split(b":")[1:]
    marked = [between[0]]
    for mark, before, after in zip(marks, apart, between[1:], strict=True):
        marked += [b":", before, mark.encode(), b'"', after]
    try:
        tree = msgspec.json.decode(b"".join(marked))
    except msgspec.DecodeError:
        return None
    metadata, spec = (_dict(_dict(tree).get(key)) for key in ("metadata", "spec"))
    labels = {} if _COPIES_LABELS in parts.skeleton[0] else _dict(metadata.get("labels"))
    annotations = {key: value for key, value in _dict(metadata.get("annotations")).items() if not _is_read(key)}
    return OpenTexts(
        len(marks),
        marks.get(_text(metadata.get("name")), -1),
        tuple([(key, marks[value]) for key, value in labels.items() if _text(value) in marks]),
        tuple([(key, marks[value]) for key, value in annotations.items() if _text(value) in marks]),
        tuple(_variables(spec, marks)),
        tuple(_claims(spec, marks)),
        marks.get(_text(_dict(spec.get("schedulingGroup")).get("podGroupName")), -1),
    )


def _variables(spec: dict[str, Any], marks: dict[str, int]) -> list[Variable]:
    return [
        Variable(attribute, number, index, marks[variable["value"]])
        for field, attribute in _CONTAINERS.items()
        for number, container in enumerate(_list(spec.get(field)))
        for index, variable in enumerate(_list(_dict(container).get("env")))
        if _text(_dict(variable).get("value")) in marks
    ]


def _claims(spec: dict[str, Any], marks: dict[str, int]) -> list[tuple[int, int]]:
    names = [
        _text(_dict(_dict(volume).get("persistentVolumeClaim")).get("claimName"))
        for volume in _list(spec.get("volumes"))
    ]
    return [(number, marks[name]) for number, name in enumerate(names) if name in marks]


def _is_read(annotation: str) -> bool:
    return annotation.partition("/")[0].endswith(_READ_DOMAINS)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def is_valid_name(name: str) -> bool:
    """Whether a name is one that pods may have, and gives no warning."""
    return not formats.dns_subdomain(name) and not pod_name_warnings(name)

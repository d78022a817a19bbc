"""ConversionReview: the question to a webhook that converts custom resources, and its answer.

A webhook may change labels and annotations; all other metadata stay as they are, whatever it says of them.
Source of the behaviour: Kubernetes' `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from bayplan.api.custom_resources.go_values import type_name
from bayplan.api.errors import FieldError
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.validation.fields import check_labels
from bayplan.api.validation.meta import check_annotations

Tree = dict[str, Any]
_GROUP = "apiextensions.k8s.io"
_KIND = "ConversionReview"
_VERSIONS = ("v1", "v1beta1")
_SUCCESS = "Success"


class FailureType(Enum):
    """What kind of failure it was, as metrics name it."""

    CALL = "conversion_webhook_call_failure"
    MALFORMED = "conversion_webhook_malformed_response_failure"
    PARTIAL = "conversion_webhook_partial_response_failure"
    INVALID_OBJECT = "conversion_webhook_invalid_converted_object_failure"


class ConversionError(Exception):
    """A webhook did not convert what it was asked to convert. The message is what Kubernetes says."""

    def __init__(self, message: str, failure_type: FailureType | None) -> None:
        super().__init__(message)
        self.failure_type = failure_type
        """None if the webhook was not even called."""


class Batch(NamedTuple):
    """Objects that are converted by one call."""

    objects: Sequence[Tree]
    """Not to be changed."""
    desired: str
    """The apiVersion that they are to have."""

    @property
    def named(self) -> str:
        """What messages call the objects: the kind of the first."""
        return f"conversion webhook for {shown_kind(self.objects[0])}"


def shown_kind(tree: Tree) -> str:
    """The kind of an object, as Go writes a GroupVersionKind."""
    api_version, kind = (_text(tree, name) for name in ("apiVersion", "kind"))
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def version_for(accepted: Sequence[str]) -> str:
    """The version of the review for a webhook that accepts these. Raises ConversionError."""
    for version in accepted:
        if version in _VERSIONS:
            return version
    raise ConversionError("no supported conversion review versions", None)


def question(version: str, uid: str, batch: Batch) -> bytes:
    """The review that is sent."""
    review = {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/{version}",
        "request": {"uid": uid, "desiredAPIVersion": batch.desired, "objects": batch.objects},
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }
    return msgspec.json.encode(review)


class _Result(msgspec.Struct, rename="camel"):
    status: str | None = None
    message: str | None = None


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    converted_objects: tuple[msgspec.Raw, ...] | None = None
    result: _Result | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


def read_answer(version: str, uid: str, data: bytes, batch: Batch) -> list[Tree]:
    """The converted objects in a webhook's body, each with the metadata that it has to have. Raises ConversionError."""
    try:
        converted = _converted(version, uid, data)
    except ValueError as error:
        raise ConversionError(f"{batch.named} failed: {error}", FailureType.MALFORMED) from error
    wanted = len(batch.objects)
    if len(converted) != wanted:
        text = f"{batch.named} returned {len(converted)} objects, expected {wanted}"
        raise ConversionError(text, FailureType.PARTIAL)
    found = []
    for index, (raw, original) in enumerate(zip(converted, batch.objects, strict=True)):
        try:
            found.append(_checked(bytes(raw), original, batch, index))
        except ValueError as error:
            raise ConversionError(str(error), FailureType.INVALID_OBJECT) from error
    return found


def _converted(version: str, uid: str, data: bytes) -> Sequence[msgspec.Raw]:
    """The objects in a review that says that all went well. Raises ValueError."""
    try:
        review = msgspec.json.decode(data, type=_Review)
    except (RecursionError, msgspec.DecodeError) as error:
        raise ValueError(f"couldn't get version/kind; json parse error: {error}") from error
    if version == "v1" and (review.api_version, review.kind) != (f"{_GROUP}/v1", _KIND):
        got = shown_kind({"apiVersion": review.api_version, "kind": review.kind})
        raise ValueError(f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {got}")
    response = review.response
    if response is None:
        raise ValueError("no response provided")
    if version == "v1" and response.uid != uid:
        raise ValueError(f'expected response.uid="{uid}", got "{response.uid}"')
    result = response.result or _Result()
    if result.status != _SUCCESS:
        raise ValueError(result.message or f"response.result.status was '{result.status or ''}', not 'Success'")
    return response.converted_objects or ()


def _checked(raw: bytes, original: Tree, batch: Batch, index: int) -> Tree:
    """A converted object, if it is one of the wanted version and still the same object. Raises ValueError."""
    is_single = len(batch.objects) == 1
    place = f"at index {index}"
    of_object = f"{batch.named} returned invalid {'object' if is_single else 'converted object'} {place}"
    try:
        tree = _unstructured(raw)
    except ValueError as error:
        raise error if is_single else ValueError(f"{of_object}: {error}") from error
    got = _text(tree, "apiVersion")
    if got != batch.desired:
        raise ValueError(f"{of_object}: invalid groupVersion (expected {batch.desired}, received {got})")
    kinds = _text(original, "kind"), _text(tree, "kind")
    if kinds[0] != kinds[1]:
        raise ValueError(f"{of_object}: invalid kind (expected {kinds[0]}, received {kinds[1]})")
    try:
        _check_identity(original, tree)
    except ValueError as error:
        shown = f"{batch.named} returned invalid object" if is_single else of_object
        raise ValueError(f"{shown}: {error}") from error
    try:
        return {**tree, "metadata": _metadata(original["metadata"], tree)}
    except ValueError as error:
        in_object = "" if is_single else f" in object {place}"
        raise ValueError(f"{batch.named} returned invalid metadata{in_object}: {error}") from error


def _unstructured(raw: bytes) -> Tree:
    """Raises ValueError for what is no object."""
    if raw == b"null":
        raise ValueError("unexpected end of JSON input")
    try:
        check_depth(bytes(raw))
        tree = msgspec.json.decode(raw)
    except (DepthError, msgspec.DecodeError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(tree, dict):
        raise ValueError(f"json: cannot unmarshal {type_name(tree)} into Go value of type map[string]interface {{}}")
    if not _text(tree, "kind"):
        raise ValueError(f"Object 'Kind' is missing in '{raw.decode(errors='replace')}'")
    return tree


def _text(tree: Any, name: str) -> str:
    """A member that is a text; "" for anything else."""
    value = tree.get(name) if isinstance(tree, dict) else None
    return value if isinstance(value, str) else ""


def _check_identity(original: Tree, converted: Tree) -> None:
    """Raises ValueError if it is another object now."""
    was, now = original["metadata"], converted.get("metadata")
    for name, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = _text(was, name), _text(now, name)
        if before != after:
            raise ValueError(f"must have the same {shown}: {before} != {after}")


def _metadata(was: Tree, converted: Tree) -> Tree:
    """The metadata of an object as they were, with the labels and annotations that a webhook gives it. Raises ValueError."""
    if "metadata" not in converted:
        raise ValueError("missing metadata in converted object")
    given = converted["metadata"]
    if not isinstance(given, dict):
        raise ValueError(f"invalid metadata of type {type_name(given)} in converted object")
    found = {name: value for name, value in was.items() if name not in _FREE}
    for name in _FREE:
        texts = given.get(name)
        if texts is None:
            continue
        if not isinstance(texts, dict):
            raise ValueError(f"invalid metadata.{name} of type {type_name(texts)} in converted object")
        for key, value in texts.items():
            if not isinstance(value, str):
                text = f"must be a string, but is {type_name(value)} in converted object"
                raise ValueError(f"metadata.{name}[{key}] {text}")
        if texts != was.get(name, {}):
            _check_texts(name, texts)
        found[name] = texts
    return found


_FREE = ("labels", "annotations")
"""What a webhook may change of metadata."""


def _check_texts(name: str, texts: dict[str, str]) -> None:
    """Raises ValueError if these cannot be labels, or annotations."""
    errors: list[FieldError] = []
    if name == "labels":
        check_labels(errors, "metadata.labels", texts)
    else:
        check_annotations(errors, "metadata.annotation", texts)
    if errors:
        shown = list(dict.fromkeys(map(str, errors)))
        raise ValueError(shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]")


def without_revision(tree: Tree) -> Tree:
    """An object as the store has it: without resourceVersion. The rest is shared."""
    metadata = {name: value for name, value in tree["metadata"].items() if name != "resourceVersion"}
    return {**tree, "metadata": metadata}

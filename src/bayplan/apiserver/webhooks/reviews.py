"""AdmissionReview: the question to a webhook and its answer.

Source of the behaviour: Kubernetes' `apiserver/pkg/admission/plugin/webhook/request`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.api.errors import ApiError, failure
from bayplan.api.json.nesting import DepthError, check_depth
from bayplan.api.types import meta_v1
from bayplan.apiserver.requests import User

Tree = dict[str, Any]
_GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_BAD_REQUEST = 400


class ReviewError(ValueError):
    """A webhook cannot be asked, or its answer is none."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a request is about, in one version."""

    group: str
    version: str
    kind: str
    plural: str
    api_version: str = ""
    """Of the kind, if it is not that of the resource: a Scale of Deployments is of `autoscaling/v1`."""

    def kind_tree(self) -> Tree:
        """As a GroupVersionKind."""
        group, version = self.group, self.version
        if self.api_version:
            group, _, version = self.api_version.rpartition("/")
        return {"group": group, "version": version, "kind": self.kind}

    def resource_tree(self) -> Tree:
        """As a GroupVersionResource."""
        return {"group": self.group, "version": self.version, "resource": self.plural}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, before a webhook has been chosen."""

    requested: Resource
    subresource: str
    name: str
    namespace: str
    operation: str
    user: User
    dry_run: bool
    options: Tree | None
    """None for connections."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a webhook says."""

    allowed: bool
    patch: Sequence[Tree] = ()
    """Operations of a JSON patch."""
    warnings: Sequence[str] = ()
    status: meta_v1.Status | None = None
    """Why it refuses."""
    audit_annotations: Mapping[str, str] = field(default_factory=dict)
    """What it wants noted in the audit log."""


def version_for(accepted: Sequence[str]) -> str:
    """The version of the review for a webhook that accepts these. Raises ReviewError."""
    for version in accepted:
        if version in _VERSIONS:
            return version
    raise ReviewError(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )


def question(version: str, uid: str, asked: Question, seen: Resource, obj: Tree | None, old: Tree | None) -> bytes:
    """The review that is sent. seen: the resource in the version that the webhook wants, in which the objects are."""
    user = asked.user
    request = {
        "uid": uid,
        "kind": seen.kind_tree(),
        "resource": seen.resource_tree(),
        "requestKind": asked.requested.kind_tree(),
        "requestResource": asked.requested.resource_tree(),
        "name": asked.name,
        "namespace": asked.namespace,
        "operation": asked.operation,
        "userInfo": {
            "username": user.name,
            **({"uid": user.uid} if user.uid else {}),
            **({"groups": list(user.groups)} if user.groups else {}),
            **({"extra": {key: list(values) for key, values in user.extra.items()}} if user.extra else {}),
        },
        "object": obj,
        "oldObject": old,
        "dryRun": asked.dry_run,
        "options": asked.options,
    }
    if asked.subresource:
        request |= {"subResource": asked.subresource, "requestSubResource": asked.subresource}
    if not asked.namespace:
        del request["namespace"]
    if not asked.name:
        del request["name"]
    return msgspec.json.encode({"kind": "AdmissionReview", "apiVersion": f"{_GROUP}/{version}", "request": request})


class _Response(msgspec.Struct, rename="camel"):
    uid: str = ""
    allowed: bool = False
    status: Tree | None = None
    patch: str | None = None
    patch_type: str | None = None
    warnings: tuple[str, ...] | None = None
    audit_annotations: dict[str, str] | None = None


class _Review(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _Response | None = None


def read_answer(version: str, uid: str, data: bytes, *, mutating: bool) -> Answer:
    """The answer in a webhook's body. Raises ReviewError."""
    try:
        check_depth(data)
        review = msgspec.json.decode(data, type=_Review)
    except (DepthError, msgspec.DecodeError) as error:
        raise ReviewError(f"failed to call webhook: couldn't get version/kind; json parse error: {error}") from error
    response = review.response
    if response is None:
        raise _invalid("webhook response was absent")
    if version == "v1":
        _check(review, response, uid, mutating=mutating)
    status = None
    if not response.allowed:
        try:
            status = msgspec.convert(response.status or {}, meta_v1.Status)
        except msgspec.ValidationError as error:
            raise _invalid(f"status: {error}") from error
    operations = _operations(response) if mutating and response.patch else ()
    return Answer(response.allowed, operations, response.warnings or (), status, response.audit_annotations or {})


def _check(review: _Review, response: _Response, uid: str, *, mutating: bool) -> None:
    """What version 1 asks of an answer. Raises ReviewError."""
    if response.uid != uid:
        raise _invalid(f'expected response.uid="{uid}", got "{response.uid}"')
    if (review.api_version, review.kind) != (f"{_GROUP}/v1", "AdmissionReview"):
        group, _, version = review.api_version.rpartition("/")
        found = f"{group}/{version}, Kind={review.kind}"
        raise _invalid(f"expected webhook response of {_GROUP}/v1, Kind=AdmissionReview, got {found}")
    if mutating:
        if response.patch and response.patch_type is None:
            raise _invalid("webhook returned response.patch but not response.patchType")
        if not response.patch and response.patch_type is not None:
            raise _invalid("webhook returned response.patchType but not response.patch")
        if response.patch_type not in (None, "JSONPatch"):
            raise ReviewError(f'unsupported patch type "{response.patch_type}"')
    elif response.patch:
        raise _invalid("validating webhook may not return response.patch")
    elif response.patch_type is not None:
        raise _invalid("validating webhook may not return response.patchType")


def _operations(response: _Response) -> list[Tree]:
    try:
        patch = base64.b64decode(response.patch or "", validate=True)
        check_depth(patch)
        decoded = msgspec.json.decode(patch, type=list[Tree])
    except (binascii.Error, DepthError, msgspec.DecodeError) as error:
        raise ReviewError(f"received undecodable patch in webhook response: {error}") from error
    return decoded


def _invalid(what: str) -> ReviewError:
    return ReviewError(f"received invalid webhook response: {what}")


def refusal(webhook: str, status: meta_v1.Status | None) -> ApiError:
    """The answer to the client of a request that a webhook refuses."""
    denied = f'admission webhook "{webhook}" denied the request'
    given = status or meta_v1.Status()
    because = given.message or given.reason
    text = f"{denied}: {because}" if because else f"{denied} without explanation"
    error = failure(max(given.code or 0, _BAD_REQUEST), given.reason, text, details=False)
    error.status.details = given.details
    return error

"""A request as policies and webhooks see it: in the version that they want, and as what a subresource takes."""

from __future__ import annotations

from typing import Any

from bayplan.api.codec import to_tree
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.kinds import Kind
from bayplan.api.strategies import strategy_for
from bayplan.apiserver.admission.chain import AdmissionRequest
from bayplan.apiserver.webhooks.reviews import Resource, Tree


def is_whole(request: AdmissionRequest) -> bool:
    """Whether the object is one of the kind, not of something that a subresource takes (a Binding, an Eviction)."""
    subject = request.obj if request.obj is not None else request.old
    return subject is None or isinstance(subject, request.kind.type)


def resource_of(request: AdmissionRequest, kind: Kind) -> Resource:
    """What a request is about in a version: the subresource's own kind, where it has one."""
    subresource = kind.subresource(request.subresource) if request.subresource else None
    if subresource is None or not subresource.kind or is_whole(request):
        return Resource(kind.group, kind.version, kind.kind, kind.plural)
    group, version = (subresource.group, subresource.version) if subresource.version else (kind.group, kind.version)
    return Resource(kind.group, kind.version, subresource.kind, kind.plural, f"{group}/{version}".lstrip("/"))


def in_version(request: AdmissionRequest, obj: Any, kind: Kind) -> Tree | None:
    """An object in a version of its kind; None for none."""
    if obj is None:
        return None
    if not is_whole(request):
        return dict(to_tree(obj))
    served = obj if kind is request.kind else request.call.convert(obj, request.kind, kind)
    return {"kind": kind.kind, "apiVersion": kind.api_version, **to_tree(served)}


def take_over(request: AdmissionRequest, new: Any, kind: Kind) -> None:
    """Make the object of the request what somebody wants it to be: `new`, of a version of its kind, defaulted."""
    obj = request.obj
    if is_whole(request):
        if kind is not request.kind:
            strategy_for(kind).default(new)
            new = request.call.convert(new, kind, request.kind)
        request.call.strategy.default(new)
    new.kind, new.api_version = obj.kind, obj.api_version
    names = ("metadata", "content") if isinstance(obj, CustomObject) else obj.__struct_fields__
    for name in names:
        setattr(obj, name, getattr(new, name))

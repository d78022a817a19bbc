"""LimitRanger: limit ranges of a namespace give containers default requests and limits, and bound what containers, pods and claims may ask for.

Source: plugin `LimitRanger` of kube-apiserver. Pods are looked at when they are created or resized; claims whenever they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.limits import claim_violations, fill_in, pod_violations
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest

ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(AdmissionPlugin):
    """See the module."""

    name = "LimitRanger"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if kind.group or operation not in (CREATE, UPDATE):
            return False
        if kind.kind == "Pod":
            return subresource == "resize" if operation == UPDATE else not subresource
        return kind.kind == "PersistentVolumeClaim" and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Fill in the resources that containers leave out, and say so in an annotation."""
        if request.kind.kind != "Pod":
            return
        for limit_range in _limit_ranges(request):
            told = fill_in(request.obj.spec, limit_range)
            if told:
                request.obj.metadata.annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(told)}"

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse what is out of bounds."""
        for limit_range in _limit_ranges(request):
            spec = request.obj.spec
            if request.kind.kind == "Pod":
                found = pod_violations(limit_range, spec)
            else:
                found = claim_violations(limit_range, spec)
            if found:
                detail = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                raise forbidden_error(request.call.kind.plural, "", request.name, detail)


def _limit_ranges(request: AdmissionRequest) -> Iterator[core_v1.LimitRange]:
    """The limit ranges of the namespace, in order of name; none for an object that is on its way out."""
    context: Any = request.call.context
    kind = context.kinds.of_kind("v1", "LimitRange")
    if kind is None:
        return
    cache = context.objects.cache(kind)
    bucket = cache.buckets.get(request.namespace)
    if bucket is None or (request.old is not None and request.obj.metadata.deletion_timestamp is not None):
        return
    for entry in bucket.ordered():
        yield cache.shared(entry)

"""PodTolerationRestriction: annotations of the namespace give tolerations to its pods, and say which ones they may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api.errors import forbidden_error, internal_error
from bayplan.api.kinds import Kind
from bayplan.api.pods.tolerations import merged, within
from bayplan.api.types.core_v1 import Toleration
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.namespaces.lookups import namespace_annotations

DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
ALLOWED = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
_MEMORY_PRESSURE = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoSchedule")
_decode = msgspec.json.Decoder(tuple[Toleration, ...]).decode


class PodTolerationRestriction(AdmissionPlugin):
    """See the module. Its configuration has the tolerations of namespaces without annotations."""

    name = "PodTolerationRestriction"

    def __init__(self) -> None:
        self._default: tuple[Toleration, ...] = ()
        self._allowed: tuple[Toleration, ...] = ()

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take `default` and `whitelist`. Raises ValueError."""
        self._default = msgspec.convert(configuration.get("default") or [], tuple[Toleration, ...])
        self._allowed = msgspec.convert(configuration.get("whitelist") or [], tuple[Toleration, ...])

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the namespace's tolerations, and that of memory pressure to pods that ask for memory."""
        spec = request.obj.spec
        found = spec.tolerations
        if request.old is None:
            extra = _annotated(request, DEFAULTS)
            found = merged(self._default if extra is None else extra, found)
        if request.obj.status.qos_class not in ("", "BestEffort"):
            found = merged(found, (_MEMORY_PRESSURE,))
        spec.tolerations = found

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse tolerations that the namespace does not allow."""
        allowed = _annotated(request, ALLOWED)
        bounds = self._allowed if allowed is None else allowed
        if not within(request.obj.spec.tolerations, bounds):
            detail = (
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace "
                "whitelist"
            )
            raise forbidden_error("pods", "", request.name, detail)


def _annotated(request: AdmissionRequest, key: str) -> tuple[Toleration, ...] | None:
    """The tolerations in an annotation of the namespace; None if it has none."""
    text = namespace_annotations(request).get(key)
    if text is None:
        return None
    try:
        return _decode(text) if text else ()
    except msgspec.DecodeError as error:
        raise internal_error(f"annotation {key} of namespace {request.namespace}: {error}") from error

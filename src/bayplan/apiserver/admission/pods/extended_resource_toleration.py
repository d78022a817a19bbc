"""ExtendedResourceToleration: pods that ask for a device tolerate the taint that keeps other pods from nodes that have it."""

from __future__ import annotations

from bayplan.api.kinds import Kind
from bayplan.api.pods.tolerations import merged
from bayplan.api.types.core_v1 import Toleration
from bayplan.api.validation.resources import is_extended
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest


class ExtendedResourceToleration(AdmissionPlugin):
    """See the module."""

    name = "ExtendedResourceToleration"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation in (CREATE, UPDATE) and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the tolerations."""
        spec = request.obj.spec
        names = {name for one in spec.init_containers + spec.containers for name in one.resources.requests}
        added = [
            Toleration(key=name, operator="Exists", effect="NoSchedule") for name in sorted(names) if is_extended(name)
        ]
        if added:
            spec.tolerations = merged(spec.tolerations, added)

"""DefaultIngressClass: an ingress that names no class gets the default one, the newest if there are several."""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.default_storage_class import newest_default

DEFAULT_ANNOTATION = "ingressclass.kubernetes.io/is-default-class"
CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class DefaultIngressClass(AdmissionPlugin):
    """See the module."""

    name = "DefaultIngressClass"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        is_ingress = kind.group == "networking.k8s.io" and kind.kind == "Ingress"
        return is_ingress and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Name the class."""
        ingress = request.obj
        if ingress.spec.ingress_class_name is not None or CLASS_ANNOTATION in ingress.metadata.annotations:
            return
        context: Any = request.call.context
        kind = context.kinds.of_kind("networking.k8s.io/v1", "IngressClass")
        found = newest_default(context.objects.cache(kind), (DEFAULT_ANNOTATION,)) if kind is not None else None
        if found is not None:
            ingress.spec.ingress_class_name = found

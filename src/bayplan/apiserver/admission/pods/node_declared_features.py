"""NodeDeclaredFeatureValidator: a pod on a node is changed in no way that the node's kubelet cannot follow.

Source: Kubernetes' `plugin/pkg/admission/nodedeclaredfeatures`, on by default since 1.36.
"""

from __future__ import annotations

from bayplan.api.declared_features import features_of_change
from bayplan.api.errors import forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.types import core_v1
from bayplan.apiserver.admission.chain import UPDATE, AdmissionPlugin, AdmissionRequest


class NodeDeclaredFeatureValidator(AdmissionPlugin):
    """See the module."""

    name = "NodeDeclaredFeatureValidator"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation == UPDATE and subresource in ("", "resize")

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse changes that need a feature which the node does not declare."""
        new, old = request.obj, request.old
        if not new.spec.node_name or new.metadata.generation == old.metadata.generation:
            return
        required = features_of_change(new.spec, old.spec)
        if not required:
            return
        name = new.spec.node_name
        node: core_v1.Node | None = request.call.context.find("Node", "", name)
        if node is None:
            raise forbidden_error(request.call.kind.plural, "", request.name, f'node "{name}" not found')
        missing = ", ".join(each for each in required if each not in node.status.declared_features)
        if missing:
            text = f'pod update requires features {missing} which are not available on node "{name}"'
            raise forbidden_error(request.call.kind.plural, "", request.name, text)

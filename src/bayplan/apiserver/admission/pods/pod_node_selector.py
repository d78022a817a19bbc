"""PodNodeSelector: an annotation of the namespace says on which nodes its pods may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api.errors import forbidden_error, internal_error
from bayplan.api.kinds import Kind
from bayplan.apiserver.admission.chain import CREATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.namespaces.lookups import namespace_annotations

ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"
CONFLICT = "pod node label selector conflicts with its namespace node label selector"


class PodNodeSelector(AdmissionPlugin):
    """See the module. Its configuration has the selector of namespaces without the annotation and, per namespace, the labels that pods may ask for."""

    name = "PodNodeSelector"

    def __init__(self) -> None:
        self._default: dict[str, str] = {}
        self._allowed: dict[str, dict[str, str]] = {}

    def configure(self, configuration: Mapping[str, Any]) -> None:
        """Take `podNodeSelectorPluginConfig`. Raises ValueError."""
        selectors = dict(configuration.get("podNodeSelectorPluginConfig") or configuration)
        self._default = labels_of(str(selectors.pop("clusterDefaultNodeSelector", "") or ""))
        self._allowed = {name: labels_of(text) for name, text in selectors.items() if isinstance(text, str)}

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return kind.kind == "Pod" and not kind.group and operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> None:
        """Add the namespace's selector."""
        wanted = self._selector(request)
        own = request.obj.spec.node_selector
        if any(own.get(key, value) != value for key, value in wanted.items()):
            raise forbidden_error("pods", "", request.name, CONFLICT)
        if wanted:
            request.obj.spec.node_selector = {**own, **wanted}

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse a pod whose selector is not the namespace's, or not allowed there."""
        wanted, own = self._selector(request), request.obj.spec.node_selector
        if any(own.get(key, value) != value for key, value in wanted.items()):
            raise forbidden_error("pods", "", request.name, CONFLICT)
        allowed = self._allowed.get(request.namespace)
        if allowed and any(allowed.get(key) != value for key, value in own.items()):
            detail = "pod node label selector labels conflict with its namespace whitelist"
            raise forbidden_error("pods", "", request.name, detail)

    def _selector(self, request: AdmissionRequest) -> Mapping[str, str]:
        text = namespace_annotations(request).get(ANNOTATION)
        if text is None:
            return self._default
        try:
            return labels_of(text)
        except ValueError as error:
            raise internal_error(str(error)) from error


def labels_of(text: str) -> dict[str, str]:
    """`a=b,c=d` as a map. Raises ValueError."""
    found = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"invalid selector: {text}")
        found[key.strip()] = value.strip().removeprefix("=").strip()
    return found

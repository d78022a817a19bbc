"""NodeRestriction: nodes write only what is theirs. Off unless enabled; the other half of authorization mode Node.

Source: Kubernetes' `plugin/pkg/admission/noderestriction`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from bayplan.api.errors import ApiError, forbidden_error, not_found_error, quoted
from bayplan.api.kinds import Kind
from bayplan.api.pods.references import MIRROR, claim_names, config_map_names, secret_names
from bayplan.apiserver.admission.access.node_tokens import check_audience
from bayplan.apiserver.admission.chain import CREATE, DELETE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.authorization.node import LEASES, node_identity

_RESTRICTION = "node-restriction.kubernetes.io"
_OWN_LABELS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    )
)
_OWN_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


def refused(request: AdmissionRequest, text: str) -> ApiError:
    """403 with the words of the plugin."""
    return forbidden_error(request.kind.plural, request.kind.group, request.name, text)


class NodeRestriction(AdmissionPlugin):
    """See the module."""

    name = "NodeRestriction"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        return operation in (CREATE, UPDATE, DELETE) and (kind.group, kind.plural) in _CHECKS

    def admit(self, request: AdmissionRequest) -> None:
        """Refuse what is not the node's business."""
        is_node, node = node_identity(request.call.request.user)
        if not is_node:
            return
        if not node:
            user = quoted(request.call.request.user.name)
            raise refused(request, f"could not determine node from user {user}")
        _CHECKS[request.kind.group, request.kind.plural](request, node)


def _pod(request: AdmissionRequest, node: str) -> None:
    subresource = request.subresource
    if subresource == "status":
        _pod_status(request, node)
    elif subresource == "eviction":
        if _existing_pod(request, request.name).spec.node_name != node:
            raise refused(request, f"node {node} can only evict pods with spec.nodeName set to itself")
    elif subresource:
        text = f"unexpected pod subresource {quoted(subresource)}, only 'status' and 'eviction' are allowed"
        raise refused(request, text)
    elif request.operation == CREATE:
        _mirror_pod(request, node)
    elif request.operation == DELETE:
        if request.old.spec.node_name != node:
            raise refused(request, f"node {quoted(node)} can only delete pods with spec.nodeName set to itself")
    else:
        text = f'unexpected operation "{request.operation}", node {quoted(node)} can only create and delete mirror pods'
        raise refused(request, text)


def _existing_pod(request: AdmissionRequest, name: str) -> Any:
    pod = request.call.context.find("Pod", request.namespace, name)
    if pod is None:
        raise not_found_error("pods", "", name)
    return pod


def _mirror_pod(request: AdmissionRequest, node: str) -> None:
    pod, who = request.obj, f"node {quoted(node)}"
    if MIRROR not in pod.metadata.annotations:
        text = f"pod does not have {quoted(MIRROR)} annotation, {who} can only create mirror pods"
        raise refused(request, text)
    if pod.spec.node_name != node:
        raise refused(request, f"{who} can only create pods with spec.nodeName set to itself")
    _owner(request, node)
    referenced = (
        ("a service account", bool(pod.spec.service_account_name)),
        ("secrets", any(True for _ in secret_names(pod))),
        ("configmaps", any(True for _ in config_map_names(pod))),
        ("clustertrustbundles", _uses_trust_bundles(pod)),
        ("persistentvolumeclaims", any(True for _ in claim_names(pod))),
        ("resourceclaims", bool(pod.spec.resource_claims)),
    )
    for what, is_used in referenced:
        if is_used:
            raise refused(request, f"{who} can not create pods that reference {what}")


def _uses_trust_bundles(pod: Any) -> bool:
    return any(
        source.cluster_trust_bundle is not None
        for volume in pod.spec.volumes
        if volume.projected is not None
        for source in volume.projected.sources
    )


def _owner(request: AdmissionRequest, node: str) -> None:
    owners, who = request.obj.metadata.owner_references, f"node {quoted(node)}"
    if len(owners) > 1:
        raise refused(request, f"{who} can only create pods with a single owner reference set to itself")
    owner = owners[0] if owners else None
    if owner is None or (owner.api_version, owner.kind, owner.name) != ("v1", "Node", node):
        raise refused(request, f"{who} can only create pods with an owner reference set to itself")
    if not owner.controller:
        raise refused(request, f"{who} can only create pods with a controller owner reference set to itself")
    if owner.block_owner_deletion:
        raise refused(request, f"{who} must not set blockOwnerDeletion on an owner reference")
    call = request.call
    kind = call.context.kinds.of_kind("v1", "Node")
    assert kind is not None
    entry = call.context.objects.cache(kind).get("", node)
    if entry is None:
        raise not_found_error("nodes", "", node)
    if owner.uid != entry.uid:
        raise refused(request, f"node {node} UID mismatch: expected {owner.uid} got {entry.uid}")


def _pod_status(request: AdmissionRequest, node: str) -> None:
    who = f"node {quoted(node)}"
    if request.operation != UPDATE:
        raise refused(request, f'unexpected operation "{request.operation}"')
    new, old = request.obj, request.old
    if old.spec.node_name != node:
        raise refused(request, f"{who} can only update pod status for pods with spec.nodeName set to itself")
    if new.metadata.labels != old.metadata.labels:
        raise refused(request, f"{who} cannot update labels through pod status")
    if new.status.resource_claim_statuses != old.status.resource_claim_statuses:
        raise refused(request, f"{who} cannot update resource claim statues")
    if new.status.extended_resource_claim_status != old.status.extended_resource_claim_status:
        raise refused(request, f"{who} cannot update extended resource claim status")


def _node(request: AdmissionRequest, node: str) -> None:
    who = f"node {quoted(node)}"
    if request.name != node:
        raise refused(request, f"{who} is not allowed to modify node {quoted(request.name)}")
    if request.operation == CREATE:
        spec = request.obj.spec
        if spec.config_source is not None:
            raise refused(request, f"{who} is not allowed to create pods with a non-nil configSource")
        forbidden = _forbidden_labels(request.obj.metadata.labels, {})
        if forbidden:
            raise refused(request, f"{who} is not allowed to set the following labels: {', '.join(forbidden)}")
    if request.operation == UPDATE:
        new, old = request.obj, request.old
        if new.spec.config_source is not None and new.spec.config_source != old.spec.config_source:
            raise refused(request, f"{who} is not allowed to update configSource to a new non-nil configSource")
        if tuple(new.spec.taints) != tuple(old.spec.taints):
            raise refused(request, f"{who} is not allowed to modify taints")
        forbidden = _forbidden_labels(new.metadata.labels, old.metadata.labels)
        if forbidden:
            raise refused(request, f"is not allowed to modify labels: {', '.join(forbidden)}")


def _forbidden_labels(new: Mapping[str, str], old: Mapping[str, str]) -> list[str]:
    """Labels that changed and that a node may not change about itself."""
    changed = {key for key in {*new, *old} if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(label: str) -> bool:
    namespace = label.partition("/")[0] if "/" in label else ""
    if _within(namespace, _RESTRICTION):
        return True
    if not (_within(namespace, "kubernetes.io") or _within(namespace, "k8s.io")):
        return False
    return label not in _OWN_LABELS and not any(_within(namespace, one) for one in _OWN_NAMESPACES)


def _within(namespace: str, domain: str) -> bool:
    return namespace == domain or namespace.endswith(f".{domain}")


def _claim(request: AdmissionRequest, node: str) -> None:
    if request.subresource != "status":
        raise refused(request, "may only update PVC status")
    if request.operation != UPDATE:
        raise refused(request, f'unexpected operation "{request.operation}"')
    if _without_capacity(request.obj, request.old) != request.old:
        text = f"node {quoted(node)} is not allowed to update fields other than status.capacity and status.conditions"
        raise refused(request, text)


def _without_capacity(claim: Any, old: Any) -> Any:
    """The claim with what a node may write as it was before."""
    status = replace(
        claim.status,
        capacity=old.status.capacity,
        conditions=old.status.conditions,
        allocated_resource_statuses=old.status.allocated_resource_statuses,
        allocated_resources=old.status.allocated_resources,
    )
    metadata = replace(
        claim.metadata,
        resource_version=old.metadata.resource_version,
        managed_fields=old.metadata.managed_fields,
    )
    return replace(claim, status=status, metadata=metadata, kind=old.kind, api_version=old.api_version)


def _service_account(request: AdmissionRequest, node: str) -> None:
    if request.operation != CREATE or request.subresource != "token":
        return
    bound = request.obj.spec.bound_object_ref
    if bound is None or bound.api_version != "v1" or bound.kind != "Pod" or not bound.name:
        raise refused(request, "node requested token not bound to a pod")
    if not bound.uid:
        raise refused(request, "node requested token with a pod binding without a uid")
    pod = _existing_pod(request, bound.name)
    if bound.uid != pod.metadata.uid:
        text = (
            f"the UID in the bound object reference ({bound.uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise refused(request, text)
    if pod.spec.node_name != node:
        raise refused(request, "node requested token bound to a pod scheduled on a different node")
    problem = check_audience(request, pod)
    if problem:
        raise refused(request, problem)


def _lease(request: AdmissionRequest, node: str) -> None:
    if request.namespace != LEASES:
        raise refused(request, f'can only access leases in the "{LEASES}" system namespace')
    if request.name != node:
        raise refused(request, "can only access node lease with the same name as the requesting node")


def _csi_node(request: AdmissionRequest, node: str) -> None:
    if request.name != node:
        raise refused(request, "can only access CSINode with the same name as the requesting node")


def _slice(request: AdmissionRequest, node: str) -> None:
    if request.operation == CREATE and request.obj.spec.node_name != node:
        raise refused(request, "can only create ResourceSlice with the same NodeName as the requesting node")
    if request.operation == DELETE and request.old.spec.node_name != node:
        raise refused(request, "can only delete ResourceSlice with the same NodeName as the requesting node")


def _certificate(request: AdmissionRequest, node: str) -> None:
    if request.operation != CREATE or request.obj.spec.signer_name not in _SIGNERS:
        return
    from bayplan.apiserver.certificates import RequestError, parse_request

    try:
        common_name = parse_request(request.obj.spec.request).common_name
    except RequestError as error:
        raise refused(request, f"unable to parse csr: {error}") from None
    user = request.call.request.user.name
    if common_name != user:
        raise refused(request, f"can only create a node CSR with CN={user}")


_CHECKS: dict[tuple[str, str], Callable[[AdmissionRequest, str], None]] = {
    ("", "pods"): _pod,
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _claim,
    ("", "serviceaccounts"): _service_account,
    ("coordination.k8s.io", "leases"): _lease,
    ("storage.k8s.io", "csinodes"): _csi_node,
    ("resource.k8s.io", "resourceslices"): _slice,
    ("certificates.k8s.io", "certificatesigningrequests"): _certificate,
}

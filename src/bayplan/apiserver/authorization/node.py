"""The authorizer of mode Node: nodes do what nodes do, with what belongs to them.

Secrets, config maps, claims, volumes and the like may be read when a pod on the node needs them; leases, CSI nodes and the Node object when they have the
node's name; everything else follows fixed rules. The admission plugin NodeRestriction looks at what nodes write. Source: Kubernetes'
`plugin/pkg/auth/authorizer/node`.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.errors import quoted
from bayplan.api.kinds import KindTable
from bayplan.apiserver.authorization.attributes import Attributes
from bayplan.apiserver.authorization.interface import NO_OPINION, Decision, Verdict
from bayplan.apiserver.authorization.node_graph import NodeGraph
from bayplan.apiserver.authorization.rules import CompiledRule
from bayplan.apiserver.objects import ObjectStore
from bayplan.apiserver.requests import User

NODES, PREFIX = "system:nodes", "system:node:"
LEASES = "kube-node-lease"
_OWN = ("get", "create", "update", "patch", "delete")
_READ = ("get", "list", "watch")
_ALLOW = Verdict(Decision.ALLOW)


def node_identity(user: User) -> tuple[bool, str]:
    """Whether a user is a node, and which ("" if that cannot be told)."""
    if not user.name.startswith(PREFIX) or NODES not in user.groups:
        return False, ""
    return True, user.name[len(PREFIX) :]


def _no(reason: str) -> Verdict:
    return Verdict(Decision.NO_OPINION, reason)


class NodeAuthorizer:
    """See the module."""

    def __init__(self, objects: ObjectStore, kinds: KindTable) -> None:
        self._graph = NodeGraph(objects, kinds)
        self._rules: tuple[CompiledRule, ...] = ()
        self._special: dict[tuple[str, str], Callable[[str, Attributes], Verdict]] = {
            ("", "secrets"): self._readable,
            ("", "configmaps"): self._readable,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._single,
            ("resource.k8s.io", "resourceclaims"): self._single,
            ("storage.k8s.io", "volumeattachments"): self._single,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
        }

    def authorize(self, attributes: Attributes) -> Verdict:
        """Whether a node may do this; no opinion about everybody else."""
        is_node, node = node_identity(attributes.user)
        if not is_node:
            return NO_OPINION
        if not node:
            return _no(f"unknown node for user {quoted(attributes.user.name)}")
        special = self._special.get((attributes.group, attributes.resource)) if attributes.is_resource else None
        if special is not None:
            return special(node, attributes)
        return _ALLOW if any(rule.matches(attributes) for rule in self._node_rules()) else NO_OPINION

    def _node_rules(self) -> tuple[CompiledRule, ...]:
        if not self._rules:
            from bayplan.apiserver.bootstrap.role_table import node_rules

            self._rules = tuple(CompiledRule(rule) for rule in node_rules())
        return self._rules

    def _readable(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _READ:
            return _no("can only read resources of this type")
        if asked.subresource:
            return _no("cannot read subresource")
        if not asked.namespace:
            return _no("can only read namespaced object of this type")
        return self._related(node, asked)

    def _single(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb != "get":
            return _no("can only get individual resources of this type")
        if asked.subresource:
            return _no("cannot get subresource")
        return self._related(node, asked)

    def _claim(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource != "status":
            return self._single(node, asked)
        if asked.verb not in ("update", "patch"):
            return _no("can only get/update/patch this type")
        return self._related(node, asked)

    def _related(self, node: str, asked: Attributes) -> Verdict:
        if not asked.name:
            return _no("No Object name found")
        graph = self._graph
        if asked.resource == "pods":
            found = graph.has_pod(node, asked.namespace, asked.name)
        elif asked.resource == "persistentvolumes":
            found = graph.mounts(node, asked.name)
        elif asked.resource == "volumeattachments":
            found = graph.has_attachment(node, asked.name)
        elif asked.resource == "resourceslices":
            found = graph.has_slice(node, asked.name)
        else:
            found = graph.refers_to(node, asked.resource, asked.namespace, asked.name)
        return _ALLOW if found else _no(f"no relationship found between node '{node}' and this object")

    def _account(self, node: str, asked: Attributes) -> Verdict:
        """Accounts of the node's pods may be read, for plugins that log in to registries, and tokens of theirs be made."""
        if asked.verb == "get" and not asked.subresource:
            return self._readable(node, asked)
        return self._token(node, asked)

    def _token(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb != "create" or not asked.name:
            return _no("can only create tokens for individual service accounts")
        if asked.subresource != "token":
            return _no("can only create token subresource of serviceaccount")
        return self._related(node, asked)

    def _lease(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a node lease")
        if asked.namespace != LEASES:
            return _no(f'can only access leases in the "{LEASES}" system namespace')
        if asked.verb != "create" and asked.name != node:
            return _no("can only access node lease with the same name as the requesting node")
        return _ALLOW

    def _csi_node(self, node: str, asked: Attributes) -> Verdict:
        if asked.verb not in _OWN:
            return _no("can only get, create, update, patch, or delete a CSINode")
        if asked.subresource:
            return _no("cannot authorize CSINode subresources")
        if asked.verb != "create" and asked.name != node:
            return _no("can only access CSINode with the same name as the requesting node")
        return _ALLOW

    def _slice(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource:
            return _no("cannot authorize ResourceSlice subresources")
        if asked.verb == "create":
            return _ALLOW
        if asked.verb in ("get", "update", "patch", "delete"):
            return self._related(node, asked)
        if asked.verb in ("watch", "list", "deletecollection"):
            if asked.requires("spec.nodeName") == node:
                return _ALLOW
            return _no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        return _no(
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, "
            "deletecollection"
        )

    def _node(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource == "status" and asked.verb in ("update", "patch"):
            return _ALLOW
        if asked.subresource:
            return NO_OPINION
        if asked.verb in ("create", "update", "patch"):
            return _ALLOW
        if asked.verb not in _READ:
            return NO_OPINION
        if asked.name == node:
            return _ALLOW
        if not asked.name:
            return _no(f"node '{node}' cannot read all nodes, only its own Node object")
        return _no(f"node '{node}' cannot read '{asked.name}', only its own Node object")

    def _pod(self, node: str, asked: Attributes) -> Verdict:
        if asked.subresource == "status" and asked.verb in ("update", "patch"):
            return _ALLOW
        if asked.subresource == "eviction" and asked.verb == "create":
            return _ALLOW
        if asked.subresource:
            return NO_OPINION
        if asked.verb in ("create", "delete"):
            return _ALLOW
        if asked.verb == "get":
            return self._related(node, asked)
        if asked.verb not in ("list", "watch"):
            return NO_OPINION
        if asked.requires("spec.nodeName") == node:
            return _ALLOW
        if asked.name:
            return self._related(node, asked)
        return _no("can only list/watch pods with spec.nodeName field selector")

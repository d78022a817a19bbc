"""The one table of kinds. Routes, discovery, storage keys, client, informers and command line follow from a row.

Rows of built-in kinds are below; `KindTable.add` takes further ones (custom resources) at run time.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

METRICS_GROUP = "metrics.k8s.io"
"""Group of the figures that are made up when somebody asks for them."""
ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource such as `status` or `scale`."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    """Group of the object it takes and returns; "" with an empty version: that of the kind itself."""
    version: str = ""
    kind: str = ""
    """Kind of the object it takes and returns."""


def resource_of_key(key: str) -> tuple[str, str]:
    """Group and plural of the objects under a key of the store. Events are those of the core, whichever group serves them."""
    _, _, group, resource, *_ = (
        *key.split("/", 4),
        "",
        "",
        "",
    )  # fewer parts in a prefix, and in keys that are no objects
    return "" if group == "core" else group, resource


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind in one group version. Compared by identity: a table holds each row once."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    storage_version: str = ""
    """Version in which objects are kept; "" means this one."""
    storage_group: str | None = None
    """Group in which objects are kept; None means this one (events of `events.k8s.io` are kept as core events)."""
    module: str = ""
    """Module of `bayplan.api.types` that holds the struct; "" for kinds without one (figures, custom resources)."""
    asks_webhook: bool = False
    """Whether a webhook converts the objects between the versions of the kind, so that each request is worked on in its own version."""

    is_custom: ClassVar[bool] = False
    """Whether this is a version of a custom resource (`custom_resources.kinds.CustomKind`)."""

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The singular name, as discovery gives it."""
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these objects."""
        return self.kind + "List"

    @property
    def group_resource(self) -> str:
        """`pods`, `deployments.apps`, as messages name the resource."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_stored(self) -> bool:
        """Whether objects of this kind are kept (reviews and bindings are only answered)."""
        return "get" in self.verbs and self.plural != "componentstatuses" and self.group != METRICS_GROUP

    @functools.cached_property
    def type(self) -> Any:
        """The class of the objects; None for kinds that are only made up when somebody asks."""
        return getattr(importlib.import_module(f"bayplan.api.types.{self.module}"), self.kind) if self.module else None

    @functools.cached_property
    def storage_prefix(self) -> str:
        """Where objects are kept in the store, with the slash at the end."""
        group = self.group if self.storage_group is None else self.storage_group
        return f"/registry/{group or 'core'}/{self.plural}/"

    def storage_key(self, namespace: str, name: str) -> str:
        """The store's key of one object; see `resource_of_key`."""
        return f"{self.storage_prefix}{namespace}/{name}" if self.namespaced else f"{self.storage_prefix}{name}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource."""
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path += f"/namespaces/{namespace}"
        path += f"/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path

    @functools.cached_property
    def type_meta(self) -> bytes:
        """How the JSON of every object of this kind begins, up to and including the comma."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name, or None."""
        for row in self.subresources:
            if row.name == name:
                return row
        return None

    def __repr__(self) -> str:
        return f"<Kind {self.api_version} {self.kind}>"


STATUS = Subresource("status", ("get", "patch", "update"))
SCALE = Subresource("scale", ("get", "patch", "update"), "autoscaling", "v1", "Scale")
_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")

_CORE = (
    Kind("", "v1", "Binding", "bindings", True, verbs=("create",)),
    Kind("", "v1", "ComponentStatus", "componentstatuses", False, ("cs",), verbs=("get", "list")),
    Kind("", "v1", "ConfigMap", "configmaps", True, ("cm",)),
    Kind("", "v1", "Endpoints", "endpoints", True, ("ep",)),
    Kind("", "v1", "Event", "events", True, ("ev",)),
    Kind("", "v1", "LimitRange", "limitranges", True, ("limits",)),
    Kind(
        "", "v1", "Namespace", "namespaces", False, ("ns",),
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        subresources=(Subresource("finalize", ("update",)), STATUS),
    ),
    Kind("", "v1", "Node", "nodes", False, ("no",), subresources=(Subresource("proxy", _PROXY, kind="NodeProxyOptions"), STATUS)),
    Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, ("pvc",), subresources=(STATUS,)),
    Kind("", "v1", "PersistentVolume", "persistentvolumes", False, ("pv",), subresources=(STATUS,)),
    Kind(
        "", "v1", "Pod", "pods", True, ("po",), ("all",),
        subresources=(
            Subresource("attach", _CONNECT, kind="PodAttachOptions"),
            Subresource("binding", ("create",), kind="Binding"),
            Subresource("ephemeralcontainers", ("get", "patch", "update")),
            Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
            Subresource("exec", _CONNECT, kind="PodExecOptions"),
            Subresource("log", ("get",)),
            Subresource("portforward", _CONNECT, kind="PodPortForwardOptions"),
            Subresource("proxy", _PROXY, kind="PodProxyOptions"),
            Subresource("resize", ("get", "patch", "update")),
            STATUS,
        ),
    ),
    Kind("", "v1", "PodTemplate", "podtemplates", True),
    Kind("", "v1", "ReplicationController", "replicationcontrollers", True, ("rc",), ("all",), subresources=(SCALE, STATUS)),
    Kind("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), subresources=(STATUS,)),
    Kind("", "v1", "Secret", "secrets", True),
    Kind(
        "", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",),
        subresources=(Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),),
    ),
    Kind("", "v1", "Service", "services", True, ("svc",), ("all",), subresources=(Subresource("proxy", _PROXY, kind="ServiceProxyOptions"), STATUS)),
)  # fmt: skip

_EXTENSIONS = ("api-extensions",)
_GROUPS = (
    Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", False, (), _EXTENSIONS, subresources=(STATUS,)),
    Kind("apps", "v1", "ControllerRevision", "controllerrevisions", True),
    Kind("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), ("all",), subresources=(STATUS,)),
    Kind("apps", "v1", "Deployment", "deployments", True, ("deploy",), ("all",), subresources=(SCALE, STATUS)),
    Kind("apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), ("all",), subresources=(SCALE, STATUS)),
    Kind("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), ("all",), subresources=(SCALE, STATUS)),
    Kind("events.k8s.io", "v1", "Event", "events", True, ("ev",), storage_group="", storage_version="v1"),
    Kind("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False, verbs=("create",)),
    Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True, verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=("create",)),
    Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=("create",)),
    Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",), ("all",), subresources=(STATUS,)),
    Kind(
        "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, ("hpa",), ("all",),
        subresources=(STATUS,), storage_version="v2",
    ),
    Kind("batch", "v1", "CronJob", "cronjobs", True, ("cj",), ("all",), subresources=(STATUS,)),
    Kind("batch", "v1", "Job", "jobs", True, (), ("all",), subresources=(STATUS,)),
    Kind(
        "certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", False, ("csr",),
        subresources=(Subresource("approval", ("get", "patch", "update")), STATUS),
    ),
    Kind("networking.k8s.io", "v1", "IngressClass", "ingressclasses", False),
    Kind("networking.k8s.io", "v1", "Ingress", "ingresses", True, ("ing",), subresources=(STATUS,)),
    Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", False, ("ip",)),
    Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",)),
    Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, subresources=(STATUS,)),
    Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), subresources=(STATUS,)),
    Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
    Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", True),
    Kind("rbac.authorization.k8s.io", "v1", "Role", "roles", True),
    Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False),
    Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False),
    Kind("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True),
    Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, ("sc",)),
    Kind("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, subresources=(STATUS,)),
    Kind("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses", False, ("vac",)),
    Kind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", False, (), _EXTENSIONS),
    Kind("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False, (), _EXTENSIONS),
    Kind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, (), _EXTENSIONS),
    Kind(
        "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, (), _EXTENSIONS,
        subresources=(STATUS,),
    ),
    Kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False, (), _EXTENSIONS),
    Kind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, (), _EXTENSIONS),
    Kind(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False, ("crd", "crds"), _EXTENSIONS,
        subresources=(STATUS,),
    ),
    Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
    Kind("coordination.k8s.io", "v1", "Lease", "leases", True),
    Kind("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False),
    Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True),
    Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
    Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, subresources=(STATUS,)),
    Kind("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", True),
    Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False),
    Kind("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema", "flowschemas", False, subresources=(STATUS,)),
    Kind("flowcontrol.apiserver.k8s.io", "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations", False, subresources=(STATUS,)),
)  # fmt: skip


def _with_module(kind: Kind) -> Kind:
    return replace(kind, module=f"{kind.group.split('.')[0] or 'core'}_{kind.version}")


BUILT_IN = tuple(_with_module(kind) for kind in (*_CORE, *_GROUPS))
"""Every built-in kind that Kubernetes 1.36 serves by default, groups in order of discovery."""


class KindTable:
    """The kinds that one API server serves or one client knows."""

    def __init__(self, kinds: Iterable[Kind] = BUILT_IN) -> None:
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._by_type: dict[Any, Kind] = {}
        self._unserved: dict[tuple[str, str, str], Kind] = {}
        """Versions in which objects are kept but not served."""
        self.changes = 0
        """How often a kind was added or taken out: what is made of the table is of this state."""
        for kind in kinds:
            self.add(kind)
        if isinstance(kinds, KindTable):
            self._unserved |= kinds._unserved

    def add(self, kind: Kind, *, is_served: bool = True) -> None:
        """Add a kind; one of the same group, version and plural is replaced. One that is not served is known only as that of the store."""
        self.changes += 1
        if not is_served:
            self._unserved[kind.group, kind.version, kind.plural] = kind
            return
        self._by_resource[kind.group, kind.version, kind.plural] = kind
        self._by_kind[kind.api_version, kind.kind] = kind

    def remove(self, kind: Kind) -> None:
        """Take a kind out, if it is there."""
        self.changes += 1
        key = kind.group, kind.version, kind.plural
        if self._by_resource.get(key) is kind:
            del self._by_resource[key]
        if self._by_kind.get((kind.api_version, kind.kind)) is kind:
            del self._by_kind[kind.api_version, kind.kind]
        if self._unserved.get(key) is kind:
            del self._unserved[key]

    def built_in(self) -> KindTable:
        """A table of its own with the kinds that are not custom."""
        table = KindTable(kind for kind in self if not kind.is_custom)
        for kind in self._unserved.values():
            if not kind.is_custom:
                table.add(kind, is_served=False)
        return table

    def stored(self) -> list[Kind]:
        """The kinds in whose versions objects are kept, whether these are served or not."""
        return list(dict.fromkeys(self.storage_kind(kind) for kind in self if kind.is_stored))

    def one_of_each(self) -> list[Kind]:
        """The served kinds whose objects are kept, each in one version: the one in which they are kept, if that is served."""
        found: dict[str, Kind] = {}
        for kind in self:
            if kind.is_stored and (kind.storage_prefix not in found or self.storage_kind(kind) is kind):
                found[kind.storage_prefix] = kind
        return list(found.values())

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())

    def of_resource(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind served at a path, or None."""
        return self._by_resource.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Kind | None:
        """The kind with this `apiVersion` and `kind`, or None."""
        return self._by_kind.get((api_version, kind))

    def named(self, name: str) -> Kind:
        """The kind that people mean: kind, plural (with or without group), singular or short name, in any case. Raises KeyError."""
        wanted = name.lower()
        for kind in self:
            if wanted in (kind.plural, kind.singular, kind.group_resource, *kind.short_names):
                return kind
        raise KeyError(name)

    def of_type(self, cls: Any) -> Kind:
        """The row of a class of objects. Raises KeyError if the class is not the type of a kind."""
        custom: Kind | None = getattr(cls, "row", None)  # those know it
        if custom is not None:
            return custom
        kind = self._by_type.get(cls)
        if kind is None:
            if not isinstance(cls, type):
                raise KeyError(f"{cls!r} is not the type of a kind; such a type is core_v1.Pod of bayplan.api.types")
            module = cls.__module__.rpartition(".")[2]
            for row in self:
                if row.kind == cls.__name__ and row.module == module:
                    kind = self._by_type[cls] = row
                    return row
            raise KeyError(f"{cls!r} is not the type of a kind")
        return kind

    def storage_kind(self, kind: Kind) -> Kind:
        """The row in whose version objects of this kind are kept."""
        group = kind.group if kind.storage_group is None else kind.storage_group
        key = group, kind.storage_version or kind.version, kind.plural
        return self._by_resource.get(key) or self._unserved[key]

    def has_built_in_group(self, group: str) -> bool:
        """Whether a group is one of the server's own. Those of custom resources are as if they were not there, but for these resources."""
        return any(kind.group == group and not kind.is_custom for kind in self)

    def groups(self) -> dict[str, list[str]]:
        """Group -> versions, both in order of preference."""
        found: dict[str, list[str]] = {}
        custom: dict[str, list[str]] = {}
        for kind in self:
            versions = (custom if kind.is_custom else found).setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        for group in sorted(custom):
            found.setdefault(group, []).extend(sorted(custom[group], key=version_priority))
        return found


_STAGES = {"alpha": 2, "beta": 1, "": 0}


def version_priority(name: str) -> tuple[Any, ...]:
    """Sorts versions as clients prefer them: v10 before v2 before v2beta1 before v1alpha1; anything else comes last, in order of name."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", name)
    if found is None:
        return (1, name)
    return (0, _STAGES[found[2] or ""], -int(found[1]), -int(found[3] or 0))


DEFAULT_KINDS = KindTable()
"""The built-in kinds. Do not add to it: a server or client with further kinds makes a table of its own."""

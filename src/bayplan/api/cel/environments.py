"""What expressions of admission policies can refer to: the request, its namespace, who is asking, and the variables that a policy composes.

Sources: `k8s.io/apiserver/pkg/admission/plugin/cel`, compile.go and composition.go.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from bayplan.api.cel.checker import Environment
from bayplan.api.cel.library import patch_functions
from bayplan.api.cel.types import DYN, ERROR, STRING, Type, TypeKind, list_of, map_of, named_type, struct

AUTHORIZER = struct("kubernetes.authorization.Authorizer")
_VARIABLES = "kubernetes.variables"
_REQUEST = "kubernetes.AdmissionRequest"
_NAMESPACE = "kubernetes.Namespace"
_STRUCTS = {
    "kubernetes.GroupVersionKind": "group string; version string; kind string",
    "kubernetes.GroupVersionResource": "group string; version string; resource string",
    "kubernetes.UserInfo": "username string; uid string; groups list(string); extra map(string, list(string))",
    _REQUEST: (
        "kind kubernetes.GroupVersionKind; resource kubernetes.GroupVersionResource; subResource string;"
        " requestKind kubernetes.GroupVersionKind; requestResource kubernetes.GroupVersionResource;"
        " requestSubResource string; name string; namespace string; operation string; userInfo kubernetes.UserInfo;"
        " dryRun bool; options dyn"
    ),
    _NAMESPACE: (
        "metadata kubernetes.NamespaceMetadata; spec kubernetes.NamespaceSpec; status kubernetes.NamespaceStatus"
    ),
    "kubernetes.NamespaceMetadata": (
        "name string; generateName string; namespace string; labels map(string, string);"
        " annotations map(string, string); UID string; creationTimestamp timestamp; deletionGracePeriodSeconds int;"
        " deletionTimestamp timestamp; generation int; resourceVersion string; finalizers list(string)"
    ),
    "kubernetes.NamespaceSpec": "finalizers list(string)",
    "kubernetes.NamespaceStatus": "conditions list(kubernetes.NamespaceCondition); phase string",
    "kubernetes.NamespaceCondition": (
        "status string; type string; lastTransitionTime timestamp; message string; reason string"
    ),
}
"""What expressions see of a request and of a namespace: these are not the objects of the API."""


def for_requests(more: Environment) -> Environment:
    """An environment that knows requests and namespaces besides what is given."""
    variables = {"request": struct(_REQUEST), "namespaceObject": struct(_NAMESPACE), **more.variables}
    return Environment(variables, {**_fixed_structs(), **more.structs})


class _AnyFields(Mapping[str, Type]):
    """Fields of an object that may have any: all are `dyn`."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PatchStructs(Mapping[str, Mapping[str, Type]]):
    """Structs that patches are made of, besides others: `Object`, `Object.metadata` and the like have any fields, `JSONPatch` has four."""

    def __init__(self, others: Mapping[str, Mapping[str, Type]]) -> None:
        self._others = {**others, "JSONPatch": {"op": STRING, "path": STRING, "from": STRING, "value": DYN}}

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        return _AnyFields() if name == "Object" or name.startswith("Object.") else self._others[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._others)

    def __len__(self) -> int:
        return len(self._others)


def for_patches(environment: Environment) -> Environment:
    """An environment in which expressions can make patches. Source: `k8s.io/apiserver/pkg/cel/mutation`."""
    return Environment(environment.variables, _PatchStructs(environment.structs), patch_functions())


class Composed:
    """An environment that also has the variables of a policy, each of which sees those before it."""

    def __init__(self, more: Environment) -> None:
        self._fields: dict[str, Type] = {}
        whole = for_requests(more)
        self.environment = Environment(
            {**whole.variables, "variables": struct(_VARIABLES)}, {**whole.structs, _VARIABLES: self._fields}
        )

    def add(self, name: str, found: Type) -> None:
        """Add a variable whose expression evaluates to a type; what is wrong with it is told elsewhere."""
        self._fields[name] = _stored_type(found)


@functools.cache
def _fixed_structs() -> Mapping[str, Mapping[str, Type]]:
    return {name: dict(map(_named_field, text.split(";"))) for name, text in _STRUCTS.items()}


def _named_field(text: str) -> tuple[str, Type]:
    name, _, kind = text.strip().partition(" ")
    return name, named_type(kind)


def _stored_type(found: Type) -> Type:
    """The type of a variable: of structs and other named types nothing is kept."""
    if found.kind is TypeKind.LIST:
        return list_of(_stored_type(found.parameters[0]))
    if found.kind is TypeKind.MAP:
        return map_of(*map(_stored_type, found.parameters))
    if found == ERROR or found.kind in (TypeKind.STRUCT, TypeKind.OPAQUE, TypeKind.TYPE):
        return DYN
    return found

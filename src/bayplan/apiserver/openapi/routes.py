"""What the operations of OpenAPI documents are made of: routes with their parameters, bodies and responses.

Source of the behaviour: `k8s.io/apiserver/pkg/endpoints/installer.go` (names, texts and parameters of operations) and `endpoints/openapi` (operation IDs).
The rows are made by `openapi_builtin_routes` and `openapi_custom_routes`, and shown as version 2 or 3 by `openapi_paths`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bayplan.apiserver.openapi.facts import facts

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
JSON: Final = "application/json"
JSON_OR_YAML: Final = (JSON, "application/yaml")
ANY_FORM: Final = (*JSON_OR_YAML, "application/vnd.kubernetes.protobuf")
WATCH_FORMS: Final = (*ANY_FORM, "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
CUSTOM_PATCHES: Final = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
PATCHES: Final = (*CUSTOM_PATCHES[:2], "application/strategic-merge-patch+json", CUSTOM_PATCHES[2])
OK: Final = (200, "OK")
CREATED: Final = (201, "Created")
ACCEPTED: Final = (202, "Accepted")
STATUS: Final = META + "Status"
_VERBS: Final = ("connect", "create", "delete", "get", "list", "patch", "read", "replace", "watch")
_PLURAL = re.compile(r"(?<!s)s$")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a path or query."""

    name: str
    place: str
    """`path` or `query`."""
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Route:
    """One operation on one path."""

    path: str
    method: str
    """`get`, `post`, ... as documents name it."""
    operation: str
    """What it does and to what (`listNamespacedPod`); the operation ID has group and version in between."""
    description: str
    produces: tuple[str, ...]
    consumes: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    body: str = ""
    """Definition of the body; "" without one."""
    body_is_required: bool = True
    responses: tuple[tuple[int, str], ...] = (OK,)
    produced: str = ""
    """Definition of what comes back; "" for a string."""
    extensions: Mapping[str, object] = field(default_factory=dict)


PRETTY: Final = Parameter(
    "pretty", "query", "string",
    "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a browser or command-line HTTP tool (curl and wget).",
)  # fmt: skip
NAMESPACE: Final = Parameter(
    "namespace", "path", "string", "object name and auth scope, such as for teams and projects"
)
SUBPATH: Final = Parameter("path", "path", "string", "path to the resource")


def name_of(kind: str) -> Parameter:
    """The name of an object in a path."""
    return Parameter("name", "path", "string", f"name of the {kind}")


@functools.cache
def options(name: str, without: tuple[str, ...] = ()) -> tuple[Parameter, ...]:
    """The query parameters that are the fields of a type of options."""
    rows = facts().options[name]
    return tuple(Parameter(one, "query", *rows[one]) for one in rows if one not in without)


def extensions(action: str, group: str, version: str, kind: str) -> dict[str, object]:
    """Which verb this is, and on what."""
    gvk = {"group": group, "version": version, "kind": kind}
    return {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk}


def article(kind: str) -> str:
    """` a `, ` an `, or a space in front of what is a plural itself."""
    if _PLURAL.search(kind):
        return " "
    return " an " if kind[0] in "AEIOU" else " a "


def _identifier(text: str, *, capital: bool) -> str:
    """The letters, digits and underscores of a text, with a capital after everything else."""
    found = ""
    for index, one in enumerate(text):
        if one.isalpha() or one == "_" or (index and one.isdigit()):
            found += one.upper() if capital else one
            capital = False
        else:
            capital = True
    return found


def operation_id(route: Route) -> str:
    """`listCoreV1NamespacedPod` of the operation `listNamespacedPod` on a path of `/api/v1`."""
    (verb,) = (one for one in _VERBS if route.operation.startswith(one))
    middle = "".join(_identifier(one, capital=True) for one in _group_version(route.path))
    return verb + middle + _identifier(route.operation.removeprefix(verb), capital=True)


def tag(route: Route) -> str:
    """`apps_v1`, `core`, `version`."""
    parts = _group_version(route.path) or [route.path.split("/")[1]]
    return "_".join(_identifier(one, capital=False) for one in parts)


def _group_version(path: str) -> list[str]:
    """The group without its common ending and the version, as far as a path has them."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        parts = ["apis", "core", *parts[1:]]
    return [parts[1].removesuffix(".k8s.io"), *parts[2:3]] if parts[0] == "apis" and len(parts) > 1 else []

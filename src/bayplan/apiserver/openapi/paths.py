"""Routes as the paths of an OpenAPI document, version 2 or 3.

Source of the behaviour: `kube-openapi/pkg/builder` and `builder3`: parameters of every operation on a path are those of the path, all are sorted by name,
and version 2 shares the parameters that are not of a single kind.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from bayplan.apiserver.openapi.routes import Parameter, Route, operation_id, tag

Tree = dict[str, Any]
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
_UNSHARED: Final = ("name", "fieldValidation", "dryRun")
_GENERIC: Final = "io.k8s.apimachinery."
_ESCAPED = re.compile(rb"[<>&]|\xe2\x80[\xa8\xa9]")
_FNV_START: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def paths_v2(routes: Iterable[Route]) -> tuple[Tree, Tree]:
    """The paths of version 2, and the parameters that they share."""
    shown = _Parameters()
    paths = _paths(routes, lambda route, common: _operation_v2(route, common, shown), shown.of)
    return paths, {name: shown.shared[name] for name in sorted(shown.shared)}


def paths_v3(routes: Iterable[Route]) -> Tree:
    """The paths of version 3."""
    return _paths(routes, _operation_v3, _parameter_v3)


def _paths(
    routes: Iterable[Route], show: Callable[[Route, set[Parameter]], Tree], show_parameter: Callable[[Parameter], Tree]
) -> Tree:
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        by_path.setdefault(route.path, {})[route.method] = route
    paths: Tree = {}
    for path in sorted(by_path):
        operations = by_path[path]
        common = set.intersection(*(set(route.parameters) for route in operations.values()))
        item: Tree = {method: show(operations[method], common) for method in _METHODS if method in operations}
        if common:
            item["parameters"] = [show_parameter(one) for one in _sorted(common)]
        paths[path] = item
    return paths


def _sorted(parameters: Iterable[Parameter]) -> list[Parameter]:
    return sorted(parameters, key=lambda one: (one.name, one.place))


def _parameter_v2(one: Parameter) -> Tree:
    shown = {"uniqueItems": True, "type": one.type, "description": one.description, "name": one.name, "in": one.place}
    return {**shown, "required": True} if one.place == "path" else shown


def _parameter_v3(one: Parameter) -> Tree:
    required = {"required": True} if one.place == "path" else {}
    schema = {"type": one.type, "uniqueItems": True}
    return {"name": one.name, "in": one.place, "description": one.description, **required, "schema": schema}


class _Parameters:
    """The parameters of version 2 as operations show them: a reference where operations share one."""

    def __init__(self) -> None:
        self.shared: Tree = {}
        """Name -> parameter, of those that are referred to."""
        self._shown: dict[Parameter | tuple[str, bool], Tree] = {}

    def of(self, one: Parameter) -> Tree:
        """A parameter of a path or query."""
        found = self._shown.get(one)
        if found is None:
            shown = _parameter_v2(one)
            found = self._shown[one] = shown if one.name in _UNSHARED else self._reference(shown)
        return found

    def body(self, definition: str, *, is_required: bool) -> Tree:
        """The body of that definition; those of single kinds are not shared."""
        found = self._shown.get((definition, is_required))
        if found is None:
            required = {"required": True} if is_required else {}
            shown = {"name": "body", "in": "body", **required, "schema": {"$ref": f"#/definitions/{definition}"}}
            found = self._reference(shown) if definition.startswith(_GENERIC) else shown
            self._shown[definition, is_required] = found
        return found

    def _reference(self, shown: Tree) -> Tree:
        name = f"{shown['name']}-{_digest(shown)}"
        self.shared[name] = shown
        return {"$ref": f"#/parameters/{name}"}


def _digest(parameter: Tree) -> str:
    """The first 48 bits of the FNV-1 hash of a parameter's JSON, as Go writes that, in base 64."""
    text = _ESCAPED.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), msgspec.json.encode(parameter))
    value = _FNV_START
    for byte in text:
        value = value * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF ^ byte
    return base64.urlsafe_b64encode(value.to_bytes(8, "big")[:6]).decode()


def _operation_v2(route: Route, common: set[Parameter], shown: _Parameters) -> Tree:
    rest = _sorted(set(route.parameters) - common)
    own = [shown.of(one) for one in rest]
    if route.body:
        at = sum(one.name < "body" for one in rest)
        own.insert(at, shown.body(route.body, is_required=route.body_is_required))
    schema = {"$ref": f"#/definitions/{route.produced}"} if route.produced else {"type": "string"}
    responses = {str(code): {"description": text, "schema": schema} for code, text in route.responses}
    return {
        "description": route.description,
        **({"consumes": list(route.consumes)} if route.consumes else {}),
        "produces": list(route.produces),
        "schemes": ["https"],
        "tags": [tag(route)],
        "operationId": operation_id(route),
        **({"parameters": own} if own else {}),
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        **route.extensions,
    }


def _operation_v3(route: Route, common: set[Parameter]) -> Tree:
    own = [_parameter_v3(one) for one in _sorted(set(route.parameters) - common)]
    schema = {"$ref": f"#/components/schemas/{route.produced}"} if route.produced else {"type": "string"}
    content = {form: {"schema": schema} for form in sorted(route.produces)}
    responses: Tree = {str(code): {"description": text, "content": content} for code, text in route.responses}
    body: Tree = {}
    if route.body:
        taken = {form: {"schema": {"$ref": f"#/components/schemas/{route.body}"}} for form in sorted(route.consumes)}
        body = {"requestBody": {"content": taken, **({"required": True} if route.body_is_required else {})}}
    return {
        "tags": [tag(route)],
        "description": route.description,
        "operationId": operation_id(route),
        **({"parameters": own} if own else {}),
        **body,
        "responses": {**responses, "401": {"description": "Unauthorized"}},
        **route.extensions,
    }

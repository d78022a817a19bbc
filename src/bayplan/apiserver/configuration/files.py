"""Files of the group `apiserver.config.k8s.io` as structs, decoded as strictly as kube-apiserver does. Pure.

Versions of a kind have the same fields here; what differs between them is said where the kind is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import yaml

from bayplan.api.codec import json_type
from bayplan.api.errors import quoted
from bayplan.apiserver.writes.body_errors import head_problem
from bayplan.apiserver.yaml.documents import problem_text, repeated_keys, to_json
from bayplan.support.configuration import convert

GROUP: Final = "apiserver.config.k8s.io"
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
S = TypeVar("S", bound=msgspec.Struct)


class ConfigurationError(ValueError):
    """A file cannot be used; the message names the field."""


class ConfigurationStruct(msgspec.Struct, rename="camel", kw_only=True):
    """A part of a file."""


def read_file(data: bytes, kind: str, struct: type[S]) -> S:
    """The struct that a file (YAML or JSON) of a kind holds. Raises ConfigurationError."""
    if not data:
        raise ConfigurationError("empty config data")
    try:
        body, repeated = to_json(data), repeated_keys(data)
    except yaml.YAMLError as error:
        raise ConfigurationError(problem_text(error)) from None
    if problem := head_problem(body):
        raise ConfigurationError(problem)
    tree = msgspec.json.decode(body) or {}
    _check_head(tree, kind, data)
    if problem := _misfit(tree, struct, "", ""):
        raise ConfigurationError(problem)
    strange = [repeated] if repeated else []
    strange += [f'unknown field "{one}"' for one in _unknown(tree, struct, "") if one not in ("kind", "apiVersion")]
    if strange:
        raise ConfigurationError(f"strict decoding error: {', '.join(strange)}")
    try:
        return convert(_without_null(tree), struct)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(str(error)) from error


def _check_head(tree: Mapping[str, Any], kind: str, data: bytes) -> None:
    """Raises ConfigurationError for another kind."""
    found, version = tree.get("kind") or "", tree.get("apiVersion") or ""
    for value, name in ((found, "Kind"), (version, "apiVersion")):
        if not value:
            raise ConfigurationError(f"Object '{name}' is missing in '{data.decode(errors='replace')}'")
    if found != kind or version not in [f"{GROUP}/{one}" for one in VERSIONS]:
        known = " or ".join(f"{GROUP}/{one}" for one in VERSIONS)
        raise ConfigurationError(
            f"no kind {quoted(found)} is registered for version {quoted(version)}; expected {kind} of {known}"
        )


def _without_null(value: Any) -> Any:
    """A tree without fields that are null: they say nothing."""
    if isinstance(value, dict):
        return {key: _without_null(one) for key, one in value.items() if one is not None}
    return [_without_null(one) for one in value] if isinstance(value, list) else value


_GO_TYPES: Final = {str: "string", bool: "bool"}


def _misfit(tree: Any, kind: Any, path: str, holder: str) -> str:
    """What does not have the type of its field first, in Go's words; "" if nothing. path: the fields that lead here. holder: the struct of the last one."""
    kind = _without_none(kind)
    if tree is None:
        return ""
    found, wanted = "", _GO_TYPES.get(kind, "")
    if get_origin(kind) is tuple:
        if isinstance(tree, list):
            return next(filter(None, (_misfit(one, get_args(kind)[0], path, holder) for one in tree)), "")
        item = get_args(kind)[0]
        found, wanted = json_type(tree), f"[]{_GO_TYPES.get(item) or f'v1.{_go_name(item)}'}"
    elif issubclass(kind, msgspec.Struct):
        if isinstance(tree, dict):
            return next(filter(None, _field_misfits(tree, kind, path)), "")
        found, wanted = json_type(tree), f"v1.{_go_name(kind)}"
    elif wanted and not isinstance(tree, kind):
        found = json_type(tree)
    return f"json: cannot unmarshal {found} into Go struct field {holder}.{path} of type {wanted}" if found else ""


def _field_misfits(tree: Mapping[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    hints = get_type_hints(kind)
    known = {one.encode_name: hints[one.name] for one in msgspec.structs.fields(kind)}
    for name, value in tree.items():
        if name in known:
            yield _misfit(value, known[name], f"{path}.{name}" if path else name, _go_name(kind))


def _go_name(kind: type) -> str:
    return kind.__name__.replace("Jwt", "JWT")


def _without_none(kind: Any) -> Any:
    """The type of a field that may be missing."""
    if get_origin(kind) is Union or type(kind).__name__ == "UnionType":
        return next(one for one in get_args(kind) if one is not type(None))
    return kind


def _unknown(tree: Any, kind: Any, path: str) -> Iterator[str]:
    """The paths of fields that a type does not have."""
    kind = _without_none(kind)
    if get_origin(kind) is tuple and isinstance(tree, list):
        for index, one in enumerate(tree):
            yield from _unknown(one, get_args(kind)[0], f"{path}[{index}]")
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(tree, dict):
        hints = get_type_hints(kind)
        known = {one.encode_name: hints[one.name] for one in msgspec.structs.fields(kind)}
        for name, value in tree.items():
            here = f"{path}.{name}" if path else name
            if name in known:
                yield from _unknown(value, known[name], here)
            else:
                yield here

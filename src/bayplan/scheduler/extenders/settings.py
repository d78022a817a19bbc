"""The `extenders` of a scheduler configuration, read and checked."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from bayplan.api.errors import FieldError, invalid
from bayplan.api.selectors.labels import qualified_name_errors
from bayplan.scheduler.errors import SettingsError
from bayplan.scheduler.extenders.protocol import Extender, TlsSettings
from bayplan.scheduler.snapshot.resources import is_extended_resource
from bayplan.support.durations import go_seconds


def parse(items: Sequence[Any], path: str, errors: list[FieldError]) -> tuple[Extender, ...]:
    """All extenders, ignorable ones last; adds to `errors`. Raises SettingsError for what has the wrong form."""
    managed: set[str] = set()
    found = [_extender(item, f"{path}[{index}]", managed, errors) for index, item in enumerate(items)]
    binders = sum(bool(item.bind_verb) for item in found)
    if binders > 1:
        what = f"found {binders} extenders implementing bind"
        errors.append(invalid(path, what, "only one extender can implement bind"))
    return (*(item for item in found if not item.ignorable), *(item for item in found if item.ignorable))


def _extender(tree: Any, path: str, managed: set[str], errors: list[FieldError]) -> Extender:
    """One extender; `managed` are the resources that those before it manage, and takes its own in."""
    if not isinstance(tree, Mapping):
        raise SettingsError(path, f"must be an object, not {type(tree).__name__}")
    weight = tree.get("weight") or 0
    if tree.get("prioritizeVerb") and weight <= 0:
        errors.append(invalid(f"{path}.weight", weight, "must have a positive weight applied to it"))
    resources = list(tree.get("managedResources") or ())
    for index, item in enumerate(resources):
        name, where = item.get("name", ""), f"{path}.managedResources[{index}].name"
        _check_resource(name, where, errors)
        if name in managed:
            errors.append(invalid(where, name, "duplicate extender managed resource name"))
        managed.add(name)
    return Extender(
        tree.get("urlPrefix") or "",
        tree.get("filterVerb") or "",
        tree.get("preemptVerb") or "",
        tree.get("prioritizeVerb") or "",
        weight,
        tree.get("bindVerb") or "",
        bool(tree.get("enableHTTPS")),
        _tls(tree["tlsConfig"], f"{path}.tlsConfig") if tree.get("tlsConfig") else None,
        duration(tree.get("httpTimeout"), f"{path}.httpTimeout") or 5.0,
        bool(tree.get("nodeCacheCapable")),
        frozenset(item["name"] for item in resources),
        frozenset(item["name"] for item in resources if item.get("ignoredByScheduler")),
        bool(tree.get("ignorable")),
    )


def _check_resource(name: str, path: str, errors: list[FieldError]) -> None:
    problems = qualified_name_errors(name)
    errors.extend(invalid(path, name, problem) for problem in problems)
    if not problems and not is_extended_resource(name):
        errors.append(invalid(path, name, "is an invalid extended resource name"))


def _tls(tree: Mapping[str, Any], path: str) -> TlsSettings:
    return TlsSettings(
        bool(tree.get("insecure")),
        tree.get("serverName") or "",
        tree.get("certFile") or "",
        tree.get("keyFile") or "",
        tree.get("caFile") or "",
        _data(tree.get("certData"), f"{path}.certData"),
        _data(tree.get("keyData"), f"{path}.keyData"),
        _data(tree.get("caData"), f"{path}.caData"),
    )


def _data(value: Any, path: str) -> bytes:
    if not value:
        return b""
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError) as error:
        raise SettingsError(path, f"not base64: {error}") from error


def duration(value: Any, path: str) -> float:
    """Seconds of a duration such as `1m30s`; a number is nanoseconds, as in Go. Raises SettingsError."""
    if value is None or value == "":
        return 0.0
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value * 1e-9
    if value in ("0", "+0", "-0"):
        return 0.0
    text = str(value)
    try:
        seconds = go_seconds(text[1:] if text[:1] in ("+", "-") else text)
    except ValueError:
        raise SettingsError(path, f'time: invalid duration "{value}"') from None
    return -seconds if text[:1] == "-" else seconds

"""Audit policies as files: YAML or JSON, checked in kube-apiserver's words. Pure.

What a policy has and `audit.k8s.io/v1` does not know is told in the log and otherwise ignored, as in kube-apiserver. Source:
`k8s.io/apiserver/pkg/audit/policy/reader.go`, `pkg/apis/audit/validation`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import yaml

from bayplan.api.codec import json_type
from bayplan.api.errors import ErrorType, FieldError, invalid, quoted, required
from bayplan.api.validation.values import formats
from bayplan.apiserver.audit.policy import LEVELS, STAGES, Decision, GroupResources, Level, Policy, Rule
from bayplan.apiserver.authorization.rbac import aggregate
from bayplan.apiserver.writes.body_errors import head_problem
from bayplan.apiserver.yaml.documents import problem_text, repeated_keys, to_json

logger = logging.getLogger(__name__)

API_VERSION: Final = "audit.k8s.io/v1"
_SCHEME: Final = "k8s.io/apiserver/pkg/audit/scheme.go:30"
_TEXTS: Final = "[]string"
_STAGES: Final = "[]v1.Stage"
_POLICY: Final = {"rules": "[]v1.PolicyRule", "omitStages": _STAGES, "omitManagedFields": "bool"}
_RULE: Final = {
    "level": "v1.Level",
    "users": _TEXTS,
    "userGroups": _TEXTS,
    "verbs": _TEXTS,
    "resources": "[]v1.GroupResources",
    "namespaces": _TEXTS,
    "nonResourceURLs": _TEXTS,
    "omitStages": _STAGES,
    "omitManagedFields": "bool",
}
_RESOURCES: Final = {"group": "string", "resources": _TEXTS, "resourceNames": _TEXTS}
_FIELDS: Final = {"v1.Policy": _POLICY, "v1.PolicyRule": _RULE, "v1.GroupResources": _RESOURCES}
"""Of each Go type the fields with their types."""
_HEAD: Final = ("kind", "apiVersion", "metadata")
_Tree = Mapping[str, Any]


class PolicyError(ValueError):
    """A file is no audit policy; the message is kube-apiserver's."""


def parse_policy(data: bytes) -> Policy:
    """The policy in a file. Raises PolicyError."""
    tree, strange = _read(data)
    if strange:
        text = "strict decoding error: " + ", ".join(strange)
        logger.warning("Audit policy contains errors, falling back to lenient decoding: %s", text)
    if problems := list(_problems(tree)):
        raise PolicyError(aggregate(problems))
    rules = tree.get("rules") or []
    if not rules:
        raise PolicyError("loaded illegal policy with 0 rules")
    omitted = frozenset(tree.get("omitStages") or ())
    omits = bool(tree.get("omitManagedFields"))
    return Policy(tuple(_rule(one or {}, omitted, omits=omits) for one in rules), Decision(Level.NONE, omitted, omits))


def _rule(tree: _Tree, omitted: frozenset[str], *, omits: bool) -> Rule:
    own = tree.get("omitManagedFields")
    decision = Decision(
        LEVELS[tree["level"]], omitted.union(tree.get("omitStages") or ()), omits if own is None else own
    )
    return Rule(
        decision=decision,
        users=_set(tree, "users"),
        groups=_set(tree, "userGroups"),
        verbs=_set(tree, "verbs"),
        resources=tuple(map(_group_resources, tree.get("resources") or ())),
        namespaces=_set(tree, "namespaces"),
        paths=tuple(one or "" for one in tree.get("nonResourceURLs") or ()),
    )


def _group_resources(tree: _Tree | None) -> GroupResources:
    tree = tree or {}
    resources = tuple(one or "" for one in tree.get("resources") or ())
    return GroupResources(group=tree.get("group") or "", resources=resources, names=_set(tree, "resourceNames"))


def _set(tree: _Tree, name: str) -> frozenset[str]:
    return frozenset(one or "" for one in tree.get(name) or ())


def _read(data: bytes) -> tuple[dict[str, Any], list[str]]:
    """The tree in a file, and what is strange in it. Raises PolicyError."""
    try:
        body = to_json(data)
        repeated = repeated_keys(data)
    except yaml.YAMLError as error:
        raise PolicyError(f"failed decoding: {problem_text(error)}") from None
    if problem := head_problem(body):
        raise PolicyError(f"failed decoding: {problem}")
    tree = msgspec.json.decode(body) or {}
    kind, version = tree.get("kind") or "", tree.get("apiVersion") or ""
    for value, name in ((kind, "Kind"), (version, "apiVersion")):
        if not value:
            raise PolicyError(f"failed decoding: Object '{name}' is missing in '{data.decode(errors='replace')}'")
    if (version, kind) != (API_VERSION, "Policy"):
        shown = f"no kind {quoted(kind)} is registered for version {quoted(version)} in scheme {quoted(_SCHEME)}"
        raise PolicyError(f"failed decoding: {shown}")
    strange = [line.strip() for line in repeated.splitlines()[1:]]
    for problem, is_fatal in _misfits(tree, "v1.Policy", "", ""):
        if is_fatal:
            raise PolicyError(f"failed decoding: {problem}")
        strange.append(problem)
    return tree, strange


def _misfits(tree: _Tree, go_type: str, trail: str, path: str) -> Iterator[tuple[str, bool]]:
    """What does not fit a type, and whether it cannot be ignored. trail: the fields that lead here, for Go's words; path: the same with indexes."""
    fields = _FIELDS[go_type]
    for name, value in tree.items():
        here = f"{path}.{name}" if path else name
        if name not in fields:
            if path or name not in _HEAD:
                yield f'unknown field "{here}"', False
            continue
        place = f"{go_type.removeprefix('v1.')}.{trail}{name}"
        yield from _value_misfits(value, fields[name], place, f"{trail}{name}.", here)


def _value_misfits(value: Any, wanted: str, place: str, trail: str, path: str) -> Iterator[tuple[str, bool]]:
    if value is None:
        return
    of_items = wanted.startswith("[]")
    if of_items and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_misfits(item, wanted[2:], place, trail, f"{path}[{index}]")
    elif wanted in _FIELDS and isinstance(value, dict):
        yield from _misfits(value, wanted, trail, path)
    elif of_items or wanted in _FIELDS or not isinstance(value, bool if wanted == "bool" else str):
        yield f"json: cannot unmarshal {json_type(value)} into Go struct field {place} of type {wanted}", True


def _problems(tree: _Tree) -> Iterator[FieldError]:
    yield from _stage_problems(tree.get("omitStages") or (), "omitStages")
    for index, rule in enumerate(tree.get("rules") or ()):
        yield from _rule_problems(rule or {}, f"rules[{index}]")


def _rule_problems(rule: _Tree, path: str) -> Iterator[FieldError]:
    level, paths = rule.get("level") or "", rule.get("nonResourceURLs") or []
    if not level:
        yield required(f"{path}.level")
    elif level not in LEVELS:
        supported = ", ".join(map(quoted, LEVELS))
        yield FieldError(ErrorType.NOT_SUPPORTED, f"{path}.level", level, f"supported values: {supported}")
    for index, one in enumerate(paths):
        yield from _path_problems(one or "", f"{path}.nonResourceURLs[{index}]")
    for one in rule.get("resources") or ():
        yield from _resource_problems(one or {}, f"{path}.resources")
    yield from _stage_problems(rule.get("omitStages") or (), f"{path}.omitStages")
    if paths and (rule.get("resources") or rule.get("namespaces")):
        detail = "rules cannot apply to both regular resources and non-resource URLs"
        yield invalid(f"{path}.nonResourceURLs", paths, detail)


def _path_problems(url: str, path: str) -> Iterator[FieldError]:
    if url == "*":
        return
    if not url.startswith("/"):
        yield invalid(path, url, "non-resource URL rules must begin with a '/' character")
    if "*" in url[:-1]:
        yield invalid(path, url, "non-resource URL wildcards '*' must be the final character of the rule")


def _resource_problems(tree: _Tree, path: str) -> Iterator[FieldError]:
    group, names = tree.get("group") or "", tree.get("resourceNames") or []
    if group not in ("", "*") and (messages := formats.dns_subdomain(group)):
        yield invalid(f"{path}.group", group, ",".join(messages))
    if names and not tree.get("resources"):
        yield invalid(f"{path}.resourceNames", names, "using resourceNames requires at least one resource")


def _stage_problems(stages: Any, path: str) -> Iterator[FieldError]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield invalid(f"{path}[{index}]", stage or "", f"allowed stages are {','.join(STAGES)}")

"""Reading a policy file, `descheduler/v1alpha2`, with upstream's checks in its words.

Fields and plugins that do not exist are errors that name the nearest one that does; upstream ignores such fields. All
that is wrong is collected and said at once. Source: the descheduler's `pkg/api/v1alpha2` and `policyconfig.go`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.descheduler.arguments import Arguments, Count, Fields
from bayplan.descheduler.errors import PolicyError
from bayplan.descheduler.plugins import default_evictor
from bayplan.descheduler.plugins.default_evictor import DefaultEvictorArguments
from bayplan.descheduler.plugins.low_node_utilization import KUBERNETES_METRICS, PROMETHEUS
from bayplan.descheduler.policy import DeschedulerPolicy, Profile
from bayplan.descheduler.registry import STRATEGIES

API_VERSION: Final = "descheduler/v1alpha2"
KIND: Final = "DeschedulerPolicy"
_PLACE: Final = re.compile(r"(.*?)(?: - at `\$(.*)`)?")


class _PluginSet(Fields, frozen=True, kw_only=True):
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


class _Plugins(Fields, frozen=True, kw_only=True):
    """Names without capitals are those of upstream's fields; the names on its page are taken as well."""

    presort: _PluginSet = _PluginSet()
    sort: _PluginSet = _PluginSet()
    deschedule: _PluginSet = _PluginSet()
    balance: _PluginSet = _PluginSet()
    filter: _PluginSet = _PluginSet()
    preevictionfilter: _PluginSet = _PluginSet()


_ALIASES: Final = {"preSort": "presort", "preEvictionFilter": "preevictionfilter"}


class _PluginConfig(Fields, frozen=True, kw_only=True):
    name: str = ""
    args: Any = None


class _Profile(Fields, frozen=True, kw_only=True):
    name: str = ""
    plugin_config: tuple[_PluginConfig, ...] = ()
    plugins: _Plugins = _Plugins()


class _SecretReference(Fields, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""


class _AuthToken(Fields, frozen=True, kw_only=True):
    secret_reference: _SecretReference | None = None


class _Prometheus(Fields, frozen=True, kw_only=True):
    url: str = ""
    auth_token: _AuthToken | None = None


class _MetricsProvider(Fields, frozen=True, kw_only=True):
    source: str = ""
    prometheus: _Prometheus | None = None


class _MetricsCollector(Fields, frozen=True, kw_only=True):
    enabled: bool = False


class _Policy(Fields, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    profiles: tuple[_Profile, ...] = ()
    node_selector: str = ""
    max_no_of_pods_to_evict_per_node: Count | None = None
    max_no_of_pods_to_evict_per_namespace: Count | None = None
    max_no_of_pods_to_evict_total: Count | None = None
    eviction_failure_event_notification: bool = False
    metrics_collector: _MetricsCollector = _MetricsCollector()
    metrics_providers: tuple[_MetricsProvider, ...] = ()
    grace_period_seconds: Count | None = None


def load_policy(path: Path) -> DeschedulerPolicy:
    """The policy of a YAML or JSON file. Raises PolicyError, OSError."""
    import yaml  # slow to import, and seldom needed

    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PolicyError([f"{path}: {error}"]) from error
    try:
        return parse_policy(tree)
    except PolicyError as error:
        raise PolicyError([f"{path}: {one}" for one in error.errors]) from error


def parse_policy(tree: Any) -> DeschedulerPolicy:
    """The policy of plain dicts and lists. Raises PolicyError."""
    if not isinstance(tree, Mapping):
        raise PolicyError([f"expected a {KIND}, an object with profiles"])
    version, kind = tree.get("apiVersion"), tree.get("kind")
    if version != API_VERSION:
        raise PolicyError([f"apiVersion: {version!r} is not supported, use {API_VERSION!r}"])
    if kind != KIND:
        raise PolicyError([f"kind: {kind!r} is not {KIND!r}"])
    named = _with_field_names(tree)
    errors = list(_unknown_fields(_Policy, named, ""))
    policy: _Policy = _converted(_Policy, _without_unknown(_Policy, named), "")
    profiles = tuple(_profile(one, f"profiles[{index}]", errors) for index, one in enumerate(policy.profiles))
    errors += _metrics_errors(policy)
    try:
        parse_labels(policy.node_selector)
    except SelectorError as error:
        errors.append(f"nodeSelector: {error}")
    if errors:
        raise PolicyError(errors)
    return DeschedulerPolicy(
        profiles,
        policy.node_selector,
        policy.max_no_of_pods_to_evict_per_node,
        policy.max_no_of_pods_to_evict_per_namespace,
        policy.max_no_of_pods_to_evict_total,
        policy.grace_period_seconds,
        policy.eviction_failure_event_notification,
        policy.metrics_collector.enabled or any(one.source == KUBERNETES_METRICS for one in policy.metrics_providers),
    )


def _with_field_names(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree without nulls, with upstream's spelling of the extension points."""
    plain: dict[str, Any] = _without_nulls(tree)
    profiles = plain.get("profiles")
    for profile in profiles if isinstance(profiles, list) else ():
        if isinstance(profile, dict) and isinstance(profile.get("plugins"), dict):
            profile["plugins"] = {_ALIASES.get(name, name): value for name, value in profile["plugins"].items()}
    return plain


def _without_nulls(value: Any) -> Any:
    """What Go's decoder makes of nulls: fields that are not there."""
    if isinstance(value, Mapping):
        return {str(key): _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


# Profiles


def _profile(profile: _Profile, path: str, errors: list[str]) -> Profile:
    arguments: dict[str, Arguments] = {}
    for index, config in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if config.name in arguments:
            errors.append(f"{where}: plugin {config.name} is configured twice")
            continue
        found = _arguments(config, where, errors)
        if found is not None:
            arguments[config.name] = found
    _check_plugins(profile, path, errors)
    evictor = arguments.pop(default_evictor.NAME, DefaultEvictorArguments())
    assert isinstance(evictor, DefaultEvictorArguments)
    plugins = profile.plugins
    return Profile(profile.name, evictor, plugins.deschedule.enabled, plugins.balance.enabled, arguments)


def _arguments(config: _PluginConfig, path: str, errors: list[str]) -> Arguments | None:
    if config.name == default_evictor.NAME:
        kind: type[Arguments] = DefaultEvictorArguments
    elif config.name in STRATEGIES:
        kind = STRATEGIES[config.name].arguments_type
    else:
        errors.append(
            f"{path}.name: plugin {config.name} in pluginConfig not registered{_nearest(config.name, _known())}"
        )
        return None
    try:
        found: Arguments = _converted(kind, {} if config.args is None else config.args, f"{path}.args")
    except PolicyError as error:
        errors += error.errors
        return kind()
    errors += [f"{path}.args: {one}" for one in found.errors()]
    return found


def _known() -> tuple[str, ...]:
    return (*STRATEGIES, default_evictor.NAME)


def _check_plugins(profile: _Profile, path: str, errors: list[str]) -> None:
    """Plugins must exist, have the extension point, and be configured."""
    for point in _Plugins.__struct_fields__:
        chosen: _PluginSet = getattr(profile.plugins, point)
        where = f"{path}.plugins.{point}"
        errors += [
            f"{where}.disabled: there is no plugin {name}{_nearest(name, _known())}"
            for name in chosen.disabled
            if name not in _known()
        ]
        for name in chosen.enabled:
            problem = _enabled_problem(name, point)
            if not problem and name in STRATEGIES and not any(one.name == name for one in profile.plugin_config):
                problem = f'unable to find "{name}" plugin config: add "- name: {name}" to pluginConfig'
            if problem:
                errors.append(f"{where}.enabled: {problem}")


def _enabled_problem(name: str, point: str) -> str:
    """Why a plugin cannot be enabled at an extension point; empty if it can."""
    points = _points(name)
    if not points:
        return f"there is no plugin {name}{_nearest(name, _known())}"
    return "" if point in points else f"plugin {name} has no extension point {point}, but {' and '.join(points)}"


def _points(name: str) -> tuple[str, ...]:
    """The extension points of a plugin; none if there is no such plugin."""
    if name == default_evictor.NAME:
        return ("filter", "preevictionfilter")
    return (STRATEGIES[name].point,) if name in STRATEGIES else ()


def _metrics_errors(policy: _Policy) -> Iterator[str]:
    sources = [one.source for one in policy.metrics_providers]
    for index, one in enumerate(policy.metrics_providers):
        path = f"metricsProviders[{index}]"
        if one.source not in (KUBERNETES_METRICS, PROMETHEUS):
            known = f"{KUBERNETES_METRICS} or {PROMETHEUS}"
            yield f"{path}.source: expected {known}, not {one.source!r}"
        if one.source in sources[:index]:
            yield f'metric provider "{one.source}" is already configured, each source can be configured only once'
        if one.source == PROMETHEUS:
            yield from _prometheus_errors(one.prometheus, f"{path}.prometheus")
    if KUBERNETES_METRICS in sources and policy.metrics_collector.enabled:
        yield "it is not allowed to combine metrics provider when metrics collector is enabled"


def _prometheus_errors(given: _Prometheus | None, path: str) -> Iterator[str]:
    if given is None:
        yield f"{path}: prometheus configuration is required when prometheus source is enabled"
        return
    if not given.url:
        yield f"{path}.url: prometheus URL is required when prometheus is enabled"
    if given.auth_token is not None:
        reference = given.auth_token.secret_reference
        if reference is None:
            yield f"{path}.authToken: prometheus authToken secret is expected to be set when authToken field is"
        elif not (reference.name and reference.namespace):
            yield f"{path}.authToken: prometheus authToken secret reference does not set both namespace and name"


# Values


def _converted(kind: type[Any], tree: Any, path: str) -> Any:
    """A tree as a struct. Raises PolicyError for unknown fields and for values of another type."""
    unknown = list(_unknown_fields(kind, tree, path))
    if unknown:
        raise PolicyError(unknown)
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        text, place = (found[1], found[2] or "") if found is not None else (str(error), "")
        where = f"{path}{place}".lstrip(".")
        text = text.replace("`", "").replace("Expected", "expected", 1)
        raise PolicyError([f"{where}: {text}" if where else text]) from error


def _unknown_fields(kind: type[Any], tree: Any, path: str) -> Iterator[str]:
    if not isinstance(tree, Mapping):
        return
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in tree.items():
        where = f"{path}.{name}".lstrip(".")
        if name not in fields:
            yield f'unknown field "{where}"{_nearest(name, fields)}'
            continue
        inner = _struct_in(fields[name])
        if inner is None:
            continue
        items = enumerate(value) if isinstance(value, list) else ()
        for index, item in items:
            yield from _unknown_fields(inner, item, f"{where}[{index}]")
        yield from _unknown_fields(inner, value, where)


def _without_unknown(kind: type[Any], tree: Any) -> Any:
    """A tree without the fields that its struct does not have, so that what else is wrong is found as well."""
    if not isinstance(tree, Mapping):
        return tree
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    found = {}
    for name in tree.keys() & fields.keys():
        value, inner = tree[name], _struct_in(fields[name])
        if inner is not None:
            many = isinstance(value, list)
            value = [_without_unknown(inner, one) for one in value] if many else _without_unknown(inner, value)
        found[name] = value
    return found


def _struct_in(annotation: Any) -> type[Any] | None:
    """The struct in a type such as `tuple[Struct, ...]` or `Struct | None`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    return next((found for one in get_args(annotation) if (found := _struct_in(one)) is not None), None)


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""

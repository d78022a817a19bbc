"""Single objects as YAML, logs of pods, and which objects selectors choose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from bayplan.api.codec import to_tree
from bayplan.api.errors import ApiError
from bayplan.api.selectors.fields import parse_fields
from bayplan.api.selectors.labels import SelectorError
from bayplan.api.selectors.syntax import parse_labels
from bayplan.api.strategies import strategy_for
from bayplan.client.errors import TransportError
from bayplan.informers.cache import key_of
from bayplan.ui.cluster_source import ClusterSource, kind_of
from bayplan.ui.errors import RequestError

_MOST_LINES: Final = 2000
_MOST_BYTES: Final = 1 << 20


async def object_tree(cluster: ClusterSource, kind_name: str, namespace: str, name: str) -> dict[str, Any]:
    """An object as plain data, values of secrets replaced by their sizes. Raises RequestError."""
    try:
        kind = kind_of(cluster, kind_name)
    except KeyError:
        raise RequestError(404, f"there is no kind {kind_name}") from None
    if cluster.client is None:
        tree = _copied(cluster, kind.kind, namespace, name)
    else:
        data = await answer(cluster, kind.path(namespace if kind.namespaced else "", name))
        tree = msgspec.json.decode(data)
    if kind.kind == "Secret":
        for field in ("data", "stringData"):
            tree[field] = {key: f"({len(value)} characters)" for key, value in (tree.get(field) or {}).items()}
    return tree


def _copied(cluster: ClusterSource, kind: str, namespace: str, name: str) -> dict[str, Any]:
    assert cluster.copy is not None
    for obj in cluster.copy.of(kind):
        if obj.metadata.name == name and (obj.metadata.namespace or "") in (namespace, ""):
            found: dict[str, Any] = to_tree(obj)
            return found
    raise RequestError(404, f"the copy has no {kind} {name}")


def yaml_of(tree: Mapping[str, Any], *, managed_fields: bool) -> str:
    """YAML for people. managed_fields: whether these are shown."""
    import yaml

    shown = dict(tree)
    if not managed_fields and isinstance(shown.get("metadata"), dict):
        shown["metadata"] = {key: value for key, value in shown["metadata"].items() if key != "managedFields"}
    text: str = yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100)
    return text


Read = Callable[[str, Mapping[str, str]], Awaitable[bytes]]
"""Reads what a path of the cluster answers. Raises RequestError."""


async def logs(
    cluster: ClusterSource, read: Read, namespace: str, name: str, container: str, lines: int, previous: bool
) -> str:
    """The last lines of a container. Raises RequestError."""
    if cluster.client is None:
        raise RequestError(404, "a copy has no logs")
    query = {"tailLines": str(min(lines, _MOST_LINES)), "limitBytes": str(_MOST_BYTES)}
    query |= {"container": container} if container else {}
    query |= {"previous": "true"} if previous else {}
    path = kind_of(cluster, "Pod").path(namespace, name, "log")
    return (await read(path, query)).decode(errors="replace")


async def answer(cluster: ClusterSource, path: str, query: Mapping[str, str] | None = None) -> bytes:
    """What the cluster answers. Raises RequestError."""
    assert cluster.client is not None
    try:
        return await cluster.client.raw("GET", path, query)
    except ApiError as error:
        raise RequestError(error.code if error.code in (403, 404) else 502, error.message) from error
    except TransportError as error:
        raise RequestError(502, str(error)) from error


def selected(cluster: ClusterSource, table: str, labels: str, fields: str) -> list[str]:
    """Keys of the rows whose objects the selectors of the API choose. Raises RequestError."""
    try:
        label_selector, field_selector = parse_labels(labels), parse_fields(fields)
    except SelectorError as error:
        raise RequestError(400, str(error)) from error
    found: list[str] = []
    known = False
    for cls, cache in cluster.caches.items():
        kind = kind_of(cluster, cls.__name__)
        own = kind.plural == table
        if not own and not (table == "workloads" and kind.group in ("apps", "batch")):
            continue
        known = True
        strategy = strategy_for(kind)
        unknown = [
            one.field
            for one in field_selector.requirements
            if one.field not in ("metadata.name", "metadata.namespace", *strategy.selectable_field_names)
        ]
        if unknown:
            raise RequestError(400, f"field label not supported: {unknown[0]}")
        for obj in cache:
            metadata = obj.metadata
            own_fields = {"metadata.name": metadata.name, "metadata.namespace": metadata.namespace}
            if label_selector.matches(metadata.labels) and (
                field_selector.is_everything()
                or field_selector.matches({**strategy.selectable_fields(obj), **own_fields})
            ):
                found.append(key_of(obj) if own else f"{kind.kind}/{key_of(obj)}")
    if not known:
        raise RequestError(404, f"there is no table {table[:50]}")
    return found

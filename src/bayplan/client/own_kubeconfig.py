"""Kubeconfig files that Bayplan writes, and how it knows them again."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import yaml


def render(
    server: str, authority: bytes, token: str, *, name: str = "bayplan", further: Mapping[str, str] | None = None
) -> str:
    """A kubeconfig with one context for a bearer token. further: other servers of the same cluster, by the names of further contexts."""
    servers = {name: server, **(further or {})}
    data = base64.b64encode(authority).decode()
    mark = {"extensions": [{"name": MARK, "extension": {"writtenBy": "bayplan"}}]}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": one, "cluster": {"server": url, "certificate-authority-data": data, **mark}}
            for one, url in servers.items()
        ],
        "users": [{"name": name, "user": {"token": token, **mark}}],
        "contexts": [
            {"name": one, "context": {"cluster": one, "user": name, "namespace": "default", **mark}} for one in servers
        ],
    }
    # Written out each time: an alias of YAML would puzzle who edits the file.
    return str(yaml.dump(config, Dumper=_WithoutAliases, sort_keys=False))


class _WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def is_own(text: str, authority: bytes | None) -> bool:
    """Whether everything in a kubeconfig was written by `render`, so that it may be overwritten. An empty file may be.

    Every cluster, user and context must have the mark. Files of versions before the mark have exactly one of each, named
    bayplan, and are known by the authority (PEM) of the cluster that they are for.
    """
    if not text.strip():
        return True
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(config, dict) or config.get("kind") != "Config":
        return False
    return all(
        _are_marked(config.get(section), member) for section, member in _SECTIONS.items()
    ) or _is_of_older_version(config, authority)


MARK = "bayplan.dev/kubeconfig"
"""Name of the extension that marks what Bayplan wrote in a kubeconfig; kubectl keeps extensions."""
_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}


def _entry(row: Any, member: str) -> Any:
    return row.get(member) if isinstance(row, dict) else None


def _are_marked(rows: Any, member: str) -> bool:
    return isinstance(rows, list) and bool(rows) and all(_is_marked(_entry(row, member)) for row in rows)


def _is_marked(entry: Any) -> bool:
    extensions = entry.get("extensions") if isinstance(entry, dict) else None
    return isinstance(extensions, list) and any(isinstance(one, dict) and one.get("name") == MARK for one in extensions)


def _is_of_older_version(config: dict[str, Any], authority: bytes | None) -> bool:
    if authority is None:
        return False
    sections = [config.get(section) for section in _SECTIONS]
    if not all(isinstance(rows, list) and len(rows) == 1 for rows in sections):
        return False
    if not all(isinstance(rows[0], dict) and rows[0].get("name") == "bayplan" for rows in sections if rows):
        return False
    cluster = _entry(config["clusters"][0], "cluster")
    data = base64.b64encode(authority).decode()
    return isinstance(cluster, dict) and cluster.get("certificate-authority-data") == data

"""Discovery: which groups, versions, resources and verbs there are, in the plain and the aggregated form."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.api.kinds import Kind, KindTable
from bayplan.apiserver.aggregation.discovery import merged_groups, remote_version
from bayplan.apiserver.aggregation.registry import AggregatedApis, ApiService, GroupVersion
from bayplan.apiserver.discovery.protobuf import aggregated_body
from bayplan.apiserver.reads.negotiation import OFFERED, PROTOBUF, YAML
from bayplan.apiserver.reads.representation import in_form

_KEPT_IN_V1BETA1 = frozenset(("CustomResourceDefinition", "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"))
"""What kube-apiserver keeps in an older version than it prefers to show. Only their hash tells."""
_AS = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_aggregated(accept: str) -> str:
    """The media type (JSON, YAML or protobuf) of the aggregated form, if the client prefers that to the plain one; "" if not."""
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = set(rest)
        if media_type in OFFERED:
            if {"as=APIGroupDiscoveryList", "g=apidiscovery.k8s.io", "v=v2"} <= parameters:
                return media_type
            if not any(part.startswith("as=") for part in parameters):
                return ""
        elif media_type == "*/*" and not any(part.startswith("as=") for part in parameters):
            return ""
    return ""


class Discovery:
    """Discovery documents of a table of kinds. They are small and made when asked for."""

    def __init__(self, kinds: KindTable, aggregated: AggregatedApis) -> None:
        """aggregated: what other servers answer."""
        self.kinds = kinds
        self._aggregated_apis = aggregated

    def find(self, path: str, accept: str) -> tuple[bytes, str] | None:
        """The document at a path, as JSON or, aggregated, in the form that the client prefers; and its media type. None if there is none."""
        groups = self._groups()
        if path in ("/api", "/apis") and "as=APIGroupDiscoveryList" in accept:
            media_type = wants_aggregated(accept)
            if media_type:
                chosen = [""] if path == "/api" else [group for group in groups if group]
                tree = self._aggregated(chosen, groups)
                data = aggregated_body(tree) if media_type == PROTOBUF else msgspec.json.encode(tree)
                return in_form(data, YAML) if media_type == YAML else data, media_type + _AS
        document = self._document(path.split("/")[1:], groups)
        return None if document is None else (msgspec.json.encode(document), "application/json")

    def _services(self) -> Mapping[GroupVersion, ApiService]:
        return self._aggregated_apis.services()

    def _groups(self) -> dict[str, list[str]]:
        """Group -> versions, both in order of preference."""
        own, services = self.kinds.groups(), self._services()
        if not services:
            return own
        return merged_groups(own, services, [group for group in own if not self.kinds.has_built_in_group(group)])

    def _document(self, parts: list[str], groups: dict[str, list[str]]) -> dict[str, Any] | None:
        if parts == ["api"]:
            server = {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}
            return {"kind": "APIVersions", "versions": groups[""], "serverAddressByClientCIDRs": [server]}
        if parts == ["apis"]:
            found = [self._group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
        if parts[0] == "api" and len(parts) == 2 and parts[1] in groups[""]:
            return self._resources("", parts[1])
        if parts[0] == "apis" and len(parts) == 2 and parts[1] in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1], groups[parts[1]])}
        if parts[0] == "apis" and len(parts) == 3 and parts[2] in groups.get(parts[1], ()):
            return self._resources(parts[1], parts[2])
        return None

    def paths(self) -> list[str]:
        """Paths of discovery, sorted."""
        groups = self._groups()
        found = ["/api", *(f"/api/{version}" for version in groups[""]), "/apis", "/apis/"]
        for group in sorted(group for group in groups if group):
            found += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in sorted(groups[group]))]
        return found

    def _group(self, group: str, versions: list[str]) -> dict[str, Any]:
        rows = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": rows, "preferredVersion": rows[0]}

    def _kinds_of(self, group: str, version: str) -> list[Kind]:
        return sorted(
            (kind for kind in self.kinds if (kind.group, kind.version) == (group, version)),
            key=lambda kind: kind.plural,
        )

    def _resources(self, group: str, version: str) -> dict[str, Any]:
        rows = [row for kind in self._kinds_of(group, version) for row in resource_rows(kind)]
        head = {"kind": "APIResourceList"} if not group else {"kind": "APIResourceList", "apiVersion": "v1"}
        return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": rows}

    def _aggregated(self, chosen: list[str], groups: dict[str, list[str]]) -> dict[str, Any]:
        items = []
        for group in chosen:
            versions = [self._aggregated_version(group, version) for version in groups[group]]
            items.append({"metadata": {"name": group} if group else {}, "versions": versions})
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _aggregated_version(self, group: str, version: str) -> dict[str, Any]:
        if (group, version) in self._services():
            return remote_version(version, self._aggregated_apis.remote((group, version)))
        rows = [aggregated_row(kind) for kind in self._kinds_of(group, version)]
        return {"version": version, "resources": rows, "freshness": "Current"}


def storage_version_hash(kind: Kind) -> str:
    """Tells clients when a kind is kept in another version; computed as kube-apiserver does."""
    group = kind.group if kind.storage_group is None else kind.storage_group
    version = (
        "v1beta1" if kind.kind in _KEPT_IN_V1BETA1 and not kind.is_custom else kind.storage_version or kind.version
    )
    stored_as = f"{group}/{version}/{kind.kind}"
    return base64.b64encode(hashlib.sha256(stored_as.encode()).digest()[:8]).decode()


def resource_rows(kind: Kind) -> list[dict[str, Any]]:
    """A kind and its subresources as an APIResourceList shows them."""
    row: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if kind.is_stored:
        row["storageVersionHash"] = storage_version_hash(kind)
    rows = [row]
    for one in kind.subresources:
        sub: dict[str, Any] = {"name": f"{kind.plural}/{one.name}", "singularName": "", "namespaced": kind.namespaced}
        if one.version:
            sub |= {"group": one.group, "version": one.version}
        rows.append({**sub, "kind": one.kind or kind.kind, "verbs": list(one.verbs)})
    return rows


def aggregated_row(kind: Kind) -> dict[str, Any]:
    """A kind as the aggregated discovery shows it."""
    row: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        row["shortNames"] = list(kind.short_names)
    if kind.categories:
        row["categories"] = list(kind.categories)
    if kind.subresources:
        row["subresources"] = [
            {
                "subresource": one.name,
                "responseKind": {"group": one.group, "version": one.version, "kind": one.kind or kind.kind},
                "verbs": list(one.verbs),
            }
            for one in kind.subresources
        ]
    return row

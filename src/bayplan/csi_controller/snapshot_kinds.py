"""The custom resources of snapshots (snapshot.storage.k8s.io/v1), field by field as in external-snapshotter: their definitions, and their kinds for a client."""

from __future__ import annotations

import copy
from typing import Any, Final

from bayplan.api.codec import from_tree
from bayplan.api.kinds import KindTable
from bayplan.api.types import apiextensions_v1
from bayplan.informers.custom_kinds import row_of

GROUP: Final = "snapshot.storage.k8s.io"
VERSION: Final = f"{GROUP}/v1"
DISCOVERY: Final = f"/apis/{VERSION}"
SNAPSHOT, CONTENT, CLASS = "VolumeSnapshot", "VolumeSnapshotContent", "VolumeSnapshotClass"
_TEXT: Final[dict[str, Any]] = {"type": "string"}
_FLAG: Final[dict[str, Any]] = {"type": "boolean"}
_NUMBER: Final[dict[str, Any]] = {"type": "integer", "format": "int64"}
_TIME: Final[dict[str, Any]] = {"type": "string", "format": "date-time"}
_QUANTITY: Final[dict[str, Any]] = {
    "x-kubernetes-int-or-string": True,
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}
_POLICY: Final[dict[str, Any]] = {"type": "string", "enum": ["Delete", "Retain"]}
_FIXED: Final = {"rule": "self == oldSelf"}


def _object(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": fields}
    return {**found, "required": list(required)} if required else found


def _immutable(name: str) -> dict[str, Any]:
    return {**_TEXT, "x-kubernetes-validations": [{**_FIXED, "message": f"{name} is immutable"}]}


def _one_of(schema: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    rules = [
        {"rule": f"!has(oldSelf.{one}) || has(self.{one})", "message": f"{one} is required once set"}
        for one in (first, second)
    ]
    rules.append(
        {
            "rule": f"(has(self.{first}) && !has(self.{second})) || (!has(self.{first}) && has(self.{second}))",
            "message": f"exactly one of {first} and {second} must be set",
        }
    )
    return {**schema, "x-kubernetes-validations": rules}


_ERROR: Final = _object(message=_TEXT, time=_TIME)
_NAMED: Final = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")


def _snapshot_schema() -> dict[str, Any]:
    source = _one_of(
        _object(
            persistentVolumeClaimName=_immutable("persistentVolumeClaimName"),
            volumeSnapshotContentName=_immutable("volumeSnapshotContentName"),
        ),
        "persistentVolumeClaimName",
        "volumeSnapshotContentName",
    )
    named = {"rule": "size(self) > 0", "message": "volumeSnapshotClassName must not be the empty string when set"}
    spec = _object(("source",), source=source, volumeSnapshotClassName={**_TEXT, "x-kubernetes-validations": [named]})
    status = _object(
        boundVolumeSnapshotContentName=_TEXT,
        creationTime=_TIME,
        error=_ERROR,
        readyToUse=_FLAG,
        restoreSize=_QUANTITY,
        volumeGroupSnapshotName=_TEXT,
    )
    return _object(("spec",), apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, spec=spec, status=status)


def _content_schema() -> dict[str, Any]:
    source = _one_of(
        _object(snapshotHandle=_immutable("snapshotHandle"), volumeHandle=_immutable("volumeHandle")),
        "volumeHandle",
        "snapshotHandle",
    )
    whole = {
        "rule": "has(self.name) && has(self.__namespace__)",
        "message": "both spec.volumeSnapshotRef.name and spec.volumeSnapshotRef.namespace must be set",
    }
    kept = {
        "rule": "!has(oldSelf.sourceVolumeMode) || has(self.sourceVolumeMode)",
        "message": "sourceVolumeMode is required once set",
    }
    spec = _object(
        ("deletionPolicy", "driver", "source", "volumeSnapshotRef"),
        deletionPolicy=_POLICY,
        driver=_TEXT,
        source=source,
        sourceVolumeMode=_immutable("sourceVolumeMode"),
        volumeSnapshotClassName=_TEXT,
        volumeSnapshotRef={**_object((), **dict.fromkeys(_NAMED, _TEXT)), "x-kubernetes-validations": [whole]},
    )
    status = _object(
        creationTime=_NUMBER,
        error=_ERROR,
        readyToUse=_FLAG,
        restoreSize={**_NUMBER, "minimum": 0},
        snapshotHandle=_TEXT,
        volumeGroupSnapshotHandle=_TEXT,
    )
    spec = {**spec, "x-kubernetes-validations": [kept]}
    return _object(("spec",), apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, spec=spec, status=status)


def _class_schema() -> dict[str, Any]:
    return _object(
        ("deletionPolicy", "driver"),
        apiVersion=_TEXT,
        kind=_TEXT,
        metadata={"type": "object"},
        deletionPolicy=_POLICY,
        driver=_TEXT,
        parameters={"type": "object", "additionalProperties": _TEXT},
    )


_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")
_COLUMNS: Final = {
    SNAPSHOT: (
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("SourcePVC", "string", ".spec.source.persistentVolumeClaimName"),
        ("SourceSnapshotContent", "string", ".spec.source.volumeSnapshotContentName"),
        ("RestoreSize", "string", ".status.restoreSize"),
        ("SnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        ("SnapshotContent", "string", ".status.boundVolumeSnapshotContentName"),
        ("CreationTime", "date", ".status.creationTime"),
        _AGE,
    ),
    CONTENT: (
        ("ReadyToUse", "boolean", ".status.readyToUse"),
        ("RestoreSize", "integer", ".status.restoreSize"),
        ("DeletionPolicy", "string", ".spec.deletionPolicy"),
        ("Driver", "string", ".spec.driver"),
        ("VolumeSnapshotClass", "string", ".spec.volumeSnapshotClassName"),
        ("VolumeSnapshot", "string", ".spec.volumeSnapshotRef.name"),
        ("VolumeSnapshotNamespace", "string", ".spec.volumeSnapshotRef.namespace"),
        _AGE,
    ),
    CLASS: (("Driver", "string", ".driver"), ("DeletionPolicy", "string", ".deletionPolicy"), _AGE),
}
_SHORT: Final = {SNAPSHOT: ["vs"], CONTENT: ["vsc", "vscs"], CLASS: ["vsclass", "vsclasses"]}
_SCHEMAS: Final = {SNAPSHOT: _snapshot_schema, CONTENT: _content_schema, CLASS: _class_schema}


def definitions() -> list[dict[str, Any]]:
    """The three CustomResourceDefinitions."""
    return [_definition(kind) for kind in (CLASS, CONTENT, SNAPSHOT)]


def _definition(kind: str) -> dict[str, Any]:
    plural = f"{kind.lower()}es" if kind == CLASS else f"{kind.lower()}s"
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": type_name, "jsonPath": path} for name, type_name, path in _COLUMNS[kind]
        ],
        "schema": {"openAPIV3Schema": copy.deepcopy(_SCHEMAS[kind]())},
    }
    if kind != CLASS:
        version["subresources"] = {"status": {}}
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "singular": kind.lower(),
        "shortNames": _SHORT[kind],
    }
    approved = "https://github.com/kubernetes-csi/external-snapshotter/pull/814"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {"api-approved.kubernetes.io": approved}},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if kind == SNAPSHOT else "Cluster",
            "versions": [version],
        },
    }


def add_kinds(table: KindTable) -> dict[str, type[Any]]:
    """Let a client know these kinds; kind -> class of its objects."""
    found = {}
    for tree in definitions():
        status = {
            "acceptedNames": tree["spec"]["names"],
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": ["v1"],
        }
        row = row_of(from_tree(apiextensions_v1.CustomResourceDefinition, {**tree, "status": status}))
        assert row is not None
        table.add(row)
        found[row.kind] = row.type
    return found

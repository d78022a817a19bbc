"""A copy that does not tell whose cluster it is, and that gives the same placement decisions.

Every text that is not known to be harmless becomes a made-up one, the same text everywhere the same, so that whatever
refers to something still does: node names and host names, owners, claims, selectors and the labels that they select.
The rule is *default deny*: only fields named in `anonymize_rules` keep their texts.

    node "db7.acme.example", label host: db7.acme.example  ->  node "node-0003", label key-02: node-0003

New names sort as the old ones did wherever a name can break a tie. Pods of stateful sets stay called after their set,
and replica sets of deployments after their deployment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from bayplan.api.codec import from_tree, to_tree
from bayplan.controllers.autoscaling.cluster_autoscaler_rules import SAFE_VOLUMES
from bayplan.simulation.snapshots.anonymize_rules import (
    DROPPED,
    KEPT_FIELDS,
    KEPT_NAMES,
    KEPT_TREES,
    KEYS,
    LABELS,
    METRICS,
    NAMED,
    NUMBER,
    OF_CLASS,
    OWN_ANNOTATIONS,
    QUALIFIED,
    QUOTAS,
    REFERENCES,
    RESOURCES,
    TEMPLATE_HASH,
    harmless,
    is_behaviour,
    is_kept_domain,
    is_kept_driver,
    is_kept_image_part,
    is_kept_key,
    is_kept_resource,
    is_kept_value,
)
from bayplan.simulation.snapshots.snapshot import KINDS, ClusterSnapshot, LeftOut
from bayplan.simulation.snapshots.thinning import kept_annotation

Tree = dict[str, Any]

_SHORT: Final = {
    "Namespace": "ns",
    "PersistentVolume": "pv",
    "PersistentVolumeClaim": "pvc",
    "PodDisruptionBudget": "pdb",
    "StorageClass": "class",
    "PriorityClass": "priority",
    "LimitRange": "limits",
    "ResourceQuota": "quota",
    "HorizontalPodAutoscaler": "hpa",
}
"""Kind -> what its new names begin with; others by their kind."""


_FIRST: Final = {
    kind: number
    for number, kind in enumerate(("Namespace", "Node", "Deployment", "StatefulSet", "DaemonSet", "CronJob", "Job"))
}
"""Kinds after which a name is called that several kinds share."""


def anonymized(copy: ClusterSnapshot) -> ClusterSnapshot:
    """The copy under other names."""
    return Anonymizer(copy).result()


class Anonymizer:
    """Makes up names for one copy; `name` and `key` tell which."""

    def __init__(self, copy: ClusterSnapshot) -> None:
        self.copy = copy
        self._trees = {kind: [to_tree(obj) for obj in found] for kind, found in copy.objects.items()}
        self._names: dict[str, str] = {name: name for name in KEPT_NAMES}
        self._taken: set[str] = set(KEPT_NAMES)
        self._keys: dict[str, str] = {}
        self._images: dict[str, str] = {}
        self._resources: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._numeric = frozenset(_numeric_keys(self._trees))
        """Label and taint keys whose values are compared as numbers somewhere."""
        self._name_objects()

    def result(self) -> ClusterSnapshot:
        """The copy under its new names."""
        objects = {}
        for kind, trees in self._trees.items():
            known = self.copy.objects[kind]
            objects[kind] = [from_tree(type(obj), self._object(tree)) for obj, tree in zip(known, trees, strict=True)]
        left_out = [LeftOut(_left_out(one.what), "not readable") for one in self.copy.left_out]
        return dataclasses.replace(
            self.copy, objects=objects, source="anonymized copy", anonymized=True, left_out=left_out
        )

    # Names

    def name(self, old: str) -> str:
        """The new text for a name or value."""
        new = self._names.get(old)
        return new if new is not None else self._give(old, f"x-{len(self._names):05d}")

    def key(self, old: str) -> str:
        """The new key of a label or taint."""
        if is_kept_key(old):
            return old
        new = self._keys.get(old)
        if new is None:
            new = self._keys[old] = f"key-{len(self._keys) + 1:03d}"
        return new

    def value(self, key: str, old: str) -> str:
        """The new value of a label or taint."""
        if not old or is_kept_value(key) or (key in self._numeric and NUMBER.fullmatch(old)):
            return old
        return self.name(old)

    def image(self, old: str, *, on_node: bool = False) -> str:
        """The new name of an image. What pods ask for without a tag is `latest`; what nodes have is taken literally."""
        if not old or is_kept_image_part(old):
            return old
        full = old if on_node or old.rfind(":") > old.rfind("/") else f"{old}:latest"
        new = self._images.get(full)
        if new is None:
            new = self._images[full] = f"image-{len(self._images) + 1:05d}:1"
        return new

    def resource(self, old: str) -> str:
        """The new name of a resource."""
        if is_kept_resource(old):
            return old
        new = self._resources.get(old)
        if new is None:
            new = self._resources[old] = f"example.com/resource-{len(self._resources) + 1:02d}"
        return new

    def counted(self, old: str) -> str:
        """The new name of what a quota counts."""
        of_class = OF_CLASS.fullmatch(old)
        if of_class is not None:
            return self.name(of_class["name"]) + of_class["rest"]
        prefix, dot, resource = old.partition(".")
        if dot and prefix in ("requests", "limits"):
            return f"{prefix}.{self.resource(resource)}"
        if old.startswith("count/"):
            known = any(old == f"count/{kind.group_resource}" for kind in KINDS)
            return old if known else f"count/{self.name(old.removeprefix('count/'))}.example.com"
        return self.resource(old)

    def _give(self, old: str, new: str) -> str:
        while new in self._taken:
            new += "x"
        self._taken.add(new)
        self._names[old] = new
        return new

    def _name_objects(self) -> None:
        """New names for all objects and UIDs, in the order of the old ones."""
        for tree in self._trees.get("ResourceSlice", ()):
            driver = (tree.get("spec") or {}).get("driver", "")
            self._names[driver] = driver  # expressions that choose devices name it
        uids = {uid: None for tree in self._all() for uid in _uids(tree)}
        for number, uid in enumerate(uids, 1):
            self._give(uid, f"00000000-0000-4000-8000-{number:012x}")
        for kind, trees in sorted(self._trees.items(), key=lambda item: (_FIRST.get(item[0], len(_FIRST)), item[0])):
            if kind == "ReplicaSet":
                self._name_replica_sets(trees)
            if kind not in ("Pod", "PersistentVolumeClaim", "CSINode"):
                self._number(kind, {_name(tree): None for tree in trees})
        for tree in self._trees.get("StatefulSet", ()):
            self._name_members(tree)
        for kind in ("Pod", "PersistentVolumeClaim"):
            self._number(kind, {_name(tree): None for tree in self._trees.get(kind, ())})

    def _number(self, kind: str, names: Iterable[str]) -> None:
        fresh = sorted(name for name in names if name not in self._names)
        width = len(str(len(fresh)))
        for number, name in enumerate(fresh, 1):
            self._give(name, f"{_SHORT.get(kind, kind.lower())}-{number:0{width}d}")

    def _name_replica_sets(self, trees: Iterable[Tree]) -> None:
        """Those that are called after their deployment and the hash of their template: whoever has their name finds it by that."""
        deployments = {_name(tree) for tree in self._trees.get("Deployment", ())}
        for tree in trees:
            labels = (tree.get("metadata") or {}).get("labels") or {}
            deployment, _, ending = _name(tree).rpartition("-")
            if deployment in deployments and ending == labels.get(TEMPLATE_HASH) and _name(tree) not in self._names:
                self._give(_name(tree), f"{self.name(deployment)}-{self.name(ending)}")

    def _name_members(self, tree: Tree) -> None:
        """The pods of a stateful set and their claims, which are called after it."""
        owner = _name(tree)
        templates = [_name(one) for one in (tree.get("spec") or {}).get("volumeClaimTemplates") or ()]
        members = [_name(pod) for pod in self._trees.get("Pod", ()) if _name(pod).rpartition("-")[0] == owner]
        for template in templates:
            if template not in self._names:
                self._give(template, f"volume-{len(self._names)}")
        for member in members:
            ordinal = member.rpartition("-")[2]
            if ordinal.isdecimal() and member not in self._names:
                self._give(member, f"{self.name(owner)}-{ordinal}")
        for claim in self._trees.get("PersistentVolumeClaim", ()):
            for template in templates:
                prefix, ordinal = f"{template}-{owner}-", _name(claim).rpartition("-")[2]
                if _name(claim) == prefix + ordinal and ordinal.isdecimal() and _name(claim) not in self._names:
                    self._give(_name(claim), f"{self.name(template)}-{self.name(owner)}-{ordinal}")

    def _all(self) -> Iterator[Tree]:
        for trees in self._trees.values():
            yield from trees

    # Objects

    def _object(self, tree: Tree) -> Tree:
        return {key: value if key in ("kind", "apiVersion") else self._walk(value, key) for key, value in tree.items()}

    def _walk(self, value: Any, field: str, parent: str = "") -> Any:
        """A value under its new names. `field` is what it is called, `parent` what holds it is called."""
        if isinstance(value, str):
            return self._text(value, field, parent)
        if isinstance(value, list):
            return [self._walk(item, field, parent) for item in value]
        if not isinstance(value, dict) or field in KEPT_TREES:
            return value
        if field == "annotations":
            return dict(self._annotations(value))
        if field in RESOURCES and all(isinstance(item, str | int | float) for item in value.values()):
            return {self.resource(key): item for key, item in value.items()}
        if field in QUOTAS:
            return {self.counted(key): item for key, item in value.items()}
        if field in LABELS and all(isinstance(item, str) for item in value.values()):
            return {self.key(key): self.value(key, item) for key, item in value.items()}
        if field in NAMED and all(isinstance(item, str) for item in value.values()):
            return {self.name(key): self._text(item, field, parent) for key, item in value.items()}
        if "key" in value and isinstance(value["key"], str):
            return self._keyed(value, field)
        if field in REFERENCES:
            value = self._owner(value)
        return {
            key: self._walk(item, key, field) for key, item in value.items() if key not in DROPPED or _is_port(field)
        }

    def _text(self, value: str, field: str, parent: str) -> str:
        if field in QUALIFIED and not is_kept_domain(value):
            return f"example.com/{self.name(value)}"
        if field in KEPT_FIELDS or harmless(value):
            return value
        if field in KEYS:
            return self.key(value)
        if field == "image" or (field == "names" and parent == "images"):
            return self.image(value, on_node=field == "names")
        if field in ("resourceName", "extendedResourceName") or (field == "name" and parent in METRICS):
            return self.resource(value)
        if field == "request":
            return "/".join(self.name(part) for part in value.split("/"))
        if field in ("driver", "provisioner", "attacher") or (field == "name" and parent == "drivers"):
            return value if is_kept_driver(value) else self.name(value)
        if field == "hostIP":
            return self._address(value)
        return self.name(value)

    def _keyed(self, value: Tree, field: str) -> Tree:
        """A requirement, a taint, a toleration: the key says what becomes of the values."""
        key = value["key"]
        changed = {
            name: self._walk(item, name, field)
            for name, item in value.items()
            if name not in ("key", "value", "values")
        }
        changed["key"] = key if field == "matchFields" else self.key(key)
        if isinstance(value.get("value"), str):
            changed["value"] = self.value(key, value["value"])
        if "values" in value:
            changed["values"] = [
                self.value("" if field == "matchFields" else key, one) for one in value["values"] or ()
            ]
        return changed

    def _owner(self, value: Tree) -> Tree:
        known = KINDS.of_kind(value.get("apiVersion", ""), value.get("kind", ""))
        return value if known is not None else {**value, "apiVersion": "example.com/v1", "kind": "Custom"}

    def _address(self, value: str) -> str:
        """The address of a host port: equal ones stay equal, and all addresses stay all addresses."""
        if value in ("", "0.0.0.0", "::", "127.0.0.1"):
            return value
        if value not in self._addresses:
            number = len(self._addresses) + 1
            self._addresses[value] = f"198.18.{number // 256}.{number % 256}"
        return self._addresses[value]

    def _annotations(self, annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """What is kept of annotations: also how simulated pods behave, which may be said of one container by its name."""
        for key, value in annotations.items():
            if key.startswith(OWN_ANNOTATIONS):
                what, dot, container = key.removeprefix(OWN_ANNOTATIONS).partition(".")
                if harmless(value) or is_behaviour(value):
                    yield OWN_ANNOTATIONS + what + (f".{self.name(container)}" if dot else ""), value
            elif key == SAFE_VOLUMES:
                yield key, ",".join(self.name(one.strip()) for one in value.split(","))
            elif kept_annotation(key):
                plain = value in ("true", "false", "yes", "no") or harmless(value) or is_kept_driver(value)
                yield key, value if plain else self.name(value)


def _left_out(what: str) -> str:
    """What is missing, without a name of a namespace or file."""
    kind = what.partition(" ")[0]
    return kind if any(one.kind == kind for one in KINDS) else "a file"


def _is_port(field: str) -> bool:
    return field == "ports"


def _name(tree: Tree) -> str:
    name: str = (tree.get("metadata") or {}).get("name", "")
    return name


def _uids(tree: Tree) -> Iterator[str]:
    metadata = tree.get("metadata") or {}
    if metadata.get("uid"):
        yield metadata["uid"]
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("uid"):
            yield owner["uid"]


def _numeric_keys(value: Any) -> Iterator[str]:
    """Keys that some requirement or toleration compares by `Gt` or `Lt`."""
    if isinstance(value, dict):
        if value.get("operator") in ("Gt", "Lt") and isinstance(value.get("key"), str):
            yield value["key"]
        for item in value.values():
            yield from _numeric_keys(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numeric_keys(item)

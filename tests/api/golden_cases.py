"""Recorded answers of a Kubernetes API server, as cases for the strategies.

A miniature of the write path (decode, default, prepare, validate) runs the creates and updates of `tests/golden/api`
in this process and compares objects and causes. What needs more than the object itself (admission, allocation, other
objects) is left out by name below; requests that fail for such reasons are not cases.
"""

from __future__ import annotations

import copy
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bayplan.api import codec
from bayplan.api.errors import FieldError, invalid_object
from bayplan.api.kinds import Kind, KindTable
from bayplan.api.optional_kinds import OPTIONAL
from bayplan.api.strategies import strategy_for
from bayplan.api.types import core_v1
from bayplan.api.validation.meta import UpdateChecks, validate_object_meta, validate_updated_meta

GOLDEN = Path(__file__).parent.parent / "golden" / "api"
OWN = Path(__file__).parent / "strategy_answers.json"
"""Answers of kube-apiserver 1.36.2 to creates and changes near the bounds of the rules of some kinds."""
NAMESPACE = "gold-ns"
UID = "11111111-2222-3333-4444-555555555555"
TIME = "2030-01-02T03:04:05Z"
KINDS = KindTable()
for optional in OPTIONAL:
    KINDS.add(optional)

# Not the strategies' doing, by name.
ALLOCATED_SERVICE_FIELDS = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
ADMISSION_POD_FIELDS = ("serviceAccountName", "serviceAccount", "priority", "preemptionPolicy")
ADMISSION_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
ADMISSION_FINALIZERS = (
    "kubernetes.io/pvc-protection",
    "kubernetes.io/pv-protection",
    "kubernetes.io/vac-protection",
    "scheduling.k8s.io/podgroup-protection",
)
SERVER_METADATA = ("managedFields", "resourceVersion", "uid", "creationTimestamp")


@dataclass
class Outcome:
    """One compared step."""

    scenario: str
    step: str
    name: str
    expected: Any
    actual: Any

    @property
    def matches(self) -> bool:
        """Whether the answer is the recorded one."""
        return bool(self.expected == self.actual)


@dataclass
class Player:
    """Plays one scenario."""

    scenario: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)
    captured: dict[str, Any] = field(default_factory=dict)

    def play(self) -> Iterator[Outcome]:
        """Run the steps; yields those that can be compared."""
        for step in self.scenario["steps"]:
            request = step.get("request")
            if not request or "path" not in request:
                continue
            path = request["path"].replace("${ns}", NAMESPACE)
            expect = step.get("expect") or {}
            found = parse_path(path)
            if found is None:
                continue
            kind, subresource, namespace, name = found
            if request["method"] == "GET" and path in self.objects:
                for variable, pointer in (step.get("capture") or {}).items():
                    if pointer == "":
                        self.captured[variable] = codec.to_tree(self.objects[path])
                continue
            if (
                request["method"] not in ("POST", "PUT", "PATCH")
                or "body" not in request
                or subresource not in ("", "status", "approval", "finalize")
            ):
                continue
            if expect and (expect.get("code") not in (200, 201, 422) or not isinstance(expect.get("body"), dict)):
                continue
            if (request.get("query") or {}).keys() - {"fieldManager"}:
                continue
            body = self.substitute(request["body"])
            actual = self.write(request, path, kind, subresource, namespace, name, body)
            if actual is None or step.get("compare") not in ("exact", "subset", "status"):
                continue
            if "only" in step or "view" in step:
                continue
            yield self.compare(step, kind, expect, actual)

    def substitute(self, value: Any) -> Any:
        """Variables and generators of the transcript replaced."""
        if isinstance(value, str):
            if value.startswith("${") and value.endswith("}") and value[2:-1] in self.captured:
                return copy.deepcopy(self.captured[value[2:-1]])
            return value.replace("${ns}", NAMESPACE).replace("${uid}", UID)
        if isinstance(value, list):
            return [self.substitute(item) for item in value]
        if isinstance(value, dict):
            if "$repeat" in value:
                return value["$repeat"] * value["$count"]
            if "$range" in value:
                return [json.loads(json.dumps(value["$item"]).replace("${i}", str(i))) for i in range(value["$range"])]
            if "$merge" in value:
                base: Any = {}
                for part in value["$merge"]:
                    base = merge_patch(base, self.substitute(part))
                return base
            return {self.substitute(key): self.substitute(item) for key, item in value.items()}
        return value

    def write(
        self, request: dict[str, Any], path: str, kind: Kind, subresource: str, namespace: str, name: str, body: Any
    ) -> Any:
        """The object, or the list of errors with what the error message needs; None if the step is no case."""
        if request["method"] == "POST":
            return self.create(path, kind, namespace, body)
        target = path.removesuffix(f"/{subresource}")
        old = self.objects.get(target)
        if old is None:
            return None
        if request["method"] == "PATCH":
            content = (request.get("headers") or {}).get("Content-Type", "")
            tree = codec.to_tree(old)
            if "merge-patch" in content:
                if "strategic" in content and any(isinstance(item, list) for item in walk(body)):
                    return None
                tree = merge_patch(tree, body)
            elif "json-patch" in content:
                tree = json_patch(tree, body)
            else:
                return None
            body = tree
        elif (body.get("metadata") or {}).get("name") != name:
            return None
        elif not strategy_for(kind).allow_unconditional_update and "resourceVersion" not in body["metadata"]:
            return None  # refused before the strategy is asked
        return self.update(target, kind, subresource, old, body)

    def create(self, path: str, kind: Kind, namespace: str, body: Any) -> Any:
        """The create of a server without state."""
        strategy = strategy_for(kind)
        try:
            obj = codec.decode_kind(kind, json.dumps(body).encode())
        except codec.DecodeError as error:
            return error
        metadata = obj.metadata
        if kind.namespaced:
            metadata.namespace = namespace
        if metadata.generate_name and not metadata.name:
            metadata.name = metadata.generate_name[:58] + "abcde"
        metadata.uid, metadata.creation_timestamp = UID, TIME
        metadata.self_link, metadata.managed_fields = "", ()
        metadata.deletion_timestamp = metadata.deletion_grace_period_seconds = None
        if strategy.counts_generation:
            metadata.generation = 1
        try:
            strategy.default(obj)
            admit(kind, obj)
            strategy.default(obj)
            early = strategy.early_warnings(obj)
            strategy.apply_gates(obj, None, ())
            strategy.prepare_create(obj)
            if kind.plural == "services":
                allocate(obj.spec)
        except codec.DecodeError as error:
            return error
        errors = validate_object_meta(
            metadata,
            namespaced=kind.namespaced,
            name_rule=strategy.name_is_checked_as,
            name_errors=strategy.name_errors(obj),
        )
        errors = [*errors, *strategy.validate(obj), *strategy.validate_create(obj)]
        if errors:
            return errors, metadata.name
        warnings = [*early, *strategy.warnings(obj, None)]
        metadata.resource_version = "5"
        self.objects[f"{path}/{metadata.name}"] = obj
        return obj, warnings

    def update(self, path: str, kind: Kind, subresource: str, old: Any, body: Any) -> Any:
        """The update of a server without state."""
        strategy = strategy_for(kind)
        obj = codec.decode_kind(kind, json.dumps(body).encode())
        metadata = obj.metadata
        metadata.namespace, metadata.resource_version = old.metadata.namespace, "5"
        metadata.uid, metadata.creation_timestamp = UID, TIME
        if metadata.deletion_timestamp is None:
            metadata.deletion_timestamp = old.metadata.deletion_timestamp
        metadata.self_link, metadata.managed_fields, metadata.generation = "", (), old.metadata.generation
        before = msgspec.json.encode(old)
        strategy.default(obj)
        if subresource == "status":
            strategy.prepare_status_update(obj, old)
            own = strategy.validate_status_update(obj, old)
        elif subresource:
            strategy.prepare_subresource_update(subresource, obj, old)
            own = strategy.validate_subresource_update(subresource, obj, old)
        else:
            strategy.apply_gates(obj, old, ())
            strategy.prepare_update(obj, old)
            if kind.plural == "services":
                allocate(obj.spec)
            if strategy.counts_generation and strategy.spec_changed(obj, old):
                metadata.generation += 1
            own = [*strategy.validate(obj), *strategy.validate_update(obj, old)]
        assert msgspec.json.encode(old) == before, f"{kind} strategy changed the old object"
        rule = strategy.metadata_rule(obj)
        if subresource:
            checks = strategy.status_checks
        else:
            checks = strategy.update_checks if rule is not None else UpdateChecks(0, 0)
        errors = [
            *validate_updated_meta(
                metadata, old.metadata, checks, namespaced=kind.namespaced, name_rule=rule or "path-segment"
            ),
            *own,
        ]
        if errors:
            return errors, metadata.name
        self.objects[path] = obj
        if subresource:
            return obj, strategy.status_warnings(obj) if subresource == "status" else []
        return obj, strategy.warnings(obj, old)

    def compare(self, step: dict[str, Any], kind: Kind, expect: dict[str, Any], actual: Any) -> Outcome:
        """Expected and actual, both without what is not the strategies' doing."""
        scenario = self.scenario["scenario"]
        body = expect["body"]
        if isinstance(actual, codec.DecodeError):
            return Outcome(scenario, step["id"], step["name"], body.get("message"), str(actual))
        first, second = actual
        if body.get("kind") == "Status":
            wanted: Any = sorted((c["field"], c["reason"], c["message"]) for c in body["details"].get("causes", ()))
            if isinstance(first, list):
                given: Any = sorted((e.field, e.type.reason, e.body) for e in first)
                if step["compare"] == "exact" and body.get("message"):
                    wanted = {"causes": wanted, "message": body["message"]}
                    given = {"causes": given, "message": message_of(kind, second, first)}
                if step["compare"] == "status":
                    wanted, given = [item[:2] for item in wanted], [item[:2] for item in given]
            else:
                given = "accepted"
            return Outcome(scenario, step["id"], step["name"], normalise(wanted), normalise(given))
        if isinstance(first, list):
            return Outcome(scenario, step["id"], step["name"], "accepted", [str(error) for error in first])
        wanted, given = without_foreign(kind, copy.deepcopy(body)), without_foreign(kind, codec.to_tree(first))
        for pointer in step.get("ignore", ()):
            for tree in (wanted, given):
                remove(tree, pointer.split("/")[1:])
        wanted = {"object": wanted, "warnings": (expect.get("headers") or {}).get("Warning", [])}
        given = {"object": given, "warnings": [f"299 - {json.dumps(text, ensure_ascii=False)}" for text in second]}
        for one in (wanted, given):
            for member in ("kind", "apiVersion"):
                one["object"].pop(member, None)
        return Outcome(scenario, step["id"], step["name"], normalise(wanted), normalise(given))


def admit(kind: Kind, obj: Any) -> None:
    """As much of admission and allocation as validation depends on."""
    if kind.plural == "pods":
        spec = obj.spec
        spec.service_account_name = spec.service_account_name or "default"
        token = core_v1.VolumeProjection(service_account_token=core_v1.ServiceAccountTokenProjection(path="token"))
        volume = core_v1.Volume(name="kube-api-access-abcde", projected=core_v1.ProjectedVolumeSource(sources=(token,)))
        mount = core_v1.VolumeMount(
            name=volume.name, mount_path="/var/run/secrets/kubernetes.io/serviceaccount", read_only=True
        )
        spec.volumes += (volume,)
        for container in spec.containers + spec.init_containers:
            if all(one.mount_path != mount.mount_path for one in container.volume_mounts):
                container.volume_mounts += (mount,)


def allocate(spec: core_v1.ServiceSpec) -> None:
    """Address and family of a service on a cluster of one family."""
    if spec.type != "ExternalName":
        if not spec.cluster_ip:
            spec.cluster_ip, spec.cluster_ips = "10.0.0.10", ("10.0.0.10",)
        spec.ip_families = spec.ip_families or ("IPv4",)
        spec.ip_family_policy = spec.ip_family_policy or "SingleStack"


def message_of(kind: Kind, name: str, errors: list[FieldError]) -> str:
    """The message of the refusal."""
    group = kind.group if kind.storage_group is None else kind.storage_group
    return invalid_object(kind.kind, group, name, errors).message


def parse_path(path: str) -> tuple[Kind, str, str, str] | None:
    """Kind, subresource, namespace and name of a URL path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api":
        group, version, rest = "", parts[1] if len(parts) > 1 else "", parts[2:]
    elif len(parts) > 2:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and KINDS.of_resource(group, version, rest[2]) is not None:
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return None
    kind = KINDS.of_resource(group, version, rest[0])
    if kind is None:
        return None
    return kind, rest[2] if len(rest) > 2 else "", namespace, rest[1] if len(rest) > 1 else ""


def walk(value: Any) -> Iterator[Any]:
    """The value and all values inside."""
    yield value
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from walk(item)


def remove(tree: Any, parts: list[str]) -> None:
    """Take out what a JSON pointer names; `*` stands for every item."""
    head, *rest = parts
    if isinstance(tree, list):
        for index, item in enumerate(tree):
            if rest and head in ("*", str(index)):
                remove(item, rest)
    elif isinstance(tree, dict):
        if rest:
            remove(tree.get(head), rest)
        else:
            tree.pop(head, None)


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, patch: list[dict[str, Any]]) -> Any:
    """As much of RFC 6902 as the transcripts use."""
    result = copy.deepcopy(target)
    for operation in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        place = result
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        if operation["op"] == "remove":
            del place[int(last) if isinstance(place, list) else last]
        elif operation["op"] in ("add", "replace"):
            if isinstance(place, list):
                if operation["op"] == "replace":
                    place[int(last)] = operation["value"]
                else:
                    place.insert(len(place) if last == "-" else int(last), operation["value"])
            else:
                place[last] = operation["value"]
    return result


def without_foreign(kind: Kind, tree: dict[str, Any]) -> dict[str, Any]:
    """An object without what others than the strategy set."""
    metadata = tree.get("metadata") or {}
    for name in SERVER_METADATA:
        metadata.pop(name, None)
    if "finalizers" in metadata:
        metadata["finalizers"] = [one for one in metadata["finalizers"] if one not in ADMISSION_FINALIZERS]
        if not metadata["finalizers"]:
            del metadata["finalizers"]
    spec = tree.get("spec") or {}
    if kind.plural == "services":
        for name in ALLOCATED_SERVICE_FIELDS:
            spec.pop(name, None)
        for port in spec.get("ports", ()):
            port.pop("nodePort", None)
    if kind.plural == "pods":
        for name in ADMISSION_POD_FIELDS:
            spec.pop(name, None)
        _without_token_volume(spec)
        tolerations = [one for one in spec.get("tolerations", ()) if one.get("key") not in ADMISSION_TOLERATIONS]
        spec.pop("tolerations", None)
        if tolerations:
            spec["tolerations"] = tolerations
    if kind.plural == "nodes":
        taints = [one for one in spec.pop("taints", ()) if one["key"] not in ADMISSION_TOLERATIONS]
        if taints:
            spec["taints"] = taints
    if kind.plural == "persistentvolumeclaims":
        spec.pop("storageClassName", None)
    return tree


def _without_token_volume(spec: dict[str, Any]) -> None:
    for holder, member in (
        (spec, "volumes"),
        *((c, "volumeMounts") for c in spec.get("containers", []) + spec.get("initContainers", [])),
    ):
        kept = [one for one in holder.pop(member, ()) if not one["name"].startswith("kube-api-access-")]
        if kept:
            holder[member] = kept


_NORMAL = (
    (re.compile(re.escape(NAMESPACE)), "<ns>"),
    (re.compile(r"<var:uid\w*>|" + UID), "<uid>"),
    (re.compile(r"20(2[4-9]|[3-9]\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<time>"),
)


def normalise(value: Any) -> Any:
    """As the recording spells what differs from run to run."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    for pattern, replacement in _NORMAL:
        text = pattern.sub(replacement, text)
    return json.loads(text)


_STRUCT = re.compile(r"(Invalid value|Duplicate value|Unsupported value): [\[{].*?[\]}](?=: |$)", re.DOTALL)


def loosely_equal(expected: Any, actual: Any) -> bool:
    """Equality but for `<struct>`, `<diff>`, `<ip>` and the like, which stand for anything, and for empty lists,
    which are written as null."""
    if expected is None and actual == []:
        return True
    if isinstance(expected, str) and isinstance(actual, str):
        if expected == actual:
            return True
        pattern = re.escape(expected)
        for mark in ("<struct>", "<diff>", "<ip>", "<gen5>", "<nodePort>", "<microtime>"):
            pattern = pattern.replace(re.escape(mark), "(?s:.*?)")
        return re.fullmatch(pattern, actual) is not None
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(loosely_equal(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(loosely_equal, expected, actual))
    return bool(expected == actual)


def outcomes() -> Iterator[Outcome]:
    """All compared steps of the transcripts: of `tests/golden/api`, and those recorded for strategies alone."""
    for path in (GOLDEN / "02-crud.json", GOLDEN / "03-validation.json", OWN):
        data = json.loads(path.read_text())
        for scenario in data["scenarios"]:
            yield from Player(scenario).play()


def main() -> None:
    """Print the match rate and what differs: `python -m tests.api.golden_cases [SCENARIO-PREFIX] [-v]`."""
    wanted = [argument for argument in sys.argv[1:] if argument != "-v"]
    total: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for outcome in outcomes():
        if wanted and not any(outcome.scenario.startswith(prefix) for prefix in wanted):
            continue
        total[outcome.scenario] += 1
        if loosely_equal(outcome.expected, outcome.actual):
            good[outcome.scenario] += 1
        elif "-v" in sys.argv:
            print(
                f"{outcome.scenario} {outcome.step} {outcome.name}\n   want {shown(outcome.expected)}\n   have "
                f"{shown(outcome.actual)}"
            )
    if "-v" not in sys.argv:
        for scenario in total:
            if good[scenario] != total[scenario]:
                print(f"{scenario}: {good[scenario]}/{total[scenario]}")
    print(f"{sum(good.values())}/{sum(total.values())}")


def shown(value: Any) -> str:
    """JSON for reading."""
    return json.dumps(value, ensure_ascii=False)[:1500]


if __name__ == "__main__":
    main()

"""What pods and templates are warned of. Texts and conditions are those of `pkg/api/pod/warnings.go`."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.types import core_v1
from bayplan.api.validation.pods.pod_warnings import app_armor_warnings, pod_warnings

NO_SELECTOR = "a null labelSelector results in matching no pod"
OLD_LABEL = "beta.kubernetes.io/os"
OLD_LABEL_TEXT = 'deprecated since v1.14; use "kubernetes.io/os" instead'


def warnings(
    spec: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    prefix: str = "",
    **container: Any,
) -> list[str]:
    tree = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"containers": [{"name": "c", "image": "x", **container}], **(spec or {})},
    }
    found = codec.from_tree(core_v1.Pod, tree)
    return pod_warnings(prefix, found.spec, found.metadata)


IN_OLD = {"matchExpressions": [{"key": OLD_LABEL, "operator": "Exists"}]}
NODE = "spec.affinity.nodeAffinity"
REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"affinity": {}}, []),
        ({"affinity": {"nodeAffinity": {}}}, []),
        ({"nodeSelector": {OLD_LABEL: "linux"}}, [f"spec.nodeSelector[{OLD_LABEL}]: {OLD_LABEL_TEXT}"]),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [IN_OLD]}}}},
            [f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: {OLD_LABEL} is {OLD_LABEL_TEXT}"],
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1, "preference": IN_OLD}]}}},
            [f"{NODE}.{PREFERRED}[0].preference.matchExpressions[0].key: {OLD_LABEL} is {OLD_LABEL_TEXT}"],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": OLD_LABEL, "labelSelector": {}}]},
            [f"spec.topologySpreadConstraints[0].topologyKey: {OLD_LABEL} is {OLD_LABEL_TEXT}"],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone"}]},
            [f"spec.topologySpreadConstraints[0].labelSelector: {NO_SELECTOR}"],
        ),
    ],
)
def test_placement_by_old_labels_or_without_a_selector(spec: dict[str, Any], expected: list[str]) -> None:
    assert warnings(spec) == expected


@pytest.mark.parametrize("name", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(("selector", "is_warned"), [({"labelSelector": {}}, False), ({}, True)])
def test_affinity_to_no_pod(name: str, selector: dict[str, Any], is_warned: bool) -> None:
    term = {"topologyKey": "zone", **selector}
    weighted = {"weight": 1, "podAffinityTerm": term}
    expected = [
        f"spec.affinity.{name}.{REQUIRED}[0].labelSelector: {NO_SELECTOR}",
        f"spec.affinity.{name}.{PREFERRED}[0].podAffinityTerm.labelSelector: {NO_SELECTOR}",
    ]
    assert warnings({"affinity": {name: {REQUIRED: [term], PREFERRED: [weighted]}}}) == (expected if is_warned else [])


@pytest.mark.parametrize(("seconds", "is_warned"), [(-1, True), (0, False), (1, False)])
def test_a_negative_grace_period(seconds: int, is_warned: bool) -> None:
    text = "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
    assert warnings({"terminationGracePeriodSeconds": seconds}) == ([text] if is_warned else [])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}, []),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}]},
            ['spec.imagePullSecrets[1].name: duplicate name "a"'],
        ),
        ({"imagePullSecrets": [{"name": ""}]}, ['spec.imagePullSecrets[0].name: invalid empty name ""']),
        ({"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]}, []),
        ({"hostAliases": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]}, ['spec.hostAliases[1].ip: duplicate ip "1.1.1.1"']),
    ],
)
def test_what_is_named_twice(spec: dict[str, Any], expected: list[str]) -> None:
    assert warnings(spec) == expected


def fraction(path: str, value: str) -> str:
    return f'{path}: fractional byte value "{value}" is invalid, must be an integer'


RESOURCES = "spec.containers[0].resources"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"memory": "1", "ephemeral-storage": "1"}, "requests": {"memory": "1"}}, []),
        ({"limits": {"cpu": "100m"}}, []),
        ({"limits": {"memory": "2000m"}}, []),
        ({"limits": {"memory": "1500m"}}, [fraction(f"{RESOURCES}.limits[memory]", "1500m")]),
        (
            {"limits": {"memory": "1"}, "requests": {"memory": "100m"}},
            [fraction(f"{RESOURCES}.requests[memory]", "100m")],
        ),
        (
            {"limits": {"memory": "100m"}, "requests": {"memory": "1"}},
            [fraction(f"{RESOURCES}.limits[memory]", "100m")],
        ),
        ({"requests": {"ephemeral-storage": "1m"}}, [fraction(f"{RESOURCES}.requests[ephemeral-storage]", "1m")]),
        (
            {
                "limits": {"memory": "1m", "ephemeral-storage": "2m"},
                "requests": {"memory": "3m", "ephemeral-storage": "4m"},
            },
            [
                fraction(f"{RESOURCES}.limits[memory]", "1m"),
                fraction(f"{RESOURCES}.requests[memory]", "3m"),
                fraction(f"{RESOURCES}.limits[ephemeral-storage]", "2m"),
                fraction(f"{RESOURCES}.requests[ephemeral-storage]", "4m"),
            ],
        ),
    ],
)
def test_bytes_are_not_split(resources: dict[str, Any], expected: list[str]) -> None:
    assert warnings(resources=resources) == expected


def test_bytes_of_overhead_are_not_split() -> None:
    overhead = {"cpu": "100m", "memory": "1m", "ephemeral-storage": "2m"}
    assert warnings({"overhead": overhead}) == [
        fraction("spec.overhead[memory]", "1m"),
        fraction("spec.overhead[ephemeral-storage]", "2m"),
    ]


@pytest.mark.parametrize(
    ("env", "is_warned"),
    [
        ([{"name": "A", "value": "x"}], False),
        ([{"name": "A", "value": "x"}, {"name": "B", "value": "x"}], False),
        ([{"name": "A", "value": "x"}, {"name": "A", "value": "$(A) y"}], False),
        ([{"name": "A", "value": "x"}, {"name": "A", "value": "$(A)"}], True),
        ([{"name": "A", "value": "x"}, {"name": "A", "value": "y"}], True),
        ([{"name": "A", "value": "x"}, {"name": "A", "value": "$(B)"}], True),
        ([{"name": "A", "value": "x"}, {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}], True),
        (
            [
                {"name": "A", "value": "x"},
                {"name": "A", "value": "$(A) y", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            True,
        ),
    ],
)
def test_variables_that_hide_others(env: list[dict[str, Any]], is_warned: bool) -> None:
    text = 'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply'
    assert warnings(env=env) == ([text] if is_warned else [])


SECCOMP = 'non-functional in v1.27+; use the "seccompProfile" field instead'
POD_SECCOMP, OF_CONTAINER = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/c",
)
DEFAULT = {"type": "RuntimeDefault"}


@pytest.mark.parametrize(("context", "is_warned"), [(None, True), ({}, True), ({"seccompProfile": DEFAULT}, False)])
def test_seccomp_annotations_without_a_field(context: dict[str, Any] | None, is_warned: bool) -> None:
    given: dict[str, Any] = {} if context is None else {"securityContext": context}
    of_pod = [f"metadata.annotations[{POD_SECCOMP}]: {SECCOMP}"] if is_warned else []
    assert warnings(given, {POD_SECCOMP: "runtime/default"}) == of_pod
    of_container = [f"metadata.annotations[{OF_CONTAINER}]: {SECCOMP}"] if is_warned else []
    assert warnings(None, {OF_CONTAINER: "runtime/default"}, **given) == of_container
    assert warnings(None, {f"{OF_CONTAINER}d": "runtime/default"}, **given) == []


APPARMOR = "container.apparmor.security.beta.kubernetes.io/c"
APPARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'


@pytest.mark.parametrize(
    ("name", "of_pod", "of_container", "is_warned"),
    [
        (APPARMOR, None, None, True),
        (APPARMOR, {}, {}, True),
        (APPARMOR, {"appArmorProfile": DEFAULT}, None, False),
        (APPARMOR, {"appArmorProfile": {"type": "Unconfined"}}, None, True),
        (APPARMOR, None, {"appArmorProfile": {"type": "Unconfined"}}, False),
        (f"{APPARMOR}d", None, None, False),
        ("other", None, None, False),
    ],
)
def test_apparmor_annotations_that_say_more_than_the_fields(
    name: str, of_pod: dict[str, Any] | None, of_container: dict[str, Any] | None, is_warned: bool
) -> None:
    spec = {} if of_pod is None else {"securityContext": of_pod}
    container: dict[str, Any] = {} if of_container is None else {"securityContext": of_container}
    annotations = {name: "runtime/default"}
    text = f"metadata.annotations[{name}]: {APPARMOR_TEXT}"
    assert warnings(spec, annotations, "spec.template.", **container) == (
        [f"spec.template.{text}"] if is_warned else []
    )
    assert warnings(spec, annotations, **container) == []
    for system, expected in (("linux", [text] if is_warned else []), ("windows", [])):
        tree = {
            "metadata": {"annotations": annotations},
            "spec": {"os": {"name": system}, "containers": [{"name": "c", "image": "x", **container}], **spec},
        }
        assert app_armor_warnings(codec.from_tree(core_v1.Pod, tree)) == expected


def test_old_fields_of_claims_in_volumes() -> None:
    claim = {"resources": {"requests": {"storage": "1500m"}}}
    volumes: list[dict[str, Any]] = [
        {"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}},
        {"name": "b", "ephemeral": {}},
    ]
    path = "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]"
    assert warnings({"volumes": volumes}) == [fraction(path, "1500m")]


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ({"hostPort": 1, "hostIP": "10.0.0.1"}, {"hostPort": 1, "hostIP": "10.0.0.1"}, "duplicate"),
        ({"hostPort": 1, "hostIP": "10.0.0.1"}, {"hostPort": 1, "hostIP": "10.0.0.2"}, ""),
        ({"hostPort": 1, "hostIP": "10.0.0.1"}, {"hostPort": 1}, "dangerously ambiguous"),
        ({"hostPort": 1}, {"hostPort": 1, "hostIP": "10.0.0.1"}, "dangerously ambiguous"),
        ({"hostPort": 1}, {"hostPort": 2, "hostIP": "10.0.0.1"}, ""),
        ({"hostPort": 1}, {"hostPort": 2}, ""),
        ({"hostPort": 1}, {}, "overlapping"),
        ({}, {"hostPort": 1}, "overlapping"),
        ({}, {}, "duplicate"),
    ],
)
def test_ports_of_one_number(first: dict[str, Any], second: dict[str, Any], word: str) -> None:
    ports = [{"containerPort": 80, "protocol": "TCP", **one} for one in (first, second)]
    path = "spec.containers[0].ports"
    assert warnings(ports=ports) == ([f"{path}[1]: {word} port definition with {path}[0]"] if word else [])


@pytest.mark.parametrize(("names", "is_warned"), [(("a", "b"), False), (("a", "a"), True), ((None, None), False)])
def test_names_of_ports(names: tuple[str | None, str | None], is_warned: bool) -> None:
    ports = [{"containerPort": 80 + at, **({"name": name} if name else {})} for at, name in enumerate(names)]
    first = "spec.containers[0].ports[0]"
    text = f"with {first}, services and probes that select ports by name will use {first}"
    assert warnings(ports=ports) == (
        [f'spec.containers[0].ports[1]: duplicate port name "a" {text}'] if is_warned else []
    )

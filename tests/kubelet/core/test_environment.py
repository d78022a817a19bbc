"""What a container finds in its environment."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.types import core_v1
from bayplan.kubelet.core.containers.env_file import EnvFileError, value_in_env_file
from bayplan.kubelet.core.containers.environment import Sources, VariableError, needs, variables
from bayplan.kubelet.core.containers.expansion import expand, references
from bayplan.testing.builders import container, metadata, pod

ALLOCATABLE: dict[str, str | int | float] = {"cpu": "3500m", "memory": "8Gi", "ephemeral-storage": "100Gi"}


def config_map(name: str, **data: str) -> core_v1.ConfigMap:
    return core_v1.ConfigMap(metadata=metadata(name, "default"), data=data)


def secret(name: str, **data: bytes) -> core_v1.Secret:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return core_v1.Secret(metadata=metadata(name, "default"), data=encoded)


def value(name: str, text: str) -> core_v1.EnvVar:
    return core_v1.EnvVar(name=name, value=text)


def source(name: str = "X", **origin: Any) -> core_v1.EnvVar:
    return core_v1.EnvVar(name=name, value_from=core_v1.EnvVarSource(**origin))


def field(path: str, version: str = "v1") -> core_v1.EnvVar:
    return source(field_ref=core_v1.ObjectFieldSelector(field_path=path, api_version=version))


def amount(resource: str, divisor: str = "0", of: str = "") -> core_v1.EnvVar:
    selector = core_v1.ResourceFieldSelector(resource=resource, divisor=divisor, container_name=of)
    return source(resource_field_ref=selector)


POD = pod(
    "web",
    meta={"uid": "u-1", "labels": {"a": "1", "b": "2"}, "annotations": {"Note": 'say "x"', "example.com/k": "v"}},
    node_name="n1",
    service_account_name="runner",
    enable_service_links=True,
    containers=(
        container(resources=core_v1.ResourceRequirements(requests={"cpu": "250m"}, limits={"memory": "64Mi"})),
        container("side", cpu="1"),
    ),
    status=core_v1.PodStatus(
        host_ip="10.0.0.1",
        host_ips=(core_v1.HostIP(ip="10.0.0.1"), core_v1.HostIP(ip="fd00::1")),
        pod_ip="10.1.0.5",
        pod_ips=(core_v1.PodIP(ip="10.1.0.5"), core_v1.PodIP(ip="fd01::5")),
    ),
)
SOURCES = Sources(
    config_maps={"c": config_map("c", one="1", two="2"), "gone": None},
    secrets={"s": secret("s", one=b"secret", raw=b"\xff"), "gone": None},
    files={("v", "f"): "# comment\nA='first'\nB='two\nlines'\n", ("v", "gone"): None, ("v", "bad"): "A=x\n"},
    allocatable=ALLOCATABLE,
)


def environment(*env: core_v1.EnvVar, env_from: tuple[core_v1.EnvFromSource, ...] = ()) -> dict[str, str]:
    """The variables of the pod's first container with this `env`."""
    main = container(env=env, env_from=env_from, resources=POD.spec.containers[0].resources)
    found = variables(POD, main, SOURCES)
    assert len(dict(found)) == len(found), "a name stands twice"
    return dict(found)


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (field("metadata.name"), "web"),
        (field("metadata.namespace"), "default"),
        (field("metadata.uid"), "u-1"),
        (field("metadata.labels"), 'a="1"\nb="2"'),
        (field("metadata.labels['b']"), "2"),
        (field("metadata.labels['missing']"), ""),
        (field("metadata.annotations"), 'Note="say \\"x\\""\nexample.com/k="v"'),
        (field("metadata.annotations['example.com/k']"), "v"),
        (field("metadata.annotations['Note']", ""), 'say "x"'),
        (field("spec.nodeName"), "n1"),
        (field("spec.host"), "n1"),
        (field("spec.serviceAccountName"), "runner"),
        (field("status.hostIP"), "10.0.0.1"),
        (field("status.hostIPs"), "10.0.0.1,fd00::1"),
        (field("status.podIP"), "10.1.0.5"),
        (field("status.podIPs"), "10.1.0.5,fd01::5"),
        (amount("requests.cpu"), "1"),
        (amount("requests.cpu", "1m"), "250"),
        (amount("requests.cpu", of="side"), "1"),
        (amount("requests.memory"), "0"),
        (amount("limits.memory", "1Mi"), "64"),
        (amount("limits.memory", "1M"), "68"),
        (amount("limits.memory", of="side"), str(8 * 2**30)),
        (amount("limits.cpu"), "4"),
        (amount("limits.cpu", "1m"), "3500"),
        (amount("limits.ephemeral-storage", "1Gi"), "100"),
        (amount("requests.hugepages-2Mi"), "0"),
        (source(config_map_key_ref=core_v1.ConfigMapKeySelector(name="c", key="two")), "2"),
        (source(secret_key_ref=core_v1.SecretKeySelector(name="s", key="one")), "secret"),
        (source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="f", key="A")), "first"),
        (source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="f", key="B")), "two\nlines"),
        (source(), ""),
        (value("X", ""), ""),
    ],
    ids=lambda each: str(each)[:20] if isinstance(each, str) else "",
)
def test_a_variable_has_the_value_of_its_source(variable: core_v1.EnvVar, expected: str) -> None:
    assert environment(variable) == {"X": expected}


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (field("spec.containers"), "field label not supported: spec.containers"),
        (field("spec.restartPolicy"), "unsupported fieldPath: spec.restartPolicy"),
        (field("spec.nodeName['x']"), "field label does not support subscript: spec.nodeName['x']"),
        (field("metadata.name", "v2"), "unsupported pod version: v2"),
        (amount("limits.pods"), "unsupported container resource : limits.pods"),
        (amount("limits.cpu", of="nobody"), "container nobody not found"),
        (
            source(config_map_key_ref=core_v1.ConfigMapKeySelector(name="gone", key="x")),
            'configmap "gone" not found',
        ),
        (
            source(config_map_key_ref=core_v1.ConfigMapKeySelector(name="c", key="x")),
            "couldn't find key x in ConfigMap default/c",
        ),
        (source(secret_key_ref=core_v1.SecretKeySelector(name="gone", key="x")), 'secret "gone" not found'),
        (
            source(secret_key_ref=core_v1.SecretKeySelector(name="s", key="x")),
            "couldn't find key x in Secret default/s",
        ),
        (
            source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="gone", key="A", optional=True)),
            "couldn't parse env file",
        ),
        (
            source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="bad", key="A", optional=True)),
            "couldn't parse env file",
        ),
        (
            source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="f", key="C")),
            'environment variable key "C" not found in file "f"',
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_has_no_value_is_said_as_kubernetes_says_it(variable: core_v1.EnvVar, message: str) -> None:
    with pytest.raises(VariableError) as error:
        environment(variable)
    assert str(error.value) == message


@pytest.mark.parametrize(
    "variable",
    [
        source(config_map_key_ref=core_v1.ConfigMapKeySelector(name="gone", key="x", optional=True)),
        source(config_map_key_ref=core_v1.ConfigMapKeySelector(name="c", key="x", optional=True)),
        source(secret_key_ref=core_v1.SecretKeySelector(name="gone", key="x", optional=True)),
        source(secret_key_ref=core_v1.SecretKeySelector(name="s", key="x", optional=True)),
        source(file_key_ref=core_v1.FileKeySelector(volume_name="v", path="f", key="C", optional=True)),
    ],
)
def test_an_optional_variable_without_a_value_is_not_there(variable: core_v1.EnvVar) -> None:
    assert environment(variable) == {}


def test_labels_with_impossible_keys_are_refused() -> None:
    with pytest.raises(VariableError, match=r"^invalid key subscript in metadata.labels\['a b'\]: "):
        environment(field("metadata.labels['a b']"))


def all_of(
    prefix: str = "", *, config_map: str = "", secret: str = "", optional: bool = False
) -> core_v1.EnvFromSource:
    return core_v1.EnvFromSource(
        prefix=prefix,
        config_map_ref=core_v1.ConfigMapEnvSource(name=config_map, optional=optional) if config_map else None,
        secret_ref=core_v1.SecretEnvSource(name=secret, optional=optional) if secret else None,
    )


def test_later_sources_win_and_variables_of_their_own_win_over_all() -> None:
    everything = (all_of(config_map="c"), all_of("S_", secret="s"), all_of(secret="s"))
    found = environment(value("two", "own"), env_from=everything)
    assert found["one"] == "secret"
    assert found["two"] == "own"
    assert found["S_one"] == "secret"


def test_bytes_that_are_no_text_survive() -> None:
    found = environment(env_from=(all_of(secret="s"),))
    assert found["raw"].encode(errors="surrogateescape") == b"\xff"


@pytest.mark.parametrize(
    ("origin", "message"),
    [(all_of(config_map="gone"), 'configmap "gone" not found'), (all_of(secret="gone"), 'secret "gone" not found')],
)
def test_a_source_of_many_must_be_there_unless_it_is_optional(origin: core_v1.EnvFromSource, message: str) -> None:
    with pytest.raises(VariableError) as error:
        environment(env_from=(origin,))
    assert str(error.value) == message
    for reference in (origin.config_map_ref, origin.secret_ref):
        if reference is not None:
            reference.optional = True
    assert environment(env_from=(origin,)) == {}


def test_references_are_to_what_stands_before() -> None:
    found = environment(value("A", "1"), value("B", "$(A)$(C)$$(A)"), value("C", "3"), value("A", "x$(A)"))
    assert found == {"A": "x1", "B": "1$(C)$(A)", "C": "3"}


def test_only_what_is_needed_is_read() -> None:
    env = (
        source("A", config_map_key_ref=core_v1.ConfigMapKeySelector(name="c1", key="x")),
        core_v1.EnvVar(
            name="B",
            value="given",
            value_from=core_v1.EnvVarSource(secret_key_ref=core_v1.SecretKeySelector(name="unused", key="x")),
        ),
        source("C", file_key_ref=core_v1.FileKeySelector(volume_name="v", path="f", key="A")),
    )
    found = needs(container(env=env, env_from=(all_of(config_map="c2"), all_of(secret="s"))))
    assert found.config_maps == {"c1", "c2"}
    assert found.secrets == {"s"}
    assert found.files == {("v", "f")}


def service(
    name: str, namespace: str = "default", ip: str = "10.0.0.10", *ports: core_v1.ServicePort
) -> core_v1.Service:
    spec = core_v1.ServiceSpec(cluster_ip=ip, ports=ports or (core_v1.ServicePort(port=80),))
    return core_v1.Service(metadata=metadata(name, namespace), spec=spec)


def links(*services: core_v1.Service, namespace: str = "default", wanted: bool = True) -> dict[str, str]:
    asked = pod("p", namespace=namespace, enable_service_links=wanted)
    return dict(variables(asked, asked.spec.containers[0], Sources(services=services)))


def test_services_are_told_as_links() -> None:
    ports = (
        core_v1.ServicePort(name="web-ui", port=80, protocol="TCP"),
        core_v1.ServicePort(name="dns", port=53, protocol="UDP"),
    )
    assert links(service("my-app", "default", "fd00::10", *ports)) == {
        "MY_APP_SERVICE_HOST": "fd00::10",
        "MY_APP_SERVICE_PORT": "80",
        "MY_APP_SERVICE_PORT_WEB_UI": "80",
        "MY_APP_SERVICE_PORT_DNS": "53",
        "MY_APP_PORT": "tcp://[fd00::10]:80",
        "MY_APP_PORT_80_TCP": "tcp://[fd00::10]:80",
        "MY_APP_PORT_80_TCP_PROTO": "tcp",
        "MY_APP_PORT_80_TCP_PORT": "80",
        "MY_APP_PORT_80_TCP_ADDR": "fd00::10",
        "MY_APP_PORT_53_UDP": "udp://[fd00::10]:53",
        "MY_APP_PORT_53_UDP_PROTO": "udp",
        "MY_APP_PORT_53_UDP_PORT": "53",
        "MY_APP_PORT_53_UDP_ADDR": "fd00::10",
    }


def test_a_pod_hears_of_services_of_its_namespace_and_always_of_kubernetes() -> None:
    services = (
        service("kubernetes"),
        service("here", "ns"),
        service("elsewhere"),
        service("headless", "ns", "None"),
        service("unassigned", "ns", ""),
    )
    hosts = {name for name in links(*services, namespace="ns") if name.endswith("_SERVICE_HOST")}
    assert hosts == {"KUBERNETES_SERVICE_HOST", "HERE_SERVICE_HOST"}
    hosts = {name for name in links(*services, namespace="ns", wanted=False) if name.endswith("_SERVICE_HOST")}
    assert hosts == {"KUBERNETES_SERVICE_HOST"}


def test_a_service_of_the_pods_namespace_hides_that_of_the_cluster() -> None:
    found = links(service("kubernetes", "default", "10.0.0.1"), service("kubernetes", "ns", "10.9.9.9"), namespace="ns")
    assert found["KUBERNETES_SERVICE_HOST"] == "10.9.9.9"
    found = links(service("kubernetes", "ns", "10.9.9.9"), service("kubernetes", "default", "10.0.0.1"), namespace="ns")
    assert found["KUBERNETES_SERVICE_HOST"] == "10.9.9.9"


def test_variables_may_refer_to_services_and_hide_them() -> None:
    asked = pod("p", enable_service_links=False)
    main = container(env=(value("URL", "http://$(KUBERNETES_SERVICE_HOST)/"), value("KUBERNETES_PORT", "own")))
    found = dict(variables(asked, main, Sources(services=(service("kubernetes"),))))
    assert found["URL"] == "http://10.0.0.10/"
    assert found["KUBERNETES_PORT"] == "own"


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$(A)", "$$(A)"),
        ("$(B)", "$(B)"),
        ("$(A", "$(A"),
        ("$A", "$A"),
        ("$", "$"),
        ("$()", "$()"),
        ("$($(A)", "$($(A)"),
        ("a$(A)b$(A)", "a1b1"),
        ("$(EMPTY)", ""),
    ],
)
def test_references_are_replaced_where_they_have_a_value(text: str, expanded: str) -> None:
    assert expand(text, {"A": "1", "EMPTY": ""}) == expanded


def test_references_are_named() -> None:
    assert references("$(A)/$$(B)/$(C)$(A)") == {"A", "C"}


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("A='1'", "A", "1"),
        ("A='1'\n", "A", "1"),
        ("A='1'\nA='2'\n", "A", "1"),
        ("  A='1'  # comment\n", "A", "1"),
        ("A='a\nb\n'\nB='2'\n", "A", "a\nb\n"),
        ("A='a\nb\n'\nB='2'\n", "B", "2"),
        ("A='a'\r\nB='b\r\nc'\r\n", "B", "b\nc"),
        ("A='a=b # c'\n", "A", "a=b # c"),
        ("A= 'x'\n", "A", ""),
        ("A= 'x'\nB='2'\n", "B", "2"),
        ("A=''\n", "A", ""),
        ("\n\n# A='1'\n", "A", ""),
        ("A='1'\nnonsense\n", "A", "1"),
        ("", "A", ""),
    ],
)
def test_a_file_has_a_variable(text: str, name: str, found: str) -> None:
    assert value_in_env_file(text, name) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense\nA='1'", "invalid environment variable format at line 1: missing '='"),
        ("\n='1'", "invalid environment variable format at line 2: empty variable name"),
        ("A ='1'", "invalid environment variable format at line 1: whitespace before '=' is not allowed"),
        ("B=1", "invalid environment variable format at line 1: value must be enclosed in single quotes"),
        ('B="1"', "invalid environment variable format at line 1: value must be enclosed in single quotes"),
        ("B='1'x", "invalid environment variable format at line 1: unexpected content after closing quote"),
        ("B='\n\n'x", "invalid environment variable format at line 3: unexpected content after closing quote"),
        ("#\nB='1\n2\n", "invalid environment variable format starting at line 2: unclosed single quote"),
        ("B=", "invalid environment variable format at line 1: value must be enclosed in single quotes"),
    ],
)
def test_a_file_that_is_not_in_the_format_is_refused(text: str, message: str) -> None:
    with pytest.raises(EnvFileError) as error:
        value_in_env_file(text, "A")
    assert str(error.value) == message


@given(st.text(st.characters(exclude_characters="'\r", exclude_categories=["Cs"]), max_size=30))
def test_every_value_without_a_quote_can_be_written(text: str) -> None:
    assert value_in_env_file(f"# before\nX='{text}' # y\nZ='1'\n", "X") == text

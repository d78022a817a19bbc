"""Rules of single kinds that no recorded answer of kube-apiserver is about."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from bayplan.api import codec
from bayplan.api.errors import ErrorType
from bayplan.api.kinds import KindTable
from bayplan.api.optional_kinds import (
    COMPOSITE_POD_GROUP,
    METRICS,
    POD_CERTIFICATE_REQUEST,
    POD_GROUP,
    RESOURCE_POOL_STATUS_REQUEST,
)
from bayplan.api.strategies import strategy_for
from bayplan.api.strategies.base import Strategy
from bayplan.api.types import (
    autoscaling_v1,
    batch_v1,
    certificates_v1,
    certificates_v1beta1,
    core_v1,
    discovery_v1,
    meta_v1,
    networking_v1,
    resource_v1,
    resource_v1alpha3,
    storage_v1,
)
from bayplan.api.validation.ip_warnings import MOST_WARNINGS

KINDS = KindTable()


def strategy(group: str, version: str, plural: str) -> Any:
    kind = KINDS.of_resource(group, version, plural)
    assert kind is not None
    return strategy_for(kind)


def ranges(*cidrs: str) -> networking_v1.ServiceCIDR:
    return networking_v1.ServiceCIDR(
        metadata=meta_v1.ObjectMeta(name="r"), spec=networking_v1.ServiceCIDRSpec(cidrs=cidrs)
    )


@pytest.mark.parametrize(
    ("before", "now", "fields"),
    [
        (("10.0.0.0/16",), ("10.0.0.0/16",), []),
        (("10.0.0.0/16",), ("10.0.0.0/16", "fd00::/64"), []),  # a cluster gets its second family
        (("10.0.0.0/16",), ("10.1.0.0/16", "fd00::/64"), ["spec.cidrs[0]"]),
        (("10.0.0.0/16",), ("10.1.0.0/16",), ["spec.cidrs[0]"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16",), ["spec.cidrs"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16", "fd01::/64"), ["spec.cidrs[1]"]),
        (("10.0.0.0/16",), (), ["spec.cidrs"]),
        ((), ("10.0.0.0/16", "fd00::/64"), ["spec.cidrs"]),
        ((), ("10.0.0.0/16",), ["spec.cidrs"]),
        (("10.0.0.0/16",), ("10.1.0.0/16", "fd00::/64", "fd01::/64"), ["spec.cidrs"]),
        (("10.0.0.0/16", "fd00::/64"), ("10.0.0.0/16", "fd00::/64", "fd01::/64"), ["spec.cidrs"]),
    ],
)
def test_ranges_of_services_may_only_be_joined_by_a_second_family(
    before: tuple[str, ...], now: tuple[str, ...], fields: list[str]
) -> None:
    found = strategy("networking.k8s.io", "v1", "servicecidrs").validate_update(ranges(*now), ranges(*before))
    assert [one.field for one in found] == fields


@pytest.mark.parametrize(
    ("ip", "mode", "expected"),
    [("1.2.3.4", None, "VIP"), ("1.2.3.4", "Proxy", "Proxy"), ("", None, None)],
)
def test_addresses_of_load_balancers_are_virtual_unless_they_say_otherwise(
    ip: str, mode: str | None, expected: str | None
) -> None:
    ingress = core_v1.LoadBalancerIngress(ip=ip, hostname="" if ip else "h.example", ip_mode=mode)
    service = core_v1.Service(
        metadata=meta_v1.ObjectMeta(name="s", namespace="default"),
        spec=core_v1.ServiceSpec(type="LoadBalancer", ports=(core_v1.ServicePort(port=80),)),
        status=core_v1.ServiceStatus(load_balancer=core_v1.LoadBalancerStatus(ingress=(ingress,))),
    )
    strategy("", "v1", "services").default(service)
    assert [one.ip_mode for one in service.status.load_balancer.ingress] == [expected]


@pytest.mark.parametrize(("length", "fields"), [(250, []), (251, ["spec.controller"])])
def test_the_name_of_a_controller_of_ingresses_has_250_characters_at_most(length: int, fields: list[str]) -> None:
    controller = f"example.com/{'c' * (length - 12)}"
    ingress_class = networking_v1.IngressClass(
        metadata=meta_v1.ObjectMeta(name="c"), spec=networking_v1.IngressClassSpec(controller=controller)
    )
    assert [
        one.field for one in strategy("networking.k8s.io", "v1", "ingressclasses").validate(ingress_class)
    ] == fields


@pytest.mark.parametrize(
    ("suspend", "started", "condition", "active", "may_change"),
    [
        (True, False, "", 0, True),  # it has never begun
        (True, True, "True", 0, True),  # it was stopped
        (True, True, "", 0, False),
        (True, True, "False", 0, False),
        (True, True, "True", 1, False),  # a pod of it is left
        (True, False, "", 1, False),
        (False, False, "", 0, False),
        (False, True, "True", 0, False),
    ],
)
def test_where_pods_of_a_job_go_may_change_only_while_it_stands_still(
    suspend: bool, started: bool, condition: str, active: int, may_change: bool
) -> None:
    conditions = (batch_v1.JobCondition(type="Suspended", status=condition),) if condition else ()
    status = batch_v1.JobStatus(
        start_time="2026-01-01T00:00:00Z" if started else None, conditions=conditions, active=active
    )

    def job(**node_selector: str) -> batch_v1.Job:
        container = core_v1.Container(name="c", image="i")
        spec = core_v1.PodSpec(restart_policy="Never", containers=(container,), node_selector=node_selector)
        made = batch_v1.Job(
            metadata=meta_v1.ObjectMeta(name="j", namespace="default"),
            spec=batch_v1.JobSpec(template=core_v1.PodTemplateSpec(spec=spec), suspend=suspend),
            status=status,
        )
        strategy("batch", "v1", "jobs").default(made)
        return made

    found = strategy("batch", "v1", "jobs").validate_update(job(pool="a"), job())
    assert any(one.field.startswith("spec.template") and "immutable" in one.body for one in found) is not may_change


def test_kinds_without_rules_have_those_of_all() -> None:
    assert all(type(strategy_for(kind)) is Strategy for kind in METRICS)


def test_zones_in_schedules_are_warned_of_when_they_stay() -> None:
    job = batch_v1.CronJob(
        metadata=meta_v1.ObjectMeta(name="j"), spec=batch_v1.CronJobSpec(schedule="TZ=UTC 0 0 * * *")
    )
    rules = strategy("batch", "v1", "cronjobs")
    assert rules.warnings(job, None) == []
    assert len(rules.warnings(job, job)) == 1


def told(found: list[Any]) -> list[str]:
    return [one.field for one in found]


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_config_maps_and_secrets_hold_a_mebibyte(more: int, refused: bool) -> None:
    half = 512 * 1024
    config = core_v1.ConfigMap(
        data={"a": "é" * (half // 2)}, binary_data={"b": base64.b64encode(b"x" * (half + more)).decode()}
    )
    assert told(strategy("", "v1", "configmaps").validate(config)) == [""] * refused
    value = base64.b64encode(b"x" * (half * 2 - 1 + more)).decode()
    secret = core_v1.Secret(type="Opaque", data={"a": base64.b64encode(b"y").decode(), "b": value})
    assert told(strategy("", "v1", "secrets").validate(secret)) == ["data"] * refused


@pytest.mark.parametrize(
    ("target", "annotations", "expected"),
    [
        (None, {}, 80),
        (None, {"autoscaling.alpha.kubernetes.io/metrics": "[]"}, None),
        (50, {}, 50),
        (50, {"autoscaling.alpha.kubernetes.io/metrics": "[]"}, 50),
    ],
)
def test_old_autoscalers_aim_at_80_percent_unless_they_have_other_metrics(
    target: int | None, annotations: dict[str, str], expected: int | None
) -> None:
    spec = autoscaling_v1.HorizontalPodAutoscalerSpec(max_replicas=1, target_cpu_utilization_percentage=target)
    made = autoscaling_v1.HorizontalPodAutoscaler(
        metadata=meta_v1.ObjectMeta(name="h", annotations=annotations), spec=spec
    )
    strategy("autoscaling", "v1", "horizontalpodautoscalers").default(made)
    assert (made.spec.target_cpu_utilization_percentage, made.spec.min_replicas) == (expected, 1)


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("n", {}, {"kubernetes.io/metadata.name": "n"}),
        ("n", {"kubernetes.io/metadata.name": "other"}, {"kubernetes.io/metadata.name": "n"}),
        ("", {}, {}),  # its name is made up later
        ("", {"a": "b"}, {"a": "b"}),
    ],
)
def test_namespaces_are_labelled_with_their_names(name: str, labels: dict[str, str], expected: dict[str, str]) -> None:
    made = core_v1.Namespace(metadata=meta_v1.ObjectMeta(name=name, labels=labels))
    strategy("", "v1", "namespaces").default(made)
    assert made.metadata.labels == expected


@pytest.mark.parametrize(
    ("account", "fields"), [("", ["spec.volumes[1].projected.sources[1].serviceAccountToken"]), ("a", [])]
)
def test_pods_without_an_account_have_no_tokens(account: str, fields: list[str]) -> None:
    sources = (
        core_v1.VolumeProjection(config_map=core_v1.ConfigMapProjection(name="c")),
        core_v1.VolumeProjection(service_account_token=core_v1.ServiceAccountTokenProjection(path="token")),
    )
    volumes = (
        core_v1.Volume(name="a", empty_dir=core_v1.EmptyDirVolumeSource()),
        core_v1.Volume(name="b", projected=core_v1.ProjectedVolumeSource(sources=sources)),
    )
    spec = core_v1.PodSpec(
        containers=(core_v1.Container(name="c", image="i"),), volumes=volumes, service_account_name=account
    )
    pod = core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", namespace="default"), spec=spec)
    pods = strategy("", "v1", "pods")
    pods.default(pod)
    assert told(pods.validate(pod)) == fields


@pytest.mark.parametrize(("given", "expected"), [(None, 86400), (3600, 3600)])
def test_certificates_of_pods_are_good_for_a_day_at_most(given: int | None, expected: int) -> None:
    spec = certificates_v1beta1.PodCertificateRequestSpec(max_expiration_seconds=given)
    made = certificates_v1beta1.PodCertificateRequest(spec=spec)
    strategy_for(POD_CERTIFICATE_REQUEST).default(made)
    assert made.spec.max_expiration_seconds == expected


@pytest.mark.parametrize(
    ("version", "kind", "expected"),
    [
        ("v1alpha3", COMPOSITE_POD_GROUP, {"single": {}}),
        ("v1alpha2", POD_GROUP, "Pod"),
    ],
)
def test_groups_of_pods_are_disrupted_pod_by_pod_unless_they_say_otherwise(
    version: str, kind: Any, expected: Any
) -> None:
    for given, found in ((None, expected), ({"all": {}} if version == "v1alpha3" else "PodGroup", None)):
        made = codec.decode_kind(kind, json.dumps({"spec": {"disruptionMode": given}}).encode())
        strategy_for(kind).default(made)
        assert codec.to_tree(made)["spec"]["disruptionMode"] == (given if found is None else found)


@pytest.mark.parametrize(("count", "fields"), [(20000, []), (20001, ["ports"])])
def test_slices_of_endpoints_have_20000_ports_at_most(count: int, fields: list[str]) -> None:
    ports = tuple(discovery_v1.EndpointPort(name=f"p{index}", port=index + 1, protocol="TCP") for index in range(count))
    made = discovery_v1.EndpointSlice(address_type="IPv4", ports=ports)
    assert told(strategy("discovery.k8s.io", "v1", "endpointslices").validate(made)) == fields


@pytest.mark.parametrize(("count", "fields"), [(1000, []), (1001, ["endpoints"])])
def test_slices_have_1000_endpoints_at_most(count: int, fields: list[str]) -> None:
    endpoints = tuple(discovery_v1.Endpoint(addresses=("10.0.0.1",)) for _ in range(count))
    made = discovery_v1.EndpointSlice(address_type="IPv4", endpoints=endpoints)
    assert told(strategy("discovery.k8s.io", "v1", "endpointslices").validate_create(made)) == fields


@pytest.mark.parametrize(("count", "fields"), [(16, []), (17, ["endpoints[0].deprecatedTopology"])])
def test_endpoints_have_16_labels_at_most(count: int, fields: list[str]) -> None:
    topology = {f"k{index}": "v" for index in range(count)}
    endpoint = discovery_v1.Endpoint(addresses=("10.0.0.1",), deprecated_topology=topology)
    made = discovery_v1.EndpointSlice(address_type="IPv4", endpoints=(endpoint,))
    assert told(strategy("discovery.k8s.io", "v1", "endpointslices").validate_create(made)) == fields


@pytest.mark.parametrize(("count", "fields"), [(1000, []), (1001, ["status.pools"])])
def test_a_request_about_pools_tells_of_1000_at_most(count: int, fields: list[str]) -> None:
    pools = tuple(
        resource_v1alpha3.PoolStatus(driver="d.io", pool_name=f"p{index}", generation=1) for index in range(count)
    )
    status = resource_v1alpha3.ResourcePoolStatusRequestStatus(pool_count=1, pools=pools)
    old, new = (resource_v1alpha3.ResourcePoolStatusRequest(status=one) for one in (None, status))
    assert told(strategy_for(RESOURCE_POOL_STATUS_REQUEST).validate_status_update(new, old)) == fields


def test_warnings_about_blocks_of_policies_come_to_an_end() -> None:
    block = networking_v1.IPBlock(cidr="010.0.0.0/8")
    peers = tuple(networking_v1.NetworkPolicyPeer(ip_block=block) for _ in range(MOST_WARNINGS + 1))
    for count, expected in ((1, 1), (2, 2), (MOST_WARNINGS + 1, MOST_WARNINGS)):
        rule = networking_v1.NetworkPolicyIngressRule(from_=peers[:count])
        made = networking_v1.NetworkPolicy(spec=networking_v1.NetworkPolicySpec(ingress=(rule,)))
        assert len(strategy("networking.k8s.io", "v1", "networkpolicies").warnings(made, None)) == expected


@pytest.mark.parametrize(
    ("freed", "devices", "left"),
    [
        (("a",), ("a", "b"), ["b"]),
        ((), ("a", "b"), ["a", "b"]),
        (("a",), (), []),
        (("a", "b"), ("a", "b"), []),
    ],
)
def test_what_drivers_say_of_devices_goes_with_their_allocation(
    freed: tuple[str, ...], devices: tuple[str, ...], left: list[str]
) -> None:
    def claim(*names: str) -> Any:
        results = [{"request": "r", "driver": "d.io", "pool": "p", "device": name} for name in names]
        told = [{"driver": "d.io", "pool": "p", "device": name} for name in devices]
        tree = {"status": {"allocation": {"devices": {"results": results}}, "devices": told}}
        return codec.from_tree(resource_v1.ResourceClaim, tree)

    new = claim(*({"a", "b"} - set(freed)))
    strategy("resource.k8s.io", "v1", "resourceclaims").prepare_status_update(new, claim("a", "b"))
    assert [one.device for one in new.status.devices] == left


@pytest.mark.parametrize(("more", "wrong"), [(0, []), (1, ["status.attachmentMetadata", "status.attachError.message"])])
def test_attachments_tell_so_much_at_most(more: int, wrong: list[str]) -> None:
    status = storage_v1.VolumeAttachmentStatus(
        attachment_metadata={"ké": "é" * 131070 + "x" * (1 + more)},
        attach_error=storage_v1.VolumeError(message="é" * 512 + "x" * more),
    )
    made = storage_v1.VolumeAttachment(status=status)
    assert told(strategy("storage.k8s.io", "v1", "volumeattachments").validate_status_update(made, made)) == wrong


@pytest.mark.parametrize(
    ("before", "now", "forbidden"),
    [("", "YQ==", 0), ("YQ==", "YQ==", 0), ("YQ==", "Yg==", 1), ("YQ==", "", 1), ("", "", 0)],
)
def test_a_certificate_that_was_issued_stays(before: str, now: str, forbidden: int) -> None:
    old, new = (
        certificates_v1.CertificateSigningRequest(
            status=certificates_v1.CertificateSigningRequestStatus(certificate=one)
        )
        for one in (before, now)
    )
    found = strategy("certificates.k8s.io", "v1", "certificatesigningrequests").validate_status_update(new, old)
    assert [one.type for one in found].count(ErrorType.FORBIDDEN) == forbidden

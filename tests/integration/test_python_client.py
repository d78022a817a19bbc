"""The Python client that Kubernetes publishes, on an API server that runs alone. It decodes strictly: an answer without a field that must be there is an error."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest
from kubernetes import client, config, dynamic, utils, watch

from tests.integration.conformance.test_every_kind import BODIES, kind_of_path
from tests.integration.conftest import EXAMPLES, LiveCluster

NOT_TAKEN_BY_THE_CLIENT = frozenset(("limitranges", "resourcequotas", "leases", "events"))
"""Kinds whose example has what this client cannot say or read: numbers as quantities, an empty list that is null, micro-times of whole seconds."""

pytestmark = pytest.mark.xdist_group("lone-server")


@pytest.fixture
def api(lone_server: LiveCluster) -> client.ApiClient:
    """A client of the administrator."""
    configuration = client.Configuration()
    config.load_kube_config(str(lone_server.kubeconfig), client_configuration=configuration)
    return client.ApiClient(configuration)


@pytest.fixture
def namespace(api: client.ApiClient, request: pytest.FixtureRequest) -> str:
    """A namespace with the service account that a controller would make."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[-60:].strip("-")
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": name}})
    core.create_namespaced_service_account(name, {"metadata": {"name": "default"}})
    return name


def _typed(api: client.ApiClient, group: str, version: str) -> Any:
    """The class of a group version: `RbacAuthorizationV1Api` for `rbac.authorization.k8s.io/v1`."""
    words = (group or "core").removesuffix(".k8s.io").split(".")
    return getattr(client, "".join(word.capitalize() for word in [*words, version]) + "Api")(api)


def _snake(kind: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()


def test_every_kind_is_created_read_listed_and_deleted(api: client.ApiClient) -> None:
    namespace, problems = "conformance", {}
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": namespace}})
    core.create_namespaced_service_account(namespace, {"metadata": {"name": "default"}})
    for path, body in BODIES.items():
        kind = kind_of_path(path)
        if kind.plural in NOT_TAKEN_BY_THE_CLIENT:
            continue
        typed = _typed(api, kind.group, kind.version)
        noun = ("namespaced_" if kind.namespaced else "") + _snake(kind.kind)
        place = (namespace,) if kind.namespaced else ()
        try:
            created = getattr(typed, f"create_{noun}")(*place, body)
            name = created.metadata.name
            read = getattr(typed, f"read_{noun}")(name, *place)
            assert read.metadata.uid == created.metadata.uid
            listed = getattr(typed, f"list_{noun}")(*place, field_selector=f"metadata.name={name}")
            assert [one.metadata.uid for one in listed.items] == [created.metadata.uid]
            getattr(typed, f"delete_{noun}")(name, *place, grace_period_seconds=0)
        except (client.ApiException, ValueError, AttributeError, AssertionError) as error:
            problems[path] = f"{type(error).__name__}: {error}"
    assert problems == {}


def test_a_deployment_is_scaled_patched_and_replaced(api: client.ApiClient, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[client.V1Container(name="web", image="nginx:1")]),
    )
    spec = client.V1DeploymentSpec(
        replicas=2, selector=client.V1LabelSelector(match_labels={"app": "web"}), template=template
    )
    made = apps.create_namespaced_deployment(
        namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    )
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    assert made.metadata.creation_timestamp.tzinfo is not None
    apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}})
    assert apps.read_namespaced_deployment_scale("web", namespace).spec.replicas == 5
    container = {"name": "web", "image": "nginx:2"}
    patched = apps.patch_namespaced_deployment(
        "web", namespace, {"spec": {"template": {"spec": {"containers": [container]}}}}
    )
    assert patched.spec.template.spec.containers[0].image == "nginx:2"
    patched.metadata.labels = {"replaced": "yes"}
    assert apps.replace_namespaced_deployment("web", namespace, patched).metadata.labels == {"replaced": "yes"}
    with pytest.raises(client.ApiException) as refused:
        apps.replace_namespaced_deployment("web", namespace, made)
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")


def test_pages_and_watches_are_complete(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    for index in range(5):
        core.create_namespaced_config_map(
            namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"c{index}"), data={"a": str(index)})
        )
    first = core.list_namespaced_config_map(namespace, limit=3)
    assert first.metadata.remaining_item_count == 2
    rest = core.list_namespaced_config_map(namespace, limit=3, _continue=first.metadata._continue)
    assert [one.metadata.name for one in first.items + rest.items] == [f"c{index}" for index in range(5)]
    core.delete_collection_namespaced_config_map(namespace)
    watching = watch.Watch()
    seen = []
    for event in watching.stream(
        core.list_namespaced_config_map, namespace, resource_version=version, timeout_seconds=10
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 10:
            watching.stop()
    assert seen[:5] == [("ADDED", f"c{index}") for index in range(5)]
    assert sorted(seen[5:]) == [("DELETED", f"c{index}") for index in range(5)]


def test_a_lease_keeps_microseconds(api: client.ApiClient, namespace: str) -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.UTC)
    spec = client.V1LeaseSpec(holder_identity="me", lease_duration_seconds=15, acquire_time=now, renew_time=now)
    leases = client.CoordinationV1Api(api)
    leases.create_namespaced_lease(namespace, client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=spec))
    assert leases.read_namespaced_lease("l", namespace).spec.renew_time == now


def test_pods_are_evicted_and_tokens_and_reviews_made(api: client.ApiClient, namespace: str) -> None:
    core = client.CoreV1Api(api)
    container = client.V1Container(name="c", image="nginx")
    pod = client.V1Pod(metadata=client.V1ObjectMeta(name="p"), spec=client.V1PodSpec(containers=[container]))
    core.create_namespaced_pod(namespace, pod)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="p", namespace=namespace))
    assert core.create_namespaced_pod_eviction("p", namespace, eviction).kind == "Status"
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    token = core.create_namespaced_service_account_token("default", namespace, request).status.token
    review = client.V1TokenReview(spec=client.V1TokenReviewSpec(token=token))
    answer = client.AuthenticationV1Api(api).create_token_review(review)
    assert answer.status.user.username == f"system:serviceaccount:{namespace}:default"
    asked = client.V1ResourceAttributes(verb="list", resource="pods", namespace=namespace)
    access = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=asked))
    assert client.AuthorizationV1Api(api).create_self_subject_access_review(access).status.allowed is True


def test_the_dynamic_client_discovers_applies_and_watches(api: client.ApiClient, namespace: str) -> None:
    discovered = dynamic.DynamicClient(api)
    deployments = discovered.resources.get(api_version="apps/v1", kind="Deployment")
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}
    intent = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    applied = deployments.server_side_apply(body=intent, name="web", namespace=namespace, field_manager="test")
    assert applied.spec.replicas == 1
    intent["spec"] = {**intent["spec"], "replicas": 3}  # type: ignore[dict-item]
    other = {**intent, "spec": {"template": {"spec": {"containers": [{"name": "web", "image": "other"}]}}}}
    with pytest.raises(dynamic.exceptions.ConflictError):
        deployments.server_side_apply(body=other, name="web", namespace=namespace, field_manager="other")
    applied = deployments.server_side_apply(body=intent, name="web", namespace=namespace, field_manager="test")
    assert applied.spec.replicas == 3
    found = deployments.get(namespace=namespace, label_selector="nosuch")
    assert found["items"] == []


def test_a_directory_of_manifests_is_created(api: client.ApiClient, namespace: str) -> None:
    created = utils.create_from_yaml(api, str(EXAMPLES / "shop.yaml"), namespace=namespace)
    assert created


def test_the_version_and_the_groups_are_read(api: client.ApiClient) -> None:
    assert client.VersionApi(api).get_code().minor == "36"
    groups = client.ApisApi(api).get_api_versions().groups
    assert "apps" in [group.name for group in groups]
    assert client.CoreApi(api).get_api_versions().versions == ["v1"]

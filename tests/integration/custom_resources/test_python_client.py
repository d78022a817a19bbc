"""The Python client that Kubernetes publishes, and custom resources."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch

from tests.integration.conftest import LiveCluster
from tests.integration.custom_resources.definitions import crontab, crontabs

pytestmark = pytest.mark.xdist_group("lone-server")
GROUP, VERSION, PLURAL = "stable.example.com", "v1", "crontabs"
PLACE = (GROUP, VERSION, "default", PLURAL)


def eventually(check: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def api(lone_server: LiveCluster) -> client.ApiClient:
    configuration = client.Configuration()
    config.load_kube_config(str(lone_server.kubeconfig), client_configuration=configuration)
    return client.ApiClient(configuration)


def test_custom_objects_are_made_watched_changed_and_deleted(api: client.ApiClient) -> None:
    definitions: Any = client.ApiextensionsV1Api(api)
    objects: Any = client.CustomObjectsApi(api)
    tree = crontabs(cron={"type": "string"})
    tree["spec"]["versions"][0]["subresources"] = {
        "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }  # fmt: skip
    tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object", "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"}},
    }  # fmt: skip
    made = definitions.create_custom_resource_definition(tree)
    name = made.metadata.name

    def is_served() -> bool:
        try:
            objects.list_namespaced_custom_object(*PLACE)
        except client.ApiException as error:
            if error.status != 404:
                raise
            return False
        return True

    eventually(is_served)
    one = objects.create_namespaced_custom_object(*PLACE, crontab("one", {"cron": "* *"}))
    assert one["spec"] == {"cron": "* *", "replicas": 1}
    watcher, seen = watch.Watch(), []
    for event in watcher.stream(objects.list_namespaced_custom_object, *PLACE, timeout_seconds=5):
        seen.append((event["type"], event["object"]["spec"]["replicas"]))
        if event["type"] == "ADDED":
            objects.patch_namespaced_custom_object(*PLACE, "one", {"spec": {"replicas": 2}})
        else:
            watcher.stop()
    assert seen == [("ADDED", 1), ("MODIFIED", 2)]
    objects.patch_namespaced_custom_object_status(*PLACE, "one", {"status": {"ready": True, "replicas": 2}})
    assert objects.get_namespaced_custom_object_status(*PLACE, "one")["status"] == {"ready": True, "replicas": 2}
    scale = objects.get_namespaced_custom_object_scale(*PLACE, "one")
    assert (scale["kind"], scale["status"]) == ("Scale", {"replicas": 2})
    objects.patch_namespaced_custom_object_scale(*PLACE, "one", {"spec": {"replicas": 4}})
    whole = objects.get_namespaced_custom_object(*PLACE, "one")
    replaced = objects.replace_namespaced_custom_object(*PLACE, "one", {**whole, "spec": {"cron": "1 *"}})
    assert replaced["spec"] == {"cron": "1 *", "replicas": 1}
    with pytest.raises(client.ApiException) as refused:
        objects.create_namespaced_custom_object(*PLACE, crontab("two", {"cron": 5}))
    assert refused.value.status == 422

    resource = dynamic.DynamicClient(api).resources.get(api_version=f"{GROUP}/{VERSION}", kind="CronTab")
    assert resource.get(name="one", namespace="default").spec.cron == "1 *"
    assert len(objects.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"]) == 1
    objects.delete_namespaced_custom_object(*PLACE, "one")
    assert objects.list_namespaced_custom_object(*PLACE)["items"] == []
    definitions.delete_custom_resource_definition(name)
    eventually(lambda: not is_served())

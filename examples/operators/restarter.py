"""An operator written with the `kubernetes` client: when a ConfigMap changes, Deployments annotated with its name are restarted."""

from __future__ import annotations

import sys
from typing import Any

from kubernetes import client, config, watch

ANNOTATION = "example.com/restart-on"
STAMP = "example.com/config-version"


def restart(apps: Any, namespace: str, name: str, version: str) -> None:
    """Give the pods of all deployments that follow a ConfigMap its version, so that they are made anew."""
    for deployment in apps.list_namespaced_deployment(namespace).items:
        if (deployment.metadata.annotations or {}).get(ANNOTATION) == name:
            stamp = {"spec": {"template": {"metadata": {"annotations": {STAMP: version}}}}}
            apps.patch_namespaced_deployment(deployment.metadata.name, namespace, stamp)


def follow(connection: Any, namespace: str, stop_after: int | None = None) -> None:
    """Watch ConfigMaps and act on each change; list again whenever the watch has lost its place.

    stop_after: changes to act on; None for no end.
    """
    core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
    acted = 0
    while True:
        start: Any = core.list_namespaced_config_map(namespace)
        try:
            stream: Any = watch.Watch().stream
            for event in stream(
                core.list_namespaced_config_map, namespace, resource_version=start.metadata.resource_version
            ):
                metadata = event["object"].metadata
                if event["type"] != "DELETED":
                    restart(apps, namespace, metadata.name, metadata.resource_version)
                    acted += 1
                if stop_after is not None and acted >= stop_after:
                    return
        except client.ApiException as error:
            if error.status != 410:
                raise


if __name__ == "__main__":
    config.load_kube_config()
    follow(None, sys.argv[1] if len(sys.argv) > 1 else "default")

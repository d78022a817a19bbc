"""Objects that scenarios create, and changes that they make."""

from __future__ import annotations

from typing import Any, Final

from tests.differential.controllers.playing import Side, Tree
from tests.differential.controllers.steps import Action, create, patch, selecting, template

CONTAINERS_WITH_PORTS: Final = [
    {
        "name": "c",
        "image": "i",
        "ports": [{"name": "named", "containerPort": 9000}, {"name": "udp", "containerPort": 53, "protocol": "UDP"}],
    }
]


def deployment(replicas: int = 3, **spec: Any) -> Action:
    """Deployment `web`."""
    whole = {"replicas": replicas, "selector": selecting("web"), "template": template("web"), **spec}
    return create("Deployment", "web", spec=whole)


def set_image(kind: str, name: str, image: str) -> Action:
    """Another image in an object's pod template."""
    return patch(
        kind,
        name,
        {
            "spec": {
                "template": {
                    "spec": {"containers": [{"name": "c", "image": image, "resources": {"requests": {"cpu": "100m"}}}]}
                }
            }
        },
    )


def set_spec(kind: str, name: str, **change: Any) -> Action:
    """Another value of fields of the spec."""
    return patch(kind, name, {"spec": change})


def stateful_set(replicas: int = 3, **spec: Any) -> Action:
    """StatefulSet `db`."""
    whole = {"replicas": replicas, "serviceName": "db", "selector": selecting("db"), "template": template("db"), **spec}
    return create("StatefulSet", "db", spec=whole)


def claim_templates(size: str = "1Gi") -> list[Tree]:
    """Claim templates of a StatefulSet."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return [{"metadata": {"name": "data"}, "spec": spec}]


def daemon_set(**spec: Any) -> Action:
    """DaemonSet `agent`."""
    return create("DaemonSet", "agent", spec={"selector": selecting("agent"), "template": template("agent"), **spec})


def job(name: str = "job", **spec: Any) -> Action:
    """A Job."""
    given = {"restartPolicy": "Never", **spec.pop("pod", {})}
    return create("Job", name, spec={"template": template("job", **given), **spec})


def cron_job(name: str, schedule: str, *, restart: str = "Never", metadata: Tree | None = None, **spec: Any) -> Action:
    """A CronJob. metadata: of its jobs."""
    made = {"spec": {"template": template("cron", restartPolicy=restart)}}
    whole = {"schedule": schedule, "jobTemplate": {"metadata": metadata, **made} if metadata else made, **spec}
    return create("CronJob", name, spec=whole)


def autoscaler(
    name: str, target: str, *, kind: str = "Deployment", api_version: str = "apps/v1", **spec: Any
) -> Action:
    """A HorizontalPodAutoscaler of up to 4 pods. kind, api_version: of the target."""
    reference = {"apiVersion": api_version, "kind": kind, "name": target}
    return create("HorizontalPodAutoscaler", name, spec={"maxReplicas": 4, "scaleTargetRef": reference, **spec})


def service(name: str = "web", app: str = "web", **spec: Any) -> Action:
    """A Service; parts that are None are left out."""
    given = {"selector": {"app": app}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}], **spec}
    return create("Service", name, spec={key: value for key, value in given.items() if value is not None})


def pod(name: str, app: str = "web", *, metadata: Tree | None = None, **spec: Any) -> Action:
    """A pod like those of a template."""
    whole = template(app, **spec)
    return create("Pod", name, metadata={**whole["metadata"], **(metadata or {})}, spec=whole["spec"])


def owned_config_map(name: str, owner: str, *, blocking: bool) -> Action:
    """A ConfigMap that another one owns."""

    async def act(side: Side, namespace: str) -> None:
        [found] = [
            each
            for each in await side.all_of("ConfigMap")
            if each["metadata"]["name"] == owner and each["metadata"]["namespace"] == namespace
        ]
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner,
            "uid": found["metadata"]["uid"],
            "blockOwnerDeletion": blocking,
            "controller": blocking,
        }
        await side.create(namespace, {"kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [reference]}})

    return act

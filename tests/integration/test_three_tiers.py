"""An application of three tiers on real nodes: from outside through a node port to a database and back, whatever dies."""

from __future__ import annotations

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, utils

from bayplan.cluster.real_nodes.settings import NodePlace, RealNodeSettings
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import start, stop
from tests.integration.test_real_nodes import are_ready, eventually
from tests.kubelet.runtime.real_containerd import BUSYBOX, needs_containerd

PROGRAMS = ("/usr/sbin/nginx", "/usr/bin/redis-server", "/usr/bin/python3")
MISSING = [each for each in PROGRAMS if not Path(each).exists()]
MANIFEST = Path(__file__).with_name("three_tiers.yaml")
PORT = 30080
pytestmark = [
    needs_containerd,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {' '.join(MISSING)}"),
    pytest.mark.xdist_group("real nodes"),
]


def objects() -> list[dict[str, Any]]:
    """The application. Its images hold a shell; programs and libraries are the machine's."""
    found = list(yaml.safe_load_all(MANIFEST.read_text()))
    for each in found:
        pod = each["spec"].get("template", {}).get("spec") if "spec" in each else None
        if pod is None:
            continue
        libraries = [path for path in ("/usr", "/lib", "/lib64") if Path(path).exists()]
        (container,) = pod["containers"]
        container["image"] = BUSYBOX
        container["volumeMounts"] = [
            *container.get("volumeMounts", ()),
            *({"name": path[1:], "mountPath": path, "readOnly": True} for path in libraries),
            {"name": "files", "mountPath": "/files"},
            *({"name": "files", "mountPath": f"/etc/{name}", "subPath": name} for name in ("passwd", "group")),
            *({"name": "scratch", "mountPath": path} for path in ("/tmp", "/var/log/nginx")),
        ]
        pod["volumes"] = [
            *({"name": path[1:], "hostPath": {"path": path}} for path in libraries),
            {"name": "files", "configMap": {"name": "files"}},
            {"name": "scratch", "emptyDir": {}},
        ]
    return found


def asked(place: NodePlace, path: str, text: str | None = None) -> str:
    """What the application answers at a node; "" if it does not. text: what is posted."""
    data = None if text is None else text.encode()
    try:
        with urllib.request.urlopen(f"http://{place.addresses[0]}:{PORT}{path}", data, timeout=5) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return ""


def test_an_application_keeps_what_it_was_told_whatever_dies(tmp_path: Path) -> None:
    settings = RealNodeSettings(2, tmp_path / "data" / "real-nodes")
    arguments = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--real-nodes", "2", "--no-real-node-outbound")
    here, there = settings.nodes()
    process = start(*arguments)
    try:
        core = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "data" / "kubeconfig")))
        eventually(lambda: are_ready(core))
        for place in (here, there):
            give_image(place)
        for each in objects():
            utils.create_from_dict(core.api_client, each)
        eventually(lambda: "<h1>Notes</h1>" in asked(here, "/"))
        eventually(lambda: "<h1>Notes</h1>" in asked(there, "/"))
        eventually(lambda: asked(there, "/notes", "first") == ":1\n")
        assert asked(here, "/notes") == "first\n"

        for place in (here, there):
            os.kill(int((place.state / "kubelet.pid").read_text().split()[0]), signal.SIGKILL)
        assert asked(here, "/notes", "without kubelets") == ":2\n", "containers do not need them"
        uid = core.read_namespaced_pod("database-0", "default").metadata.uid
        core.delete_namespaced_pod("database-0", "default")
        eventually(lambda: is_another(core, uid))
        eventually(lambda: asked(there, "/notes") == "first\nwithout kubelets\n")
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []

    process = start(*arguments)
    try:
        # Each node's proxy starts by itself.
        eventually(lambda: {asked(place, "/notes") for place in (here, there)} == {"first\nwithout kubelets\n"})
        assert asked(there, "/notes", "after a restart") == ":3\n"
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []


def is_another(core: client.CoreV1Api, uid: str) -> bool:
    """Whether the database runs in another pod."""
    try:
        found = core.read_namespaced_pod("database-0", "default")
    except client.ApiException as error:
        if error.status != 404:
            raise
        return False
    return bool(found.metadata.uid != uid and found.status.phase == "Running")

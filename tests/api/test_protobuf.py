"""Protobuf bodies written by Google's library are read as the JSON they stand for."""

from __future__ import annotations

import base64

import pytest

from bayplan.api import protobuf
from tests.api.protobuf_messages import Messages

POD, DEPLOYMENT, SECRET = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.apps.v1.Deployment",
    "io.k8s.api.core.v1.Secret",
)


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages([POD, DEPLOYMENT, SECRET])


def test_a_pod_with_lists_maps_quantities_and_times(messages: Messages) -> None:
    pod = messages.classes[POD]()
    pod.metadata.name, pod.metadata.uid = "p", "u"
    pod.metadata.labels["app"] = "web"
    pod.metadata.creationTimestamp.seconds = 1_767_323_045
    pod.metadata.deletionGracePeriodSeconds = -1
    container = pod.spec.containers.add()
    container.name, container.image, container.tty = "c", "nginx", True
    container.command.extend(["a", ""])
    container.resources.requests["cpu"].string = "250m"
    port = container.ports.add()
    port.containerPort = 80
    probe = container.livenessProbe
    probe.periodSeconds = 7
    probe.inline_1.httpGet.port.strVal = "web"
    probe.inline_1.httpGet.port.type = 1
    assert protobuf.to_tree(POD, pod.SerializeToString()) == {
        "metadata": {
            "name": "p",
            "uid": "u",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionGracePeriodSeconds": -1,
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "nginx",
                    "tty": True,
                    "command": ["a", ""],
                    "resources": {"requests": {"cpu": "250m"}},
                    "ports": [{"containerPort": 80}],
                    "livenessProbe": {"httpGet": {"port": "web"}, "periodSeconds": 7},
                }
            ]
        },
    }


def test_numbers_in_the_place_of_percentages(messages: Messages) -> None:
    deployment = messages.classes[DEPLOYMENT]()
    deployment.spec.replicas = 3
    deployment.spec.strategy.rollingUpdate.maxSurge.intVal = 2
    deployment.spec.strategy.rollingUpdate.maxSurge.type = 0
    tree = protobuf.to_tree(DEPLOYMENT, deployment.SerializeToString())
    assert tree["spec"] == {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": 2}}}


def test_bytes_become_base64(messages: Messages) -> None:
    secret = messages.classes[SECRET]()
    secret.data["k"] = b"\x00\xff"
    assert protobuf.to_tree(SECRET, secret.SerializeToString())["data"] == {"k": base64.b64encode(b"\x00\xff").decode()}


def test_unknown_fields_are_skipped(messages: Messages) -> None:
    secret = messages.classes[SECRET]()
    secret.type = "t"
    unknown = bytes([(100 << 3 | 0) & 127 | 128, (100 << 3) >> 7, 1])
    assert protobuf.to_tree(SECRET, unknown + secret.SerializeToString()) == {"type": "t"}


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_a_message_that_is_cut_off_is_refused(messages: Messages, length: int) -> None:
    secret = messages.classes[SECRET]()
    secret.type = "a-type"
    with pytest.raises(protobuf.ProtobufError):
        protobuf.to_tree(SECRET, secret.SerializeToString()[:length])


def test_the_envelope_names_the_kind() -> None:
    meta = b"\x0a\x02v1\x12\x03Pod"
    body = protobuf.MAGIC + b"\x0a" + bytes([len(meta)]) + meta + b"\x12\x02ab"
    assert protobuf.unwrap(body) == ("v1", "Pod", b"ab")
    with pytest.raises(protobuf.ProtobufError, match="prefix"):
        protobuf.unwrap(b"nonsense")

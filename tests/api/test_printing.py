"""Tables: one word for the state of a pod, durations as kubectl shows them, and columns for every kind."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bayplan.api.kinds import BUILT_IN, DEFAULT_KINDS
from bayplan.api.printing import printer_for
from bayplan.api.printing.base import human_duration
from bayplan.support.timestamps import parse_rfc3339

NOW = parse_rfc3339("2026-01-02T03:04:05Z")


def cells(api_version: str, kind_name: str, tree: dict[str, Any]) -> dict[str, Any]:
    """The cells of an object by column."""
    kind = DEFAULT_KINDS.of_kind(api_version, kind_name)
    assert kind is not None
    printer = printer_for(kind)
    obj = msgspec.convert({"metadata": {"name": "x", "creationTimestamp": "2026-01-02T03:00:00Z"}, **tree}, kind.type)
    return dict(zip([column.name for column in printer.columns], printer.cells(obj, NOW), strict=False))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (600, "10m"),
        (179 * 60, "179m"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (192 * 3600, "8d"),
        (700 * 86400, "700d"),
        (3 * 365 * 86400, "3y"),
        (3 * 365 * 86400 + 5 * 86400, "3y5d"),
        (9 * 365 * 86400, "9y"),
    ],
)
def test_durations_have_two_digits_of_meaning(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def container(name: str = "a", *, ready: bool = False, restarts: int = 0, **state: Any) -> dict[str, Any]:
    last = state.pop("last", {})
    return {
        "name": name,
        "image": "i",
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last,
    }


RUNNING: dict[str, Any] = {"running": {}}
ENDED = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-02T02:59:05Z"}}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"phase": "Pending"}, ("0/2", "Pending", "0"), id="nothing is known"),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [container(ready=True, **RUNNING), container("b", ready=True, **RUNNING)],
            },
            ("2/2", "Running", "0"),
            id="all run",
        ),
        pytest.param(
            {
                "phase": "Running",
                "containerStatuses": [container(restarts=3, waiting={"reason": "CrashLoopBackOff"}, last=ENDED)],
            },
            ("0/2", "CrashLoopBackOff", "3 (5m ago)"),
            id="one crashes again and again",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 137, "reason": "OOMKilled"})]},
            ("0/2", "OOMKilled", "0"),
            id="one was killed",
        ),
        pytest.param(
            {"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]},
            ("0/2", "ExitCode:3", "0"),
            id="no reason",
        ),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, ("0/2", "Evicted", "0"), id="the pod has a reason"),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [container("i", waiting={"reason": "ErrImagePull"})]},
            ("0/2", "Init:ErrImagePull", "0"),
            id="an init container waits",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [container("i", terminated={"exitCode": 1, "signal": 9})]},
            ("0/2", "Init:Signal:9", "0"),
            id="an init container was ended",
        ),
    ],
)
def test_the_state_of_a_pod_is_one_word(status: dict[str, Any], expected: tuple[str, str, str]) -> None:
    spec = {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]}
    shown = cells("v1", "Pod", {"spec": spec, "status": status})
    assert (shown["Ready"], shown["Status"], shown["Restarts"]) == expected
    assert shown["Age"] == "4m5s"


def test_a_deleted_pod_is_terminating_until_it_has_ended() -> None:
    metadata = {"name": "x", "deletionTimestamp": "2026-01-02T03:00:00Z"}
    spec = {"containers": [{"name": "a"}]}
    assert (
        cells("v1", "Pod", {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})["Status"]
        == "Terminating"
    )
    assert (
        cells("v1", "Pod", {"metadata": metadata, "spec": spec, "status": {"phase": "Succeeded"}})["Status"]
        == "Succeeded"
    )


def test_a_node_shows_roles_and_that_it_is_cordoned() -> None:
    shown = cells(
        "v1",
        "Node",
        {
            "metadata": {
                "name": "x",
                "labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/b": ""},
            },
            "spec": {"unschedulable": True},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
    )
    assert (shown["Status"], shown["Roles"]) == ("Ready,SchedulingDisabled", "b,control-plane")


@pytest.mark.parametrize(
    ("spec", "status", "address"),
    [
        ({"type": "ClusterIP"}, {}, "<none>"),
        ({"type": "LoadBalancer"}, {}, "<pending>"),
        (
            {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]},
            {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}},
            "1.1.1.1,9.9.9.9",
        ),
        ({"type": "ExternalName", "externalName": "a.b"}, {}, "a.b"),
    ],
)
def test_where_a_service_is_found_from_outside(spec: dict[str, Any], status: dict[str, Any], address: str) -> None:
    assert cells("v1", "Service", {"spec": spec, "status": status})["External-IP"] == address


@pytest.mark.parametrize(
    "kind", [kind for kind in BUILT_IN if kind.is_stored], ids=lambda kind: f"{kind.group}/{kind.kind}/{kind.version}"
)
def test_every_kind_has_a_printer_that_works_on_an_empty_object(kind: Any) -> None:
    printer = printer_for(kind)
    assert {column.name for column in printer.columns} >= {"Name"}
    assert len(printer.cells(kind.type(), NOW)) >= len(printer.columns)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], "*"),
        ([""], "*"),
        (["a", "b", "c"], "a,b,c"),
        (["a", "", "b", "c"], "a,b,c"),
        (["a", "b", "c", ""], "a,b,c + 1 more..."),
        (["a", "b", "c", "d", "e"], "a,b,c + 2 more..."),
    ],
)
def test_hosts_of_an_ingress(hosts: list[str], text: str) -> None:
    rules = [{"host": host} if host else {} for host in hosts]
    assert cells("networking.k8s.io/v1", "Ingress", {"spec": {"rules": rules}})["Hosts"] == text

from __future__ import annotations

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1, storage_v1
from bayplan.api.volume_attachments import attachment_name
from bayplan.controllers.volumes import attach_detach_rules as rules

HANDLE = {"driver": "csi.example.com", "volumeHandle": "vol"}
NAME = "kubernetes.io/csi/csi.example.com^vol"


def node(*, ready: bool = True, in_use: bool = False, lost: bool = False) -> core_v1.Node:
    taints = [{"key": rules.OUT_OF_SERVICE, "effect": "NoExecute"}] if lost else []
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    status = {"conditions": conditions, "volumesInUse": [NAME] if in_use else []}
    return from_tree(core_v1.Node, {"metadata": {"name": "n"}, "spec": {"taints": taints}, "status": status})


def wanted(mode: str = "ReadWriteOnce") -> dict[str, rules.Wanted]:
    volume = from_tree(
        core_v1.PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"csi": HANDLE, "accessModes": [mode]}}
    )
    assert volume.spec.csi is not None
    return {NAME: rules.Wanted(volume, volume.spec.csi, ())}


def attachment(*, attached: bool = True) -> storage_v1.VolumeAttachment:
    one = wanted()[NAME].attachment("n")
    one.status = storage_v1.VolumeAttachmentStatus(attached=attached)
    return one


def test_a_wanted_volume_is_attached_under_the_name_that_the_csi_plugin_gives_it() -> None:
    plan = rules.plan(node(), wanted(), [], set(), {}, 0.0)
    assert [one.attachment("n").metadata.name for one in plan.attach] == [
        attachment_name("csi.example.com", "vol", "n")
    ]
    assert plan.report == ()


@pytest.mark.parametrize(
    ("mode", "blocked"), [("ReadWriteOnce", True), ("ReadWriteOncePod", True), ("ReadWriteMany", False)]
)
def test_only_volumes_that_can_be_shared_go_to_a_second_node(mode: str, blocked: bool) -> None:
    plan = rules.plan(node(), wanted(mode), [], {NAME}, {}, 0.0)
    assert bool(plan.blocked) is blocked
    assert bool(plan.attach) is not blocked


def test_what_is_attached_is_reported_and_what_is_on_its_way_is_not() -> None:
    assert rules.plan(node(), wanted(), [(NAME, attachment())], set(), {}, 0.0).report == (
        core_v1.AttachedVolume(name=NAME, device_path=""),
    )
    assert rules.plan(node(), wanted(), [(NAME, attachment(attached=False))], set(), {}, 0.0).report == ()


@pytest.mark.parametrize(
    ("where", "waited", "forced"),
    [
        pytest.param(node(), 0.0, "", id="not mounted: at once"),
        pytest.param(node(in_use=True), 10_000.0, None, id="mounted on a healthy node: never"),
        pytest.param(node(in_use=True, ready=False), 10.0, None, id="mounted on a silent node: not yet"),
        pytest.param(
            node(in_use=True, ready=False), 361.0, "timeout", id="mounted on a silent node: by force after six minutes"
        ),
        pytest.param(
            node(in_use=True, ready=False, lost=True), 0.0, "out-of-service", id="node out of service: at once"
        ),
        pytest.param(None, 10.0, None, id="node gone: not yet"),
        pytest.param(None, 361.0, "timeout", id="node gone for six minutes"),
    ],
)
def test_an_unwanted_volume_is_detached_when_it_cannot_be_mounted_any_more(
    where: core_v1.Node | None, waited: float, forced: str | None
) -> None:
    one = attachment()
    plan = rules.plan(where, {}, [(NAME, one)], set(), {one.metadata.name: 0.0}, waited)
    detached = forced is not None
    assert [one.forced for one in plan.detach] == ([forced] if detached else [])
    assert bool(plan.waits) is not detached
    assert bool(plan.report) is not detached, "the node learns of it before it happens"


@pytest.mark.parametrize(
    ("where", "forced"),
    [
        pytest.param(node(in_use=True, ready=False), None, id="silent node: never"),
        pytest.param(None, None, id="node gone: never"),
        pytest.param(node(in_use=True, ready=False, lost=True), "out-of-service", id="node out of service: at once"),
        pytest.param(node(ready=False), "", id="not mounted: at once"),
    ],
)
def test_nothing_is_detached_for_the_time_that_went_by_where_that_is_forbidden(
    where: core_v1.Node | None, forced: str | None
) -> None:
    one = attachment()
    plan = rules.plan(where, {}, [(NAME, one)], set(), {one.metadata.name: 0.0}, 10_000.0, force_on_timeout=False)
    assert [each.forced for each in plan.detach] == ([] if forced is None else [forced])
    assert bool(plan.waits) is (forced is None)


@pytest.mark.parametrize(
    ("status", "deleted", "uses"),
    [
        ({"phase": "Running"}, False, True),
        ({"phase": "Succeeded"}, False, False),
        ({"phase": "Running", "containerStatuses": [{"name": "a", "state": {"running": {}}}]}, True, True),
        (
            {"phase": "Running", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 0}}}]},
            True,
            False,
        ),
    ],
)
def test_a_pod_needs_its_volumes_until_its_containers_have_stopped(
    status: dict[str, object], deleted: bool, uses: bool
) -> None:
    metadata = {"name": "p", "namespace": "d", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    pod = from_tree(core_v1.Pod, {"metadata": metadata, "spec": {"nodeName": "n"}, "status": status})
    assert rules.uses_volumes(pod, keep_terminated=False) is uses
    assert rules.uses_volumes(pod, keep_terminated=True)


def test_attachments_are_known_by_their_names() -> None:
    one = attachment()
    one.metadata.name = attachment_name("d", "h", one.spec.node_name)
    source = core_v1.CSIPersistentVolumeSource(driver="d", volume_handle="h")
    assert rules.is_own(one, source)
    assert rules.is_own(one, None), "its volume is gone, but the name is of the form"
    one.metadata.name = "theirs"
    assert not rules.is_own(one, source)
    assert not rules.is_own(one, None)

"""What the storage controllers decide, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.custom_resources.objects import CustomObject
from bayplan.api.quantity import parse
from bayplan.api.types import core_v1, meta_v1, storage_v1
from bayplan.csi import messages as csi
from bayplan.csi.client import DriverInfo
from bayplan.csi.errors import CsiError
from bayplan.csi_controller import attach_rules, capabilities, modify_rules, resize_rules, snapshot_rules, topology
from bayplan.csi_controller import provision_rules as rules
from bayplan.csi_controller.errors import ForeignSourceError, MissingError, NodeGoneError, RequestError
from bayplan.csi_controller.ownership import Owner, owner_of
from bayplan.csi_controller.provision_rules import State
from bayplan.csi_controller.settings import CsiControllerSettings
from tests.csi_controller.scenario import GIB, ZONE, claim, make, storage_class

RWO, RWX, ROX, RWOP = "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"
A = csi.Access


@pytest.mark.parametrize(
    ("modes", "several", "found"),
    [
        ([RWO], False, A.SINGLE_NODE_WRITER),
        ([RWO], True, A.SINGLE_NODE_MULTI_WRITER),
        ([RWOP], False, A.SINGLE_NODE_WRITER),
        ([RWOP], True, A.SINGLE_NODE_SINGLE_WRITER),
        ([ROX], True, A.MULTI_NODE_READER_ONLY),
        ([RWX], False, A.MULTI_NODE_MULTI_WRITER),
        ([RWO, RWX], True, A.MULTI_NODE_MULTI_WRITER),
        ([ROX, RWO, RWX], True, A.MULTI_NODE_MULTI_WRITER),
        ([ROX, RWO], True, None),
        ([RWOP, RWO], True, None),
        ([], True, None),
    ],
)
def test_access_modes(modes: list[str], several: bool, found: csi.Access | None) -> None:
    if found is not None:
        assert capabilities.access_mode(modes, single_node_multi_writer=several) is found
        return
    with pytest.raises(RequestError):
        capabilities.access_mode(modes, single_node_multi_writer=several)


TOKENS = capabilities.SecretTokens("pvc-1", "team", "data", {"key": "blue"})


@pytest.mark.parametrize(
    ("kind", "name", "namespace", "found"),
    [
        ("node-stage", "s", "n", ("s", "n")),
        ("node-stage", "${pvc.name}-${pv.name}", "${pvc.namespace}", ("data-pvc-1", "team")),
        ("node-stage", "${pvc.annotations['key']}", "n", ("blue", "n")),
        ("node-stage", "$$x", "n", ("$x", "n")),
        ("provisioner", "${pvc.annotations['key']}", "n", None),
        ("node-stage", "${pvc.annotations['other']}", "n", None),
        ("node-stage", "s", "${pvc.name}", None),
        ("node-stage", "${pod.name}", "n", None),
        ("node-stage", "s", "", None),
        ("node-stage", "", "n", None),
    ],
)
def test_names_of_secrets(kind: str, name: str, namespace: str, found: tuple[str, str] | None) -> None:
    keys = {f"csi.storage.k8s.io/{kind}-secret-name": name, f"csi.storage.k8s.io/{kind}-secret-namespace": namespace}
    if found is None:
        with pytest.raises(RequestError):
            capabilities.secret_reference(kind, keys, TOKENS)
        return
    reference = capabilities.secret_reference(kind, keys, TOKENS)
    assert reference is not None
    assert (reference.name, reference.namespace) == found


def test_the_default_secret_is_for_calls_without_one_of_their_own() -> None:
    keys = {"csi.storage.k8s.io/secret-name": "all", "csi.storage.k8s.io/secret-namespace": "n"}
    own = {"csi.storage.k8s.io/node-stage-secret-name": "own", "csi.storage.k8s.io/node-stage-secret-namespace": "n"}
    names = []
    for kind in ("node-stage", "node-publish"):
        reference = capabilities.secret_reference(kind, keys | own, TOKENS)
        names.append(reference.name if reference is not None else "")
    assert names == ["own", "all"]
    assert capabilities.secret_reference("node-stage", {}, TOKENS) is None


def test_parameters_for_kubernetes_are_kept_from_the_driver() -> None:
    given = {"tier": "gold", "fstype": "xfs", "csi.storage.k8s.io/secret-name": "s"}
    assert capabilities.driver_parameters(given) == {"tier": "gold", "fstype": "xfs"}
    with pytest.raises(RequestError, match="/colour"):
        capabilities.driver_parameters({"csi.storage.k8s.io/colour": "red"})
    assert capabilities.fs_type_of(given, "ext4") == "xfs"
    assert capabilities.fs_type_of({}, "ext4") == "ext4"
    with pytest.raises(RequestError, match="fstype"):
        capabilities.fs_type_of({"fsType": "xfs", "csi.storage.k8s.io/fstype": "ext4"}, "")


@pytest.mark.parametrize(
    ("error", "may_reschedule", "state"),
    [
        (CsiError("RESOURCE_EXHAUSTED", ""), True, State.RESCHEDULE),
        (CsiError("RESOURCE_EXHAUSTED", ""), False, State.IN_BACKGROUND),
        (CsiError("DEADLINE_EXCEEDED", ""), True, State.IN_BACKGROUND),
        (CsiError("ABORTED", ""), True, State.IN_BACKGROUND),
        (CsiError("UNAVAILABLE", ""), True, State.IN_BACKGROUND),
        (CsiError("INVALID_ARGUMENT", ""), True, State.FINISHED),
        (CsiError("INTERNAL", ""), False, State.FINISHED),
        (NodeGoneError(""), True, State.RESCHEDULE),
        (NodeGoneError(""), False, State.NO_CHANGE),
        (MissingError("a secret"), True, State.NO_CHANGE),
        (RequestError(""), True, State.NO_CHANGE),
    ],
)
def test_what_an_error_says_of_the_volume(error: Exception, may_reschedule: bool, state: State) -> None:
    assert rules.state_after(error, may_reschedule=may_reschedule) is state


def terms(*choices: dict[str, list[str]]) -> Any:
    found = [
        {"matchLabelExpressions": [{"key": key, "values": values} for key, values in one.items()]} for one in choices
    ]
    return storage_class(allowedTopologies=found).allowed_topologies


NODES = {
    name: make(core_v1.Node, name, "", metadata={"labels": {ZONE: zone, "rack": "r"}})
    for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "b"))
}
CSI_NODES = {
    name: make(storage_v1.CSINode, name, "", spec={"drivers": [{"name": "d", "nodeID": name, "topologyKeys": [ZONE]}]})
    for name in NODES
}


def zones(found: tuple[csi.Topology, ...]) -> str:
    return "".join(one.segments[ZONE] for one in found)


@pytest.mark.parametrize(
    ("allowed", "selected", "strict", "immediate", "requisite", "preferred"),
    [
        pytest.param((), "n2", False, True, "ab", "ba", id="the selected node first, all others allowed"),
        pytest.param((), "n2", True, True, "b", "b", id="strict: the selected node only"),
        pytest.param(terms({ZONE: ["b", "c"]}), "n2", False, True, "bc", "bc", id="allowed topologies"),
        pytest.param(terms({ZONE: ["b", "c"]}), "n2", True, True, "b", "b", id="allowed and strict"),
        pytest.param((), "", False, False, None, None, id="at once, and the driver does not care"),
        pytest.param((), "", False, True, "ab", "ba", id="at once, everywhere, by the hash of the name"),
    ],
)
def test_where_a_volume_has_to_be(
    allowed: Any, selected: str, strict: bool, immediate: bool, requisite: str | None, preferred: str | None
) -> None:
    found = topology.requirement("d", "data", allowed, selected, CSI_NODES, NODES, strict=strict, immediate=immediate)
    if requisite is None:
        assert found is None
        return
    assert found is not None
    assert (zones(found.requisite), zones(found.preferred)) == (requisite, preferred)


@pytest.mark.parametrize(
    ("allowed", "selected", "error", "text"),
    [
        pytest.param(terms({ZONE: ["c"]}), "n1", RequestError, "is not in allowed topologies", id="not allowed"),
        pytest.param((), "gone", NodeGoneError, 'CSINode "gone" not found', id="the node has gone"),
    ],
)
def test_where_a_volume_cannot_be(allowed: Any, selected: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        topology.requirement("d", "data", allowed, selected, CSI_NODES, NODES, strict=True, immediate=True)


def test_topologies_are_combined() -> None:
    found = topology.flatten(terms({"zone": ["a", "b"], "rack": ["x", "y"]}, {"zone": ["c"]}))
    assert [dict(one) for one in found] == [
        {"zone": "a", "rack": "x"},
        {"zone": "a", "rack": "y"},
        {"zone": "b", "rack": "x"},
        {"zone": "b", "rack": "y"},
        {"zone": "c"},
    ]


def test_claims_of_one_pod_are_put_together_and_those_of_the_next_beside() -> None:
    assert topology.name_hash("data-web-3") == topology.name_hash("logs-web-3")
    code, index = topology.name_hash("data-web-4")
    assert (code, index) == (topology.name_hash("data-web-3")[0], 4)
    assert topology.name_hash("data")[1] == 0
    assert topology.name_hash("a")[0] == 0x050C5D7E  # FNV-1, not FNV-1a


def test_a_volume_is_on_the_nodes_of_its_topologies() -> None:
    affinity = topology.node_affinity((csi.Topology({ZONE: "a"}), csi.Topology({ZONE: "b", "rack": "r"})))
    assert topology.is_accessible(affinity, {ZONE: "a"})
    assert topology.is_accessible(affinity, {ZONE: "b", "rack": "r"})
    assert not topology.is_accessible(affinity, {ZONE: "b", "rack": "s"})
    assert topology.is_accessible(None, {ZONE: "a"})
    assert topology.node_affinity((csi.Topology(),)) is None


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (None, None),
        ({"kind": "PersistentVolumeClaim", "name": "x"}, "PersistentVolumeClaim"),
        ({"kind": "VolumeSnapshot", "name": "x", "apiGroup": "snapshot.storage.k8s.io"}, "VolumeSnapshot"),
        ({"kind": "VolumeSnapshot", "name": "x", "apiGroup": "other"}, ForeignSourceError),
        ({"kind": "PersistentVolumeClaim", "name": "x", "apiGroup": "other"}, ForeignSourceError),
    ],
)
def test_data_sources(source: Any, kind: Any) -> None:
    given = claim(**({"dataSource": source} if source else {}))
    if kind is ForeignSourceError:
        with pytest.raises(ForeignSourceError):
            rules.source_of(given)
        return
    found = rules.source_of(given)
    assert (found.kind if found is not None else None) == kind


SETTINGS = CsiControllerSettings(node_deployment=True, node_name="n1")


@pytest.mark.parametrize(
    ("selected", "mode", "settings", "owner"),
    [
        ("n1", "WaitForFirstConsumer", SETTINGS, Owner.OURS),
        ("n2", "WaitForFirstConsumer", SETTINGS, Owner.OTHERS),
        ("", "WaitForFirstConsumer", SETTINGS, Owner.OTHERS),
        ("", "Immediate", SETTINGS, Owner.OPEN),
        ("n1", "Immediate", SETTINGS, Owner.OURS),
        ("n2", "Immediate", SETTINGS, Owner.OTHERS),
        (
            "",
            "Immediate",
            CsiControllerSettings(node_deployment=True, node_name="n1", immediate_binding=False),
            Owner.OTHERS,
        ),
        ("n2", "Immediate", CsiControllerSettings(), Owner.OURS),
    ],
)
def test_whose_a_claim_is(selected: str, mode: str, settings: CsiControllerSettings, owner: Owner) -> None:
    given = claim()
    given.metadata.annotations = {rules.SELECTED_NODE: selected} if selected else {}
    assert owner_of(given, storage_class(mode=mode), settings, {ZONE: "a"}) is owner


def test_a_class_that_does_not_allow_the_node_is_not_its_own() -> None:
    elsewhere = storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}])
    assert owner_of(claim(), elsewhere, SETTINGS, {ZONE: "a"}) is Owner.OTHERS
    assert owner_of(claim(), elsewhere, SETTINGS, {ZONE: "b"}) is Owner.OPEN


def volume_in(
    phase: str, policy: str, *, deleting: bool = False, finalizers: tuple[str, ...] = (rules.FINALIZER,)
) -> Any:
    metadata: dict[str, Any] = {"annotations": {rules.PROVISIONED_BY: "d"}, "finalizers": list(finalizers)}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"csi": {"driver": "d", "volumeHandle": "v"}, "persistentVolumeReclaimPolicy": policy}
    return make(core_v1.PersistentVolume, "pv", "", metadata=metadata, spec=spec, status={"phase": phase})


@pytest.mark.parametrize(
    ("volume", "goes"),
    [
        (volume_in("Released", "Delete"), True),
        (volume_in("Failed", "Delete"), True),
        (volume_in("Bound", "Delete"), False),
        (volume_in("Available", "Delete"), False),
        (volume_in("Released", "Retain"), False),
        (volume_in("Released", "Delete", deleting=True), True),
        (volume_in("Released", "Delete", deleting=True, finalizers=()), False),
    ],
)
def test_which_volumes_are_deleted(volume: Any, goes: bool) -> None:
    assert rules.is_to_be_deleted(volume, "d") is goes
    assert not rules.is_to_be_deleted(volume, "other")


def growing(state: str = "", allocated: str = "", wanted: str = "3Gi") -> core_v1.PersistentVolumeClaim:
    status: dict[str, Any] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    if state:
        status["allocatedResourceStatuses"] = {"storage": state}
    if allocated:
        status["allocatedResources"] = {"storage": allocated}
    found: core_v1.PersistentVolumeClaim = claim(size=wanted, volumeName="pv")
    found.status = from_tree(core_v1.PersistentVolumeClaimStatus, status)
    return found


@pytest.mark.parametrize(
    ("state", "allocated", "has", "failed", "size"),
    [
        pytest.param("", "", "1Gi", False, "3Gi", id="a first wish"),
        pytest.param("ControllerResizeInProgress", "2Gi", "1Gi", False, "2Gi", id="the last size is not known yet"),
        pytest.param("ControllerResizeInProgress", "2Gi", "1Gi", True, "3Gi", id="it is known to have failed"),
        pytest.param("ControllerResizeInfeasible", "9Gi", "1Gi", False, "3Gi", id="it cannot be"),
        pytest.param("NodeResizePending", "2Gi", "2Gi", False, None, id="the node is at the last size"),
        pytest.param("NodeResizeInProgress", "2Gi", "1Gi", False, "2Gi", id="the volume does not say so yet"),
        pytest.param("NodeResizeInfeasible", "2Gi", "1Gi", False, "2Gi", id="the node cannot"),
        pytest.param("NodeResizePending", "3Gi", "3Gi", False, None, id="the node has the rest to do"),
        pytest.param("NodeResizeInfeasible", "3Gi", "3Gi", False, "3Gi", id="it is told to try again"),
        pytest.param("ControllerResizeInProgress", "3Gi", "3Gi", False, "3Gi", id="it was not written down"),
    ],
)
def test_the_next_size(state: str, allocated: str, has: str, failed: bool, size: str | None) -> None:
    volume = make(core_v1.PersistentVolume, "pv", "", spec={"capacity": {"storage": has}})
    found = resize_rules.next_size(growing(state, allocated), volume, failed_finally=failed)
    assert found == (parse(size) if size is not None else None)


def test_a_claim_needs_more_only_if_it_asks_for_more() -> None:
    assert resize_rules.needs_resize(growing())
    assert not resize_rules.needs_resize(growing(wanted="1Gi"))
    pending = growing()
    pending.status.phase = "Pending"
    assert not resize_rules.needs_resize(pending)


def modified(wanted: str, current: str = "", state: str = "", target: str = "") -> core_v1.PersistentVolumeClaim:
    found: core_v1.PersistentVolumeClaim = claim(**({"volumeAttributesClassName": wanted} if wanted else {}))
    found.status.current_volume_attributes_class_name = current or None
    if state:
        found.status.modify_volume_status = core_v1.ModifyVolumeStatus(
            status=state, target_volume_attributes_class_name=target
        )
    return found


@pytest.mark.parametrize(
    ("given", "uncertain", "target"),
    [
        pytest.param(modified("a", "a"), False, None, id="it is as wanted"),
        pytest.param(modified("b", "a"), False, ("b", True), id="another class"),
        pytest.param(modified("b", "a", "InProgress", "b"), False, ("b", True), id="tried before"),
        pytest.param(modified("c", "a", "InProgress", "b"), True, ("b", False), id="the last one may still go on"),
        pytest.param(modified("c", "a", "InProgress", "b"), False, ("c", True), id="the last one has ended"),
        pytest.param(modified("c", "a", "Infeasible", "b"), True, ("c", True), id="the last one cannot be"),
        pytest.param(modified("", "", "InProgress", "b"), False, ("b", False), id="taken back too late"),
        pytest.param(modified("", "", "Infeasible", "b"), False, None, id="taken back"),
    ],
)
def test_the_next_attributes(
    given: core_v1.PersistentVolumeClaim, uncertain: bool, target: tuple[str, bool] | None
) -> None:
    found = modify_rules.target_of(given, uncertain=uncertain)
    assert ((found.name, found.is_new) if found is not None else None) == target


def test_what_is_attached_comes_from_one_place() -> None:
    spec = {"csi": {"driver": "d", "volumeHandle": "v"}}
    volume = make(core_v1.PersistentVolume, "pv", "", spec=spec)

    def attachment(**source: Any) -> Any:
        return make(storage_v1.VolumeAttachment, "va", "", spec={"attacher": "d", "nodeName": "n", "source": source})

    assert attach_rules.volume_spec(attachment(persistentVolumeName="pv"), volume) is volume.spec
    assert attach_rules.volume_spec(attachment(inlineVolumeSpec=spec), None).csi is not None
    with pytest.raises(MissingError):
        attach_rules.volume_spec(attachment(persistentVolumeName="pv"), None)
    for source in ({}, {"persistentVolumeName": "pv", "inlineVolumeSpec": spec}):
        with pytest.raises(RequestError):
            attach_rules.volume_spec(attachment(**source), None)
    assert attach_rules.finalizer_of("a.b/c.d") == "external-attacher/a-b/c-d"


def test_a_read_only_volume_is_said_so_only_to_drivers_that_know_what_that_is() -> None:
    spec = from_tree(
        core_v1.PersistentVolumeSpec,
        {"csi": {"driver": "d", "volumeHandle": "v", "readOnly": True}, "accessModes": [ROX]},
    )
    for offered, expected in ((frozenset({csi.ControllerCapability.PUBLISH_READONLY}), True), (frozenset(), False)):
        driver = DriverInfo("d", controller=frozenset(int(one) for one in offered))
        assert attach_rules.publish_request(spec, "n", driver, "", {}).readonly is expected


def test_a_volume_without_a_size_has_that_of_the_claim() -> None:
    driver = DriverInfo("d", controller=frozenset({csi.ControllerCapability.CREATE_DELETE_VOLUME}))
    planned = rules.plan(claim(size="3Gi"), storage_class(), driver)
    assert planned.request.capacity_range == csi.CapacityRange(3 * GIB)
    made = rules.persistent_volume(claim(size="3Gi"), storage_class(), planned, csi.Volume(0, "v"), driver, "me")
    assert str(made.spec.capacity["storage"]) == "3Gi"
    with pytest.raises(RequestError, match="Selector"):
        rules.plan(claim(selector={"matchLabels": {"a": "b"}}), storage_class(), driver)


CREATED, DELETED = snapshot_rules.BEING_CREATED, snapshot_rules.BEING_DELETED


@pytest.mark.parametrize(
    ("deleting", "annotations", "source", "uid", "goes"),
    [
        pytest.param(True, (DELETED,), "volumeHandle", "u", True, id="its snapshot goes"),
        pytest.param(True, (), "volumeHandle", "u", False, id="its snapshot stays"),
        pytest.param(True, (DELETED, CREATED), "volumeHandle", "u", False, id="it is being made"),
        pytest.param(True, (), "snapshotHandle", "", True, id="it never had a snapshot"),
        pytest.param(True, (), "snapshotHandle", "u", False, id="found before, and bound"),
        pytest.param(True, (), "volumeHandle", "", False, id="made for a snapshot"),
        pytest.param(False, (DELETED,), "volumeHandle", "u", False, id="nobody deletes it"),
    ],
)
def test_when_a_content_may_go(deleting: bool, annotations: tuple[str, ...], source: str, uid: str, goes: bool) -> None:
    metadata = meta_v1.ObjectMeta(name="c", annotations=dict.fromkeys(annotations, "yes"))
    metadata.deletion_timestamp = "2026-01-01T00:00:00Z" if deleting else None
    spec = {"source": {source: "h"}, "volumeSnapshotRef": {"uid": uid} if uid else {}}
    assert snapshot_rules.may_go(CustomObject("", "", metadata, {"spec": spec})) is goes

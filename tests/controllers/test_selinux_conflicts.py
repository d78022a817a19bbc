"""Pods are told of others that want the same volume under another label, or in another manner."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.codec import from_tree
from bayplan.api.types import core_v1
from bayplan.controllers.volumes.selinux_conflicts import (
    Conflict,
    Use,
    VolumeUses,
    labels_conflict,
    mount_labels,
    use_of,
)

A, B = "system_u:system_r:container_t:s0:c1,c2", "system_u:system_r:container_t:s0:c98,c99"


@pytest.mark.parametrize(
    ("one", "other", "conflict"),
    [
        (A, A, False),
        (A, B, True),
        (A, ":::s0:c1,c2", False),
        (A, ":::s0:c98,c99", True),
        (A, "user_u:::s0:c1,c2", True),
        (":::s0:c1,c2", "", True),
        ("", "", False),
    ],
)
def test_labels_conflict_unless_nodes_may_make_them_equal(one: str, other: str, conflict: bool) -> None:
    assert labels_conflict(one, other) is conflict
    assert labels_conflict(other, one) is conflict


def test_both_sides_are_told_of_a_conflict_once() -> None:
    uses = VolumeUses()
    assert uses.add("v", "d/a", Use(A, "MountOption")) == []
    found = uses.add("v", "d/b", Use(B, "MountOption"))
    assert found == [Conflict("SELinuxLabel", "d/b", B, "d/a", A), Conflict("SELinuxLabel", "d/a", A, "d/b", B)]
    assert uses.add("v", "d/b", Use(B, "MountOption")) == [], "nothing is new"
    assert uses.conflicts() == set(found)
    assert found[0].reason == "SELinuxLabelConflict"
    assert found[0].message == (
        f'SELinuxLabel "{B}" conflicts with pod a that uses the same volume as this pod with SELinuxLabel "{A}". '
        "If both pods land on the same node, only one of them may access the volume."
    )
    other = Conflict("SELinuxLabel", "e/b", B, "d/a", A).message
    assert "pod a" not in other, "what is in other namespaces is nobody's business"
    both = uses.add("v", "d/b", Use("", "Recursive"))
    assert [(one.subject, one.pod, one.value) for one in both] == [
        ("SELinuxChangePolicy", "d/b", "Recursive"),
        ("SELinuxChangePolicy", "d/a", "MountOption"),
        ("SELinuxLabel", "d/b", ""),
        ("SELinuxLabel", "d/a", A),
    ]
    uses.remove("d/a")
    assert uses.conflicts() == set()
    assert list(uses.volumes("d/b")) == ["v"]


def pod(policy: str | None = None, **fields: Any) -> core_v1.Pod:
    context = {"seLinuxOptions": {"level": "s0:c1"}, **({"seLinuxChangePolicy": policy} if policy else {})}
    mounts = [{"name": "v", "mountPath": "/v"}]
    containers = [
        {"name": "a", "volumeMounts": mounts},
        {"name": "b", "volumeMounts": [*mounts, {"name": "w", "mountPath": "/w"}], "securityContext": fields},
    ]
    return from_tree(core_v1.Pod, {"spec": {"securityContext": context, "containers": containers}})


def test_containers_have_labels_of_their_own_or_their_pods() -> None:
    assert mount_labels(pod()) == {"v": {":::s0:c1"}, "w": {":::s0:c1"}}
    own = pod(seLinuxOptions={"user": "u", "level": "s0"})
    assert mount_labels(own) == {"v": {":::s0:c1", "u:::s0"}, "w": {"u:::s0"}}


@pytest.mark.parametrize(
    ("policy", "label", "mounts", "wanted"),
    [
        (None, A, True, Use(A, "MountOption")),
        ("MountOption", A, True, Use(A, "MountOption")),
        ("Recursive", A, True, Use("", "Recursive")),
        (None, "", True, Use("", "Recursive")),
        (None, A, False, Use("", "Recursive")),
    ],
)
def test_only_volumes_that_can_be_are_mounted_with_a_label(
    policy: str | None, label: str, mounts: bool, wanted: Use
) -> None:
    assert use_of(pod(policy), label, mounts_with_label=mounts) == wanted

"""Services are looked at again when what endpoints show of their pods changes."""

from __future__ import annotations

from typing import Any

import pytest

from bayplan.api.types import core_v1, meta_v1
from bayplan.controllers.networking.service_pods import _shows_otherwise
from bayplan.controllers.pods import claims_of

READY = {"conditions": (core_v1.PodCondition(type="Ready", status="True"),)}
SCHEDULED = {"conditions": (core_v1.PodCondition(type="PodScheduled", status="True"),)}


def pod(**parts: dict[str, Any]) -> core_v1.Pod:
    return core_v1.Pod(
        metadata=meta_v1.ObjectMeta(name="p", namespace="n", **parts.get("metadata", {})),
        spec=core_v1.PodSpec(**parts.get("spec", {})),
        status=core_v1.PodStatus(**parts.get("status", {})),
    )


@pytest.mark.parametrize(
    ("changed", "matters"),
    [
        ({"status": READY}, True),
        ({"status": {"pod_ip": "10.0.0.1"}}, True),
        ({"status": {"pod_ips": (core_v1.PodIP(ip="10.0.0.1"),)}}, True),
        ({"status": {"phase": "Running"}}, True),
        ({"spec": {"node_name": "a"}}, True),
        ({"metadata": {"labels": {"app": "web"}}}, True),
        ({"metadata": {"deletion_timestamp": "2026-01-01T00:00:00Z"}}, True),
        ({"status": SCHEDULED}, False),
        ({"metadata": {"annotations": {"a": "b"}}}, False),
        ({}, False),
    ],
)
def test_endpoints_show_some_changes_of_a_pod(changed: dict[str, Any], matters: bool) -> None:
    assert _shows_otherwise(pod(), pod(**changed)) is matters
    assert _shows_otherwise(pod(**changed), pod()) is matters


def test_claims_of_a_pod_are_those_that_it_names_and_then_those_that_are_made_for_it() -> None:
    claim = core_v1.PersistentVolumeClaimVolumeSource(claim_name="named")
    volumes = (
        core_v1.Volume(name="made", ephemeral=core_v1.EphemeralVolumeSource()),
        core_v1.Volume(name="token", projected=core_v1.ProjectedVolumeSource()),
        core_v1.Volume(name="other", persistent_volume_claim=claim),
    )
    assert claims_of(pod(spec={"volumes": volumes})) == ("n/named", "n/p-made")
    assert claims_of(pod(spec={"volumes": volumes[1:2]})) == ()

"""What the readiness of one container means for its pod."""

from __future__ import annotations

from bayplan.api.types import core_v1, meta_v1
from bayplan.kubelet.core.readiness import with_readiness


def pod() -> core_v1.Pod:
    """A pod with a sidecar and two containers."""
    sidecar = core_v1.Container(name="side", image="i", restart_policy="Always")
    containers = tuple(core_v1.Container(name=name, image="i") for name in ("a", "b"))
    spec = core_v1.PodSpec(init_containers=(sidecar,), containers=containers)
    return core_v1.Pod(metadata=meta_v1.ObjectMeta(name="p", uid="u", generation=2), spec=spec)


def status(*unready: str) -> core_v1.PodStatus:
    """Its status when it runs and these containers are not ready; another party has written a condition."""

    def one(name: str) -> core_v1.ContainerStatus:
        return core_v1.ContainerStatus(name=name, container_id=f"containerd://id-{name}", ready=name not in unready)

    value = "False" if unready else "True"
    types = ("example.com/gate", "Ready", "ContainersReady")
    return core_v1.PodStatus(
        phase="Running",
        init_container_statuses=(one("side"),),
        container_statuses=(one("a"), one("b")),
        conditions=tuple(core_v1.PodCondition(type=each, status=value) for each in types),
    )


def conditions(found: core_v1.PodStatus | None) -> dict[str, tuple[str, str]]:
    """Status and message of conditions by type."""
    assert found is not None
    return {each.type: (each.status, each.message) for each in found.conditions}


def test_one_unready_container_makes_the_pod_unready() -> None:
    for name in ("a", "side"):
        found = with_readiness(pod(), status(), f"id-{name}", False)
        assert found is not None
        message = f"containers with unready status: [{name}]"
        assert conditions(found) == {
            "example.com/gate": ("True", ""),
            "Ready": ("False", message),
            "ContainersReady": ("False", message),
        }
        all_of_them = (*found.init_container_statuses, *found.container_statuses)
        assert [each.name for each in all_of_them if not each.ready] == [name]


def test_the_pod_is_ready_when_the_last_container_is() -> None:
    still_one = with_readiness(pod(), status("a", "b"), "id-a", True)
    assert conditions(still_one)["Ready"] == ("False", "containers with unready status: [b]")
    assert conditions(with_readiness(pod(), status("a"), "id-a", True))["Ready"] == ("True", "")


def test_nothing_changes_for_other_containers_and_the_same_readiness() -> None:
    assert with_readiness(pod(), status(), "id-of-an-earlier-one", False) is None
    assert with_readiness(pod(), status("a"), "id-a", False) is None
    assert with_readiness(pod(), status(), "id-b", True) is None

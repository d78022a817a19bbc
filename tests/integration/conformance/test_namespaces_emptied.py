"""What is in a namespace when it comes and when it goes. Conformance: Namespaces, OrderedNamespaceDeletion, ServiceAccounts."""

from __future__ import annotations

from bayplan.testing.cluster import eventually
from tests.integration.conformance.requests import Object, pod
from tests.integration.conformance.workloads import Space, Workloads, condition

NAMESPACES = "/api/v1/namespaces"
AUTHORITY = "configmaps/kube-root-ca.crt"


async def another(space: Space) -> Space:
    """A second namespace, which the test deletes itself."""
    other = Space(space.api, f"{space.name}-emptied")
    await space.api.create(NAMESPACES, {"metadata": {"name": other.name}})
    await eventually(lambda: space.api.get(other.core("serviceaccounts/default")))
    return other


async def renewed(other: Space, space: Space) -> Space:
    """The second namespace, deleted with all that is in it and made again."""
    await space.api.delete(f"{NAMESPACES}/{other.name}")
    await space.gone(f"{NAMESPACES}/{other.name}")
    return await another(space)


async def running(space: Space, name: str) -> Object:
    """Wait until a pod runs."""
    return await space.until(space.core(f"pods/{name}"), lambda one: one["status"]["phase"] == "Running")


def test_pods_go_with_their_namespace(workloads: Workloads) -> None:
    """Namespaces should ensure that all pods are removed when a namespace is deleted."""

    async def scenario(space: Space) -> None:
        other = await another(space)
        await space.api.create(other.core("pods"), pod("left-behind"))
        await running(other, "left-behind")
        again = await renewed(other, space)
        assert await space.absent(again.core("pods/left-behind"))

    workloads.run(scenario)


def test_services_go_with_their_namespace(workloads: Workloads) -> None:
    """Namespaces should ensure that all services are removed when a namespace is deleted."""

    async def scenario(space: Space) -> None:
        other = await another(space)
        ports = [{"port": 80, "targetPort": 80}]
        service = {"metadata": {"name": "left-behind"}, "spec": {"selector": {"app": "none"}, "ports": ports}}
        await space.api.create(other.core("services"), service)
        again = await renewed(other, space)
        assert await space.absent(again.core("services/left-behind"))

    workloads.run(scenario)


def test_pods_go_before_what_they_may_need(workloads: Workloads) -> None:
    """OrderedNamespaceDeletion namespace deletion should delete pod first."""

    async def scenario(space: Space) -> None:
        other = await another(space)
        held = pod("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await space.api.create(other.core("pods"), held)
        await running(other, "held")
        await space.api.create(other.core("configmaps"), {"metadata": {"name": "needed"}, "data": {"key": "value"}})
        await space.api.delete(f"{NAMESPACES}/{other.name}")

        def processed(one: Object) -> bool:
            return one["status"]["phase"] == "Terminating" and bool(condition(one, "NamespaceDeletionContentFailure"))

        await space.until(f"{NAMESPACES}/{other.name}", processed)
        await space.until(other.core("pods/held"), lambda one: "deletionTimestamp" in one["metadata"])
        assert (await space.api.get(other.core("configmaps/needed")))["data"] == {"key": "value"}
        await space.changed(other.core("pods/held"), lambda one: one["metadata"].update(finalizers=[]))
        assert await space.gone(other.core("pods/held"))
        assert await space.gone(f"{NAMESPACES}/{other.name}")

    workloads.run(scenario)


def test_the_authority_of_the_cluster_is_in_every_namespace(workloads: Workloads) -> None:
    """ServiceAccounts should guarantee kube-root-ca.crt exist in any namespace."""

    async def scenario(space: Space) -> None:
        published = (await space.api.get(space.core(AUTHORITY)))["data"]
        await space.api.delete(space.core(AUTHORITY), {"gracePeriodSeconds": 0})
        await eventually(lambda: space.api.get(space.core(AUTHORITY)))

        wrong = {"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": ""}}
        await space.api.update(space.core(AUTHORITY), wrong)
        restored = await space.until(space.core(AUTHORITY), lambda one: one["data"]["ca.crt"])
        assert restored["data"] == published

    workloads.run(scenario)

"""The fixtures that `pip install bayplan` gives."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest
from kubernetes import client as kubernetes
from kubernetes import config
from kubernetes.client.exceptions import ApiException

from bayplan.api.codec import to_tree
from bayplan.api.errors import ApiError
from bayplan.api.types import apps_v1, core_v1
from bayplan.cluster.manifests.reading import ManifestError
from bayplan.cluster.settings import ClusterSettings
from bayplan.simulation.virtual_cluster import VirtualCluster
from bayplan.testing.builders import deployment
from bayplan.testing.handle import ClusterHandle

pytest_plugins = ["pytester"]

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
"""


def api(cluster: ClusterHandle) -> Any:
    """The `kubernetes` client of a cluster."""
    return config.new_client_from_config(str(cluster.kubeconfig))


TOO_LARGE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1000"}}}]}
"""


def ready(deployment: dict[str, Any] | None) -> bool:
    return deployment is not None and deployment["status"].get("readyReplicas") == 3


class TestLiveCluster:
    def test_any_client_reaches_it(self, bayplan_cluster: ClusterHandle) -> None:
        assert bayplan_cluster.apply(WEB) == 1
        with api(bayplan_cluster) as connection:
            core: Any = kubernetes.CoreV1Api(connection)

            def running() -> bool:
                pods = core.list_namespaced_pod("default", label_selector="app=web").items
                return [pod.status.phase for pod in pods] == ["Running", "Running"]

            bayplan_cluster.eventually(running)
            assert len(core.list_node().items) == 3

    def test_it_can_be_looked_at_without_a_client(self, bayplan_cluster: ClusterHandle) -> None:
        bayplan_cluster.apply(WEB)

        def rolled_out() -> bool:
            web = bayplan_cluster.get("deploy", "web")
            return web is not None and web["status"].get("readyReplicas") == 2

        assert bayplan_cluster.eventually(rolled_out)
        assert bayplan_cluster.get("deployment", "other") is None
        assert len(bayplan_cluster.list("pods", labels="app=web")) == 2
        assert bayplan_cluster.list("pods", "kube-system") == []
        assert len(bayplan_cluster.list("pods", labels={"app": "web"})) == 2
        with pytest.raises(KeyError, match="this cluster has no resource 'gadget'"):
            bayplan_cluster.get("gadget", "web")

    def test_mistakes_are_told(self, bayplan_cluster: ClusterHandle) -> None:
        with pytest.raises(ManifestError, match=r"\(object\): apiVersion is missing"):
            bayplan_cluster.apply({"kind": "Pod"})
        with pytest.raises(KeyError, match=r"such a type is core_v1\.Pod"):
            bayplan_cluster.run(lambda client: client.list(cast(Any, "pods")))
        with pytest.raises(AssertionError, match=r"not true within 0 s: the condition gave \[\]"):
            bayplan_cluster.eventually(lambda: bayplan_cluster.list("pods"), within=0)

    def test_what_is_wrong_in_the_cluster_is_told(self, bayplan_cluster: ClusterHandle) -> None:
        bayplan_cluster.apply(TOO_LARGE)
        with pytest.raises(AssertionError) as failed:
            bayplan_cluster.eventually(lambda: ready(bayplan_cluster.get("deploy", "web")), within=1)
        lines = str(failed.value).splitlines()
        assert lines[0].startswith("not true within 1 s")
        assert lines[1].startswith("deployment default/web has")
        assert "Insufficient cpu" in lines[1]
        assert len(lines) == 2, "replica set and pods are the deployment's"

    @pytest.mark.bayplan(nodes=7)
    def test_a_marker_says_how_it_is_to_be(self, bayplan_cluster: ClusterHandle) -> None:
        assert len(bayplan_cluster.list("nodes")) == 7

    @pytest.mark.bayplan(settings=ClusterSettings(run_controllers=True))
    def test_settings_are_taken_as_they_are(self, bayplan_cluster: ClusterHandle) -> None:
        assert bayplan_cluster.list("nodes") == []

    def test_it_is_there_in_no_time(self, bayplan_cluster: ClusterHandle, tmp_path: Any, bayplan_thread: Any) -> None:
        times = []
        for number in range(5):
            directory = tmp_path / str(number)
            directory.mkdir()
            began = time.perf_counter()
            another = ClusterHandle(bayplan_thread, ClusterSettings(), directory)
            another.start()
            times.append(time.perf_counter() - began)
            another.stop()
        assert min(times) < 0.5  # a tenth of that on a machine at rest
        assert bayplan_cluster.list("nodes") != []

    def test_faults_meet_clients_but_not_the_test(self, bayplan_cluster: ClusterHandle) -> None:
        bayplan_cluster.apply(WEB)
        with api(bayplan_cluster) as connection:
            apps = kubernetes.AppsV1Api(connection)
            bayplan_cluster.faults.conflict_next("deployments")
            bayplan_cluster.faults.fail_next("deployments", code=500, verbs=("get",))
            assert bayplan_cluster.get("deployment", "web") is not None
            with pytest.raises(ApiException) as refused:
                apps.patch_namespaced_deployment("web", "default", {"spec": {"replicas": 3}})
            assert refused.value.status == 409
            with pytest.raises(ApiException) as refused:
                apps.read_namespaced_deployment("web", "default")
            assert refused.value.status == 500
            assert apps.read_namespaced_deployment("web", "default").spec.replicas == 2
        assert bayplan_cluster.faults.committed == ["patch deployments", "get deployments"]
        assert bayplan_cluster.faults.pending == 0

    def test_watches_are_dropped(self, bayplan_cluster: ClusterHandle) -> None:
        with api(bayplan_cluster) as connection:
            core = kubernetes.CoreV1Api(connection)
            stream: Any = core.list_namespaced_config_map("default", watch=True, _preload_content=False)
            bayplan_cluster.eventually(lambda: bayplan_cluster.faults.drop_watches("configmaps") > 0)
            assert b"kube-root-ca.crt" in stream.read() or stream.closed


class TestVirtualCluster:
    async def test_hours_pass_in_no_time(self, bayplan_sim: VirtualCluster) -> None:
        began = bayplan_sim.now()
        await bayplan_sim.apply(WEB)
        await bayplan_sim.advance(hours=1)
        assert bayplan_sim.now() - began == pytest.approx(3600)
        web = await bayplan_sim.client.get(apps_v1.Deployment, "web", "default")
        assert web.status.ready_replicas == 2

    async def test_a_condition_that_stays_false_is_shown(self, bayplan_sim: VirtualCluster) -> None:
        async def pods() -> list[core_v1.Pod]:
            return list((await bayplan_sim.client.list(core_v1.Pod)).items)

        with pytest.raises(AssertionError, match=r"not true within 5 virtual seconds: the condition gave \[\]"):
            await bayplan_sim.eventually(pods, within=5)

    async def test_what_is_wrong_in_the_cluster_is_told(self, bayplan_sim: VirtualCluster) -> None:
        await bayplan_sim.apply(TOO_LARGE)

        async def all_ready() -> bool:
            return ready(to_tree(await bayplan_sim.client.get(apps_v1.Deployment, "web", "default")))

        with pytest.raises(AssertionError, match=r"(?s)not true within 60 virtual seconds.*Insufficient cpu"):
            await bayplan_sim.eventually(all_ready, within=60)

    @pytest.mark.bayplan(nodes=5, seed=3)
    async def test_a_marker_says_how_it_is_to_be(self, bayplan_sim: VirtualCluster) -> None:
        assert len((await bayplan_sim.client.list(core_v1.Node)).items) == 5

    async def test_faults_meet_whom_the_test_connects(self, bayplan_sim: VirtualCluster) -> None:
        operator = bayplan_sim.connect("operator")
        bayplan_sim.faults.fail_next("deployments", code=500, verbs=("create",))
        bayplan_sim.faults.fail_next("deployments", code=429, retry_after=7)
        bayplan_sim.faults.delay_next("nodes", 30.0, verbs=("list",))
        with pytest.raises(ApiError) as refused:
            await operator.create(deployment("web"))
        assert refused.value.code == 500
        with pytest.raises(ApiError) as refused:
            await operator.list(apps_v1.Deployment)
        assert refused.value.status.details is not None
        assert refused.value.status.details.retry_after_seconds == 7
        await bayplan_sim.client.create(deployment("web"))
        began = bayplan_sim.now()
        await operator.list(core_v1.Node)
        assert bayplan_sim.now() - began == pytest.approx(30.0)

    async def test_a_watch_loses_its_place(self, bayplan_sim: VirtualCluster) -> None:
        operator = bayplan_sim.connect("operator")
        bayplan_sim.faults.expire_next_watch("pods")
        with pytest.raises(ApiError) as refused:
            await operator.watch(core_v1.Pod)
        assert refused.value.code == 410

    def test_mistakes_in_faults_are_told(self, bayplan_sim: VirtualCluster) -> None:
        with pytest.raises(ValueError, match="unknown verbs eat"):
            bayplan_sim.faults.fail_next("pods", verbs=("eat",))
        with pytest.raises(ValueError, match="code 418"):
            bayplan_sim.faults.fail_next("pods", code=418)


def test_a_validation_that_nobody_awaits_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        async def test_forgotten(bayplan_sim):
            bayplan_sim.validate()

        async def test_done(bayplan_sim):
            await bayplan_sim.validate()
        """
    )
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*validate() was called without await*"])

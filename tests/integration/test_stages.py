"""Stages on a live cluster: pods go the way that users describe."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bayplan.api.types import core_v1
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.kubelet.simulator.stages.kwok_files import read_files
from bayplan.testing.builders import deployment, pod
from bayplan.testing.cluster import LiveCluster, running_cluster

_STAGES = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: run}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: .status.phase, operator: In, values: [Pending]}
  delay:
    durationMilliseconds: 10
    durationFrom: {expressionFrom: '.metadata.annotations["run.stage/delay"]'}
  next:
    event: {type: Normal, reason: Launched, message: the pod was launched}
    statusTemplate: |
      {{ $now := Now }}
      conditions:
      {{ range $type := list "Initialized" "Ready" "ContainersReady" }}
      - {type: {{ $type }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
      {{ end }}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        ready: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
      podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) | Quote }}
      phase: Running
      startTime: {{ $now | Quote }}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: fail}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchLabels: {doomed: "true"}
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
      - {key: '.status.conditions.[] | select( .type == "Ready" ) | .status', operator: In, values: ["True"]}
      - {key: .status.phase, operator: In, values: [Running]}
  next:
    statusTemplate: |
      phase: Failed
      reason: Doomed
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: stop}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions: [{key: .metadata.deletionTimestamp, operator: Exists}]
  next: {delete: true}
"""


def test_pods_are_launched_fail_and_go_as_their_stages_say(tmp_path: Path) -> None:
    path = tmp_path / "stages.yaml"
    path.write_text(_STAGES)
    stages = read_files([path]).stages

    async def scenario(cluster: LiveCluster) -> None:
        await cluster.client.create(deployment("web", 2))
        await cluster.rolled_out("web", 2)
        for one in await cluster.pods(app="web"):
            assert one.status.pod_ip.startswith("10.128.")
            assert one.status.pod_ips[0].ip == one.status.pod_ip
        events = (await cluster.client.list(core_v1.Event, "default")).items
        assert sum(one.reason == "Launched" for one in events) == 2
        doomed = {"labels": {"doomed": "true"}, "annotations": {"run.stage/delay": "50ms"}}
        await cluster.client.create(pod("doomed", restart_policy="Never", meta=doomed))

        async def failed() -> bool:
            found = await cluster.client.get(core_v1.Pod, "doomed", "default")
            return (found.status.phase, found.status.reason) == ("Failed", "Doomed")

        await cluster.eventually(failed)
        await cluster.client.delete(core_v1.Pod, "doomed", "default")
        await cluster.eventually(lambda: cluster.gone(core_v1.Pod, "doomed"))

    async def run() -> None:
        nodes = SimulatorSettings(nodes=2, stages=stages)
        async with running_cluster(settings=ClusterSettings(nodes=nodes)) as cluster:
            await scenario(cluster)

    asyncio.run(run())


def test_a_kubelet_tells_of_starts_stops_and_crashes() -> None:
    async def told(cluster: LiveCluster, *expected: str) -> bool:
        events = (await cluster.client.list(core_v1.Event, "default", field_selector="involvedObject.kind=Pod")).items
        return set(expected) <= {one.reason for one in events}

    async def run() -> None:
        nodes = SimulatorSettings(nodes=1, start_seconds=0.01, stop_seconds=0.01, events="all")
        async with running_cluster(settings=ClusterSettings(nodes=nodes)) as cluster:
            crashing = {"annotations": {"bayplan.dev/run-seconds": "0.1", "bayplan.dev/exit-code": "1"}}
            await cluster.client.create(pod("web", restart_policy="Always", meta=crashing))
            await cluster.eventually(lambda: told(cluster, "Pulled", "Created", "Started", "BackOff"))
            await cluster.client.create(pod("calm"))
            await cluster.eventually(lambda: _ready(cluster, "calm"))
            await cluster.client.delete(core_v1.Pod, "calm", "default")
            await cluster.eventually(lambda: told(cluster, "Killing"))

    asyncio.run(run())


async def _ready(cluster: LiveCluster, name: str) -> bool:
    return (await cluster.client.get(core_v1.Pod, name, "default")).status.phase == "Running"

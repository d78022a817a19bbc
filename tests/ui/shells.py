"""A cluster whose simulated containers have shells and logs of this machine, and the page's streams to it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from bayplan.client.http import HttpTransport
from bayplan.client.http_streams import HttpStreams
from bayplan.client.kubeconfig import load
from bayplan.cluster.cluster import Cluster
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.simulator.answers.objects import read_answer
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.testing.builders import container, pod
from bayplan.testing.cluster import eventually
from tests.ui.page import Page, page_of

KWOK = "kwok.x-k8s.io/v1alpha1"


@contextlib.asynccontextmanager
async def page_with_shells(directory: Path, **settings: Any) -> AsyncIterator[tuple[Page, Cluster]]:
    """A page that allows changes, and a running pod `default/web`; its log is the file `log` of the directory."""
    (directory / "log").touch()
    home = {"name": "HOME", "value": str(directory / "home")}  # no start files of whoever runs the tests
    documents = (
        {"kind": "ClusterExec", "spec": {"execs": [{"local": {"workDir": str(directory), "envs": [home]}}]}},
        {"kind": "ClusterLogs", "spec": {"logs": [{"logsFile": "log"}]}},
    )
    made = ({"apiVersion": KWOK, "metadata": {"name": "all"}, **one} for one in documents)
    answers = tuple(read_answer(one, directory / "answers.yaml") for one in made)
    cluster = Cluster(ClusterSettings(nodes=SimulatorSettings(nodes=1, start_seconds=0.02, answers=answers)))
    await cluster.start()
    try:
        client = cluster.client()

        async def created() -> bool:
            return bool(await client.create(pod("web", containers=(container(),))))

        await eventually(lambda: client.get(_account(), "default", "default"))
        await created()
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(cluster.kubeconfig())
        streams = HttpStreams(HttpTransport(load([kubeconfig])))
        async with page_of(client, (), None, streams, **{"allow_changes": True, **settings}) as page:

            async def runs() -> bool:
                snapshot = await page.json("/api/snapshot")
                return "Running" in str(snapshot["tables"]["pods"]["columns"].get("status"))

            await eventually(runs)
            yield page, cluster
    finally:
        await cluster.stop()


def _account() -> Any:
    from bayplan.api.types import core_v1

    return core_v1.ServiceAccount

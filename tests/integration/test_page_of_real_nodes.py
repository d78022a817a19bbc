"""The web page of a cluster with a real node: a terminal in a container, and its log as it is written."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp
import pytest
from kubernetes import client, config

from bayplan.cluster.real_nodes.settings import RealNodeSettings
from tests.cluster.real_nodes.images import give_image
from tests.cluster.real_nodes.test_real_nodes import traces
from tests.integration.conftest import start, stop
from tests.integration.test_real_nodes import eventually, phase, pod
from tests.kubelet.runtime.real_containerd import needs_containerd

pytestmark = [needs_containerd, pytest.mark.xdist_group("real nodes")]
_QUERY = "namespace=default&name=web"


async def use(url: str) -> None:
    """Type into a shell, and see in the log what the container's first process writes about it."""
    base = url.partition("/?")[0]
    async with aiohttp.ClientSession(base, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        await (await session.get(url)).read()
        async with (
            session.get(f"/api/logs/follow?{_QUERY}") as log,
            session.ws_connect(f"/api/terminal?{_QUERY}", headers={"Origin": base}) as socket,
        ):
            assert await log.content.readline() == b"started\n"
            await socket.send_str('{"resize": [93, 31]}')
            await socket.send_bytes(b"/bin/busybox stty size; echo from-the-terminal > /proc/1/fd/1; echo $((6 * 7))\r")
            shown = ""
            while "42" not in shown:
                message = await socket.receive(timeout=20)
                assert message.type is aiohttp.WSMsgType.BINARY, (message, shown)
                shown += message.data.decode()
            assert "31 93" in shown
            assert await log.content.readline() == b"from-the-terminal\n"
            await socket.send_bytes(b"exit 7\r")
            while (message := await socket.receive(timeout=20)).type is not aiohttp.WSMsgType.TEXT:
                assert message.type is aiohttp.WSMsgType.BINARY
            assert "exit code 7" in json.loads(message.data)["ended"]
        async with session.get(f"/api/logs?{_QUERY}") as response:
            assert await response.text() == "started\nfrom-the-terminal\n"


def test_a_terminal_and_a_log_of_a_container(tmp_path: Path) -> None:
    settings = RealNodeSettings(1, tmp_path / "data" / "real-nodes")
    arguments = ("--data-dir", str(tmp_path / "data"), "--port", "0", "--real-nodes", "1", "--no-real-node-outbound")
    process = start(*arguments, "--ui", "--allow-changes")
    try:
        core = client.CoreV1Api(config.new_client_from_config(str(tmp_path / "data" / "kubeconfig")))
        eventually(lambda: core.list_namespaced_service_account("default").items)
        for place in settings.nodes():
            give_image(place)
        core.create_namespaced_pod("default", pod("web", "real-1", "sh", "-c", "echo started; exec sleep 1000"))
        eventually(lambda: phase(core, "web", "Running"))
        assert process.stdout is not None
        url = next(found[0] for line in process.stdout if (found := re.search(r"http://127\S+token=\w+", line)))
        asyncio.run(asyncio.wait_for(use(url), 60))
    finally:
        code, _ = stop(process)
    assert code == 0
    assert traces(settings) == []

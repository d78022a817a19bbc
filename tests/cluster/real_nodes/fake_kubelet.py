"""Stands for a kubelet where only what is around it is tested: registers its node with its own credentials, from inside its network, and stays."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import yaml

from bayplan.api.types import core_v1, meta_v1
from bayplan.client import Client
from bayplan.client.errors import ApiError
from bayplan.client.http import HttpTransport
from bayplan.client.kubeconfig import load


async def main(flags: dict[str, str], config: dict[str, str]) -> None:
    """Register and stay."""
    name, address = flags["--hostname-override"], flags.get("--node-ip", "127.0.0.1")
    node = core_v1.Node(
        metadata=meta_v1.ObjectMeta(name=name, annotations={"root": config["cgroupRoot"]}),
        status=core_v1.NodeStatus(addresses=(core_v1.NodeAddress(type="InternalIP", address=address),)),
    )
    client = Client(HttpTransport(load(Path(flags["--kubeconfig"]))))
    try:
        await client.create(node)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
    await asyncio.Event().wait()


flags = dict(argument.split("=", 1) for argument in sys.argv[1:])
asyncio.run(main(flags, yaml.safe_load(Path(flags["--config"]).read_text())))

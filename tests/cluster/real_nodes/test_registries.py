"""Real nodes pull images as `--real-node-registry-config` says: from a mirror on this machine, with a password."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from aiohttp import web
from click.testing import CliRunner

from bayplan.cli.clusters.real_nodes import real_node_settings
from bayplan.cli.clusters.up import command, merged_options
from bayplan.cli.clusters.up_options import UpOptions
from bayplan.cli.main import main
from bayplan.cluster.real_nodes.settings import RealNodeSettings
from bayplan.cluster.settings import ClusterSettings
from bayplan.kubelet.runtime.errors import RuntimeRequestError
from tests.cluster.real_nodes.test_real_nodes import running, settings_for
from tests.kubelet.runtime.real_containerd import busybox_image, needs_containerd

IMAGE = "registry.invalid/tools/busybox:1"
_PASSWORD = "Basic " + base64.b64encode(b"reader:secret").decode()
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """A registry with one image, `tools/busybox:1`, for those who know the password."""

    def __init__(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(busybox_image())) as archive:
            config, layer = (archive.extractfile(name).read() for name in ("config.json", "layer.tar"))  # type: ignore[union-attr]
        self._blobs = {_sha256(data): data for data in (config, layer)}
        described = [{"size": len(data), "digest": digest} for digest, data in self._blobs.items()]
        self._manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **described[0]},
                "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", **described[1]}],
            }
        ).encode()
        self.refused = 0

    async def start(self, address: str) -> tuple[web.AppRunner, int]:
        """Listen; returns what ends it, and the port."""
        app = web.Application()
        app.router.add_get("/v2/tools/busybox/manifests/{reference}", self._get_manifest)
        app.router.add_get("/v2/tools/busybox/blobs/{digest}", self._get_blob)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, address, 0).start()
        return runner, runner.addresses[0][1]

    def _check(self, headers: Mapping[str, str]) -> None:
        if headers.get("Authorization") != _PASSWORD:
            self.refused += 1
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": 'Basic realm="test"'})

    async def _get_manifest(self, request: web.Request) -> web.Response:
        self._check(request.headers)
        if request.match_info["reference"] not in ("1", _sha256(self._manifest)):
            raise web.HTTPNotFound
        headers = {"Docker-Content-Digest": _sha256(self._manifest)}
        return web.Response(body=self._manifest, content_type=_MANIFEST, headers=headers)

    async def _get_blob(self, request: web.Request) -> web.Response:
        self._check(request.headers)
        return web.Response(body=self._blobs[request.match_info["digest"]])


def write_hosts(directory: Path, mirror: str, password: str) -> None:
    """Let images of registry.invalid come from a mirror."""
    place = directory / "registry.invalid"
    place.mkdir(parents=True, exist_ok=True)
    (place / "hosts.toml").write_text(
        f'[host."{mirror}"]\ncapabilities = ["pull", "resolve"]\n[host."{mirror}".header]\nAuthorization = "{password}"\n'
    )


@needs_containerd
@pytest.mark.xdist_group("real nodes")
def test_images_come_from_the_mirror_that_the_directory_names(tmp_path: Path) -> None:
    certificates = tmp_path / "certificates"
    settings = dataclasses.replace(settings_for(tmp_path, 1), registry_config=certificates)

    async def steps() -> None:
        registry = Registry()
        async with running(settings) as (_, nodes):
            runtime = nodes.nodes[0].runtime
            runner, port = await registry.start(settings.gateways[0])
            try:
                write_hosts(certificates, f"http://{settings.gateways[0]}:{port}", "Basic d3Jvbmc=")
                with pytest.raises(RuntimeRequestError):
                    await runtime.pull_image(IMAGE, None)
                assert registry.refused > 0
                assert await runtime.image_status(IMAGE) is None
                write_hosts(certificates, f"http://{settings.gateways[0]}:{port}", _PASSWORD)
                await runtime.pull_image(IMAGE, None)
                assert await runtime.image_status(IMAGE) is not None
            finally:
                await runner.cleanup()

    asyncio.run(steps())


def _settings(*arguments: str) -> RealNodeSettings:
    """What `bayplan up` makes of its options, whatever the machine has."""
    with command.make_context("up", ["--store", "memory:", "--real-nodes", "1", *arguments]) as context:
        found = UpOptions(**merged_options(context)).real_node_settings(ClusterSettings())
    assert found is not None
    return found


def test_the_directory_is_an_option_of_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{real_node_settings.__module__}.check", lambda settings, user: None)
    assert _settings().registry_config == Path("/etc/containerd/certs.d")
    assert _settings("--real-node-registry-config", str(tmp_path)).registry_config == tmp_path


@pytest.mark.parametrize(("flags", "expected"), [((), ""), (("--real-node-oci-runtime", "crun"), "crun")])
def test_the_oci_runtime_is_an_option_of_up(
    flags: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{real_node_settings.__module__}.check", lambda settings, user: None)
    assert _settings(*flags).oci_runtime == expected


def test_files_of_nodes_have_absolute_paths_wherever_the_cluster_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{real_node_settings.__module__}.check", lambda settings, user: None)
    monkeypatch.chdir(tmp_path)
    with command.make_context("up", ["--data-dir", "cluster", "--real-nodes", "1"]) as context:
        found = UpOptions(**merged_options(context)).real_node_settings(ClusterSettings())
    assert found is not None
    assert found.directory == tmp_path / "cluster" / "real-nodes"
    with pytest.raises(ValueError, match="cluster: files and mounts name it, so it has to be an absolute path"):
        RealNodeSettings(1, Path("cluster"))


def test_a_directory_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    arguments = ["up", "--store", "memory:", "--real-nodes", "1", "--real-node-registry-config", str(tmp_path / "none")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "does not exist" in result.output

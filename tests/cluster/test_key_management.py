"""A cluster that encrypts with keys of a key management service behind a socket: start, rotation, a service that goes away, reload."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from bayplan.api.types import core_v1
from bayplan.apiserver.requests import Request
from bayplan.client.errors import ApiError
from bayplan.cluster.api_server.kms_client import kms_messages
from bayplan.cluster.cluster import Cluster
from tests.apiserver.serving import ADMIN
from tests.cluster.test_encryption import on_disk, running, secret, value_of


class Plugin:
    """A key management service that keeps what it encrypts. It answers in threads of its own, as the calls of the server block."""

    def __init__(self, socket: Path) -> None:
        self.key_id = "key-1"
        self._socket = socket
        self._kept: dict[bytes, bytes] = {}
        self._names = kms_messages()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=2))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                answer,
                request_deserializer=self._names[f"{name}Request"].FromString,
                response_serializer=self._names[f"{name}Response"].SerializeToString,
            )
            for name, answer in (("Status", self._status), ("Encrypt", self._encrypt), ("Decrypt", self._decrypt))
        }
        service = grpc.method_handlers_generic_handler("v2.KeyManagementService", handlers)
        self._server.add_generic_rpc_handlers((service,))

    def _status(self, _: Any, __: Any) -> Any:
        return self._names["StatusResponse"](version="v2", healthz="ok", key_id=self.key_id)

    def _encrypt(self, request: Any, _: Any) -> Any:
        name = b"%d" % len(self._kept)
        self._kept[name] = request.plaintext
        return self._names["EncryptResponse"](ciphertext=name, key_id=self.key_id, annotations={"a.example.com": b"b"})

    def _decrypt(self, request: Any, _: Any) -> Any:
        assert dict(request.annotations) == {"a.example.com": b"b"}
        return self._names["DecryptResponse"](plaintext=self._kept[request.ciphertext])

    def start(self) -> None:
        """Listen."""
        self._server.add_insecure_port(f"unix:{self._socket}")
        self._server.start()

    def close(self) -> None:
        """Listen no longer."""
        self._server.stop(None).wait()


def configuration(directory: Path, **more: object) -> Path:
    kms = {"name": "plugin", "apiVersion": "v2", "endpoint": f"unix://{directory}/kms.sock", **more}
    rule = {"resources": ["secrets"], "providers": [{"kms": kms}, {"identity": {}}]}
    tree = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    path = directory / "encryption.json"
    path.write_text(json.dumps(tree))
    return path


async def health(cluster: Cluster, path: str) -> tuple[int, str]:
    answer = await cluster.api.handle(Request("GET", path, {}, ADMIN))
    return answer.code, answer.body.decode()


def test_secrets_are_encrypted_read_after_a_restart_and_rotated_with_the_key_of_the_service(tmp_path: Path) -> None:
    async def run() -> None:
        plugin = Plugin(tmp_path / "kms.sock")
        plugin.start()
        path = configuration(tmp_path)
        async with running(tmp_path, path) as cluster:
            await cluster.client().create(secret("a"))
            assert await health(cluster, "/readyz/kms-providers") == (200, "ok")
        assert b"k8s:enc:kms:v2:plugin:" in on_disk(tmp_path)
        assert b"battery" not in on_disk(tmp_path)
        async with running(tmp_path, path) as cluster:
            before = await value_of(cluster, "a")
            plugin.key_id = "key-2"
            assert cluster.encryption is not None
            cluster.encryption._probe()
            found = await cluster.client().get(core_v1.Secret, "a", "default")
            await cluster.client().update(found)  # nothing in it has changed, but its key has
        assert b"key-2" in on_disk(tmp_path)
        async with running(tmp_path, path) as cluster:
            assert await value_of(cluster, "a") == before
        plugin.close()

    asyncio.run(run())


def test_a_service_that_comes_after_the_server_is_waited_for_and_health_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        plugin = Plugin(tmp_path / "kms.sock")
        async with running(tmp_path, configuration(tmp_path)) as cluster:
            code, text = await health(cluster, "/readyz/kms-providers")
            assert (code, "failed to perform status section" in text) == (500, True)
            assert (await health(cluster, "/healthz"))[0] == 500
            assert (await health(cluster, "/livez"))[0] == 200  # a restart mends nothing
            assert (await health(cluster, "/livez/kms-providers"))[0] == 404
            with pytest.raises(ApiError, match="has no key to encrypt with") as caught:
                await cluster.client().create(secret("a"))
            assert (caught.value.code, caught.value.reason) == (500, "InternalError")
            plugin.start()
            assert cluster.encryption is not None
            async with asyncio.timeout(20):
                while cluster.encryption.service_error():
                    await asyncio.sleep(0.05)
                    cluster.encryption._probe()
            assert await health(cluster, "/readyz/kms-providers") == (200, "ok")
            await cluster.client().create(secret("a"))
        plugin.close()

    asyncio.run(run())


def test_a_changed_file_comes_into_force_only_if_its_service_is_well(tmp_path: Path) -> None:
    async def run() -> None:
        plugin = Plugin(tmp_path / "kms.sock")
        plugin.start()
        async with running(tmp_path, configuration(tmp_path)) as cluster:
            assert cluster.encryption is not None
            configuration(tmp_path, endpoint=f"unix://{tmp_path}/nobody.sock", name="other")
            assert not await cluster.encryption.reload()
            await cluster.client().create(secret("a"))
            configuration(tmp_path, name="second")
            assert await cluster.encryption.reload()
            await cluster.client().create(secret("b"))
            assert b"k8s:enc:kms:v2:second:" in on_disk(tmp_path)
        plugin.close()

    asyncio.run(run())

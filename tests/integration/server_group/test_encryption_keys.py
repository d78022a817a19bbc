"""Encryption keys are changed in a group of processes, and `bayplan store rewrite` brings everything to the new one."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from bayplan.cli.main import main
from bayplan.store.sqlite.contents import opened_contents
from bayplan.support.clock import SystemClock
from tests.integration.server_group.group import MAPS, needs_linux, running

pytestmark = needs_linux
_SECRETS = "/api/v1/namespaces/default/secrets"


def configure(path: Path, *names: str) -> None:
    """Encrypt secrets with keys of these names, the first of them for what is written."""
    keys = [{"name": name, "secret": base64.b64encode(name.encode().ljust(32, b"k")).decode()} for name in names]
    providers = [{"aescbc": {"keys": keys}}, {"identity": {}}]
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": providers}],
    }
    path.write_text(yaml.safe_dump(configuration))


def stored(path: Path) -> list[bytes]:
    """How the secrets of a file begin."""

    async def read() -> list[bytes]:
        with opened_contents(path, SystemClock().now()) as contents:
            entries = [entry async for page in contents.pages() for entry in page]
        return [entry.value[:28] for entry in entries if "/secrets/" in entry.key]

    return asyncio.run(read())


def test_everything_is_kept_with_the_new_key_after_a_rewriting(tmp_path: Path) -> None:
    configure(tmp_path / "keys.yaml", "one")
    flag = f"--encryption-provider-config={tmp_path}/keys.yaml"
    with running(tmp_path, flag) as group:
        for number, connection in enumerate(group.connections(30)):
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s-{number}"}}
            assert connection.ask("POST", _SECRETS, secret)[0] == 201
    assert all(one.startswith(b"k8s:enc:aescbc:v1:one:") for one in stored(tmp_path / "store.db"))
    configure(tmp_path / "keys.yaml", "two", "one")
    with running(tmp_path, flag) as group:
        arguments = ["store", "rewrite", "secrets", f"--kubeconfig={tmp_path}/kubeconfig", "-o", "json"]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)["secrets"]
        assert (found["objects"], found["written"], found["failures"]) == (30, 30, [])
        again = json.loads(CliRunner().invoke(main, arguments).stdout)["secrets"]
        assert (again["written"], again["current"]) == (0, 30)
        assert group.connect().ask("GET", MAPS)[0] == 200
    kept = stored(tmp_path / "store.db")
    assert len(kept) == 30
    assert all(one.startswith(b"k8s:enc:aescbc:v1:two:") for one in kept)

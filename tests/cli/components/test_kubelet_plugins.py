"""Credential provider plugins of `bayplan kubelet`: what is wrong with them is said before anything starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import BAYPLAN


def refused(*arguments: str) -> tuple[int, str]:
    """(exit code, message) of a kubelet that does not start."""
    done = subprocess.run([BAYPLAN, "kubelet", *arguments], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr


def test_configuration_and_directory_are_needed_together(tmp_path: Path) -> None:
    for name in ("config", "bin-dir"):
        code, message = refused(f"--image-credential-provider-{name}={tmp_path}")
        assert code == 2
        assert "needed together" in message


@pytest.mark.skipif(os.geteuid() != 0, reason="a kubelet needs root")
def test_wrong_configurations_are_named(tmp_path: Path) -> None:
    config, programs = tmp_path / "config.yaml", f"--image-credential-provider-bin-dir={tmp_path}"
    code, message = refused(f"--image-credential-provider-config={config}", programs)
    assert (code, str(config) in message) == (1, True)
    provider = {
        "name": "login",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "matchImages": ["*.test"],
        "defaultCacheDuration": "1m",
    }
    document = {"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1", "providers": [provider]}
    config.write_text(yaml.safe_dump(document))
    code, message = refused(f"--image-credential-provider-config={config}", programs)
    assert code == 1
    assert f"{tmp_path}/login did not exist" in message

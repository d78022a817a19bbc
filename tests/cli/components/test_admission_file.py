"""The file with the configuration of admission plugins: what cannot be meant is refused, and nobody believes that a plugin is configured that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cli.output import Failure

_HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"


def read(path: Path) -> object:
    settings, *_ = api_server_settings((f"--admission-control-config-file={path}",))
    return settings.admission_configuration


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'no kind "" is registered for version ""; expected AdmissionConfiguration of apiserver.config.k8s.io/v1'),
        ("apiVersion: v1\nkind: ConfigMap\n", 'no kind "ConfigMap" is registered for version "v1"'),
        ("imagePolicy: {allowTTL: 5}\n", 'no kind "" is registered'),
        (_HEAD + "plugins: {}x\n", "expected <block end>"),
        (_HEAD + "plugins: [a]\n", r"plugins\[0\].name: Required value"),
        (_HEAD + "plugins: [{name: A, configuration: 5}]\n", r"plugins\[0\].configuration: expected an object"),
        (_HEAD + "plugins: [{name: A, path: nowhere}]\n", "No such file or directory: .*nowhere"),
        ("\x00", "special characters are not allowed"),
    ],
)
def test_what_is_none_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "admission.yaml"
    path.write_text(text)
    with pytest.raises(Failure, match=f"--admission-control-config-file: {path}: (?s:.*){problem}"):
        read(path)


def test_plugins_are_configured_inline_or_in_files_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("limits: []\n")
    path = tmp_path / "admission.yaml"
    path.write_text(_HEAD + "plugins: [{name: A, configuration: {b: 1}}, {name: C, path: own.yaml}, {name: D}]\n")
    assert read(path) == {"A": {"b": 1}, "C": {"limits": []}, "D": {}}

"""The command line: help, wrong input, exit codes, output formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan import KUBERNETES_VERSION, __version__
from bayplan.cli.main import VERBS, main
from bayplan.store.file_lock import FileLock


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_help_lists_every_verb() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for verb, text in VERBS.items():
        assert verb in result.output
        assert text.split(",")[0] in result.output


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_an_unknown_verb_names_the_nearest_one() -> None:
    result = run("explian")
    assert result.exit_code == 2
    assert "did you mean 'explain'?" in result.output


def test_an_unknown_option_names_the_nearest_one() -> None:
    result = run("apiserver", "--secure-prot", "1")
    assert result.exit_code == 2
    assert "--secure-port" in result.output


def test_version_as_text_json_and_yaml() -> None:
    assert run("version").output.startswith(f"bayplan {__version__} (Kubernetes {KUBERNETES_VERSION}")
    assert json.loads(run("version", "-o", "json").output)["kubernetes"] == KUBERNETES_VERSION
    assert yaml.safe_load(run("version", "-o", "yaml").output)["bayplan"] == __version__


class TestUp:
    def test_a_data_directory_in_use_says_how_to_choose_another(self, tmp_path: Path) -> None:
        lock = FileLock(tmp_path / "store.db.lock", tmp_path / "store.db")
        lock.acquire()
        try:
            result = run("up", "--data-dir", str(tmp_path), "--port", "0")
        finally:
            lock.release()
        assert (result.exit_code, "choose another path with --data-dir or --store" in result.output) == (1, True)

    def test_a_file_of_options_knows_them_by_the_names_of_the_command_line(self, tmp_path: Path) -> None:
        file = tmp_path / "up.yaml"
        file.write_text("nods: 2\n")
        result = run("up", "--config", str(file))
        assert (result.exit_code, "nods: no such option; known: " in result.output) == (2, True)
        known = result.output.split("known: ")[1].split()
        assert "from," in known
        assert not {"source,", "config,", "help,"} & set(known)

    def test_store_and_data_directory_exclude_each_other(self, tmp_path: Path) -> None:
        result = run("up", "--store", "memory:", "--data-dir", str(tmp_path))
        assert result.exit_code == 2
        assert "exclude each other" in result.output

    def test_an_unknown_kind_of_store_is_named(self, tmp_path: Path) -> None:
        result = run("up", "--store", "postgres://x", "--port", "0", "--kubeconfig", str(tmp_path / "kubeconfig"))
        assert result.exit_code == 1
        assert "unknown kind of store" in result.output
        assert "sqlite:PATH" in result.output

    def test_a_data_directory_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("")
        result = run("up", "--data-dir", str(file), "--port", "0")
        assert result.exit_code == 1
        assert str(file) in result.output
        assert "--data-dir" in result.output

    def test_a_config_file_with_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        config = tmp_path / "up.yaml"
        config.write_text("noodles: 3\n")
        result = run("up", "--config", str(config))
        assert result.exit_code == 2
        assert "noodles: no such option" in result.output

    def test_a_config_file_with_a_wrong_value_names_the_option(self, tmp_path: Path) -> None:
        config = tmp_path / "up.yaml"
        config.write_text("nodes: many\n")
        result = run("up", "--config", str(config))
        assert result.exit_code == 2
        assert "nodes:" in result.output

    def test_an_unknown_flag_of_the_api_server_names_the_nearest_one(self, tmp_path: Path) -> None:
        result = run("up", "--data-dir", str(tmp_path), "--apiserver-flag=--service-cluster-ip-rang=10.0.0.0/16")
        assert result.exit_code == 2
        assert "did you mean --service-cluster-ip-range?" in result.output

    def test_a_manifest_that_is_no_yaml_is_refused_before_anything_starts(self, tmp_path: Path) -> None:
        manifest = tmp_path / "broken.yaml"
        manifest.write_text("a: [b\n")
        result = run("up", "--data-dir", str(tmp_path / "data"), "--apply", str(manifest))
        assert result.exit_code == 1
        assert "broken.yaml: not valid YAML" in result.output
        assert not (tmp_path / "data").exists()


class TestExplain:
    CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: small, labels: {kubernetes.io/hostname: small}}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: big, namespace: default}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: little}
spec: {nodeName: small, containers: [{name: c, image: x}]}
"""

    @pytest.fixture
    def cluster(self, tmp_path: Path) -> str:
        file = tmp_path / "cluster.yaml"
        file.write_text(self.CLUSTER)
        return str(file)

    def test_a_pod_that_fits_nowhere_is_a_negative_answer(self, cluster: str) -> None:
        result = run("explain", "big", "--cluster", cluster)
        assert result.exit_code == 1
        assert "Insufficient cpu" in result.output
        assert "NodeResourcesFit" in result.output

    def test_a_pod_that_runs_is_explained_where_it_is(self, cluster: str) -> None:
        result = run("explain", "little", "--cluster", cluster)
        assert result.exit_code == 0
        assert "runs on small" in result.output

    def test_json_holds_the_verdict_on_every_node(self, cluster: str) -> None:
        data = json.loads(run("explain", "default/big", "--cluster", cluster, "-o", "json").output)
        assert data["nodes"]["small"]["filter"]["plugin"] == "NodeResourcesFit"
        assert data["pod"] == "default/big"

    def test_a_missing_pod_is_named(self, cluster: str) -> None:
        result = run("explain", "nobody", "-n", "shop", "--cluster", cluster)
        assert result.exit_code == 2
        assert "no pod nobody in namespace shop" in result.output

    def test_a_missing_kubeconfig_says_how_to_name_one(self, tmp_path: Path) -> None:
        result = run("explain", "x", "--kubeconfig", str(tmp_path / "none"))
        assert result.exit_code == 2
        assert "--kubeconfig" in result.output


def test_durations_are_read_as_go_writes_them() -> None:
    from bayplan.cli.flags.kube_flags import seconds

    assert seconds("1h0m0s") == 3600
    assert seconds("1m30s") == 90
    assert seconds("0.5s") == 0.5

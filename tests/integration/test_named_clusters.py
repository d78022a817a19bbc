"""Clusters in the background, by their names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from bayplan.support.system.process_ids import process_id
from tests.integration.conftest import BAYPLAN

THEIRS = (
    "apiVersion: v1\nkind: Config\ncurrent-context: work\ncontexts:\n- name: work\n  context: {cluster: c, user: u}\n"
)


class Home:
    """A user's home, with a kubeconfig of their own."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data" / "bayplan" / "clusters"
        self.kubeconfig = directory / "config"
        self.kubeconfig.write_text(THEIRS)
        self.environment = {
            **os.environ,
            "XDG_DATA_HOME": str(directory / "data"),
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(directory),
        }
        self.directory = directory

    def run(self, *words: str, code: int = 0) -> str:
        """What a command says, on whichever stream."""
        done = subprocess.run(
            [BAYPLAN, *words],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env=self.environment,
            cwd=self.directory,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def clusters(self) -> dict[str, Any]:
        return {each["name"]: each for each in json.loads(self.run("list", "-o", "json"))["clusters"]}

    def contexts(self) -> list[str]:
        return [each["name"] for each in yaml.safe_load(self.kubeconfig.read_text())["contexts"]]

    def core(self, context: str) -> client.CoreV1Api:
        return client.CoreV1Api(config.new_client_from_config(str(self.kubeconfig), context))

    def pid(self, name: str) -> int:
        return int((self.data / name / "bayplan.pid").read_text().split()[0])


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    yield made
    made.run("delete", "--all")


def test_several_clusters_run_side_by_side_and_keep_what_they_have(home: Home) -> None:
    manifest = home.directory / "map.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: initial, namespace: default}\n")
    assert "ready: https://127.0.0.1:" in home.run("create", "--nodes", "2", "--apply", "map.yaml")
    assert "context bayplan-two" in home.run("create", "two", "--nodes=700", "--no-switch")
    assert home.contexts() == ["work", "bayplan-local", "bayplan-two"]
    assert yaml.safe_load(home.kubeconfig.read_text())["current-context"] == "bayplan-local"
    found = home.clusters()
    assert [(each["status"], each["ready"], each["nodes"]) for each in found.values()] == [
        ("Running", 2, 2),
        ("Running", 700, 700),
    ]
    assert 20 << 20 < found["local"]["memory"] < 1 << 30
    core = home.core("bayplan-local")
    core.delete_namespaced_config_map("initial", "default")
    core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="kept")))

    assert home.run("stop") == "local: stopped\n"
    assert home.run("stop") == "local: was stopped\n"
    assert home.clusters()["local"]["status"] == "Stopped"
    assert "ready: " + found["local"]["server"] in home.run("start")
    assert home.run("start") == "local: runs already\n"
    names = {each.metadata.name for each in home.core("bayplan-local").list_namespaced_config_map("default").items}
    assert "kept" in names
    assert "initial" not in names, "manifests are applied to a new cluster only"

    assert home.run("list", "-o", "name") == "local\ntwo\n"
    assert found["two"]["server"] in home.run("kubeconfig", "two")
    assert "with 700 nodes" in home.run("logs", "two", "--tail=5")
    assert home.run("logs", "two", "--tail=0") == ""
    process = process_id(home.pid("two"))
    assert process is not None
    home.run("delete", "two")
    assert process_id(process.pid) != process
    assert home.contexts() == ["work", "bayplan-local"]
    assert [each.name for each in home.data.iterdir()] == ["local"]


def test_a_cluster_that_was_killed_is_stopped_and_starts_again(home: Home) -> None:
    home.run("create", "--nodes=0")
    os.kill(home.pid("local"), signal.SIGKILL)
    assert home.clusters()["local"]["status"] == "Stopped"
    assert "ready: " in home.run("start")
    home.core("bayplan-local").list_namespace()


def test_one_that_is_frozen_does_not_answer(home: Home) -> None:
    home.run("create", "--nodes=0")
    os.kill(home.pid("local"), signal.SIGSTOP)
    try:
        assert home.clusters()["local"]["status"] == "NotAnswering"
        assert "NotAnswering" in home.run("list")
    finally:
        os.kill(home.pid("local"), signal.SIGCONT)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("start", "nope"), 2, "there is no cluster 'nope'; there are: none"),
        (("stop", "nope"), 2, "there is no cluster"),
        (("delete", "nope"), 2, "there is no cluster"),
        (("logs", "nope"), 2, "there is no cluster"),
        (("kubeconfig", "nope"), 2, "there is no cluster"),
        (("create", "../up"), 2, "cannot be the name of a cluster"),
        (("create", "x" * 41), 2, "40 at most"),
        (("create", "--nodes=-1"), 2, "--nodes"),
        (("create", "--data-dir=/tmp"), 2, "No such option"),
        (("create", "--from=-"), 2, "cannot read standard input"),
        (("create", "--scheduler-flag=--nope"), 1, "has ended: Usage: bayplan up"),
        (("delete", "--all", "local"), 2, "exclude each other"),
    ],
)
def test_what_makes_no_sense_is_told_and_leaves_nothing(
    home: Home, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in home.run(*words, code=code)
    assert home.kubeconfig.read_text() == THEIRS
    assert home.run("list", "-o", "name") == ""
    assert not home.data.exists() or list(home.data.iterdir()) == []


def test_a_name_is_taken_once(home: Home) -> None:
    home.run("create", "--nodes=0")
    assert "cluster 'local' exists" in home.run("create", code=1)
    assert home.clusters()["local"]["status"] == "Running"


def test_two_who_make_the_same_cluster_do_not_harm_each_other(home: Home) -> None:
    both = [
        subprocess.Popen(
            [BAYPLAN, "create", "--nodes=0"], env=home.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    said = [each.communicate(timeout=60)[1].decode() for each in both]
    assert sorted(each.returncode for each in both) == [0, 1], said
    assert any("is being started or stopped" in each or "exists" in each for each in said)
    assert home.clusters()["local"]["status"] == "Running"
    home.core("bayplan-local").list_namespace()


def test_a_context_of_that_name_is_not_replaced(home: Home) -> None:
    text = THEIRS.replace("name: work", "name: bayplan-local")
    home.kubeconfig.write_text(text)
    assert "is not this cluster's, and stays as it is" in home.run("create", "--nodes=0", code=1)
    assert home.kubeconfig.read_text() == text
    assert home.clusters()["local"]["status"] == "Running"

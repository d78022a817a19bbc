"""The verbs that ask questions of a copy: answers as text and data, exit codes, reports."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from bayplan.cli.main import main
from bayplan.simulation.snapshots.snapshot import to_bytes
from bayplan.testing.builders import node, pod
from tests.simulation.objects import copy_of, owned, running, set_of


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """Two nodes, of which the lesser has one pod that can move; a pod that fits nowhere."""
    web = set_of("web")
    there = [owned(web, "web-1", "a", cpu="2"), owned(web, "web-2", "b", cpu="500m")]
    copy = copy_of(node("a"), node("b", cpu="2"), web, *there, pod("big", cpu="6"))
    file = tmp_path / "cluster.bayplan"
    file.write_bytes(to_bytes(copy))
    return str(file)


class TestSnapshot:
    def test_a_dump_becomes_a_copy(self, tmp_path: Path) -> None:
        dump, out = tmp_path / "nodes.yaml", tmp_path / "out"
        dump.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: a}\n")
        result = run("snapshot", "--from", str(dump), "-o", str(out))
        assert (result.exit_code, "1 Node" in result.output) == (0, True)
        assert b'"name":"a"' in gzip.decompress(out.read_bytes())
        assert oct(out.stat().st_mode & 0o777) == "0o600"

    def test_the_summary_as_data(self, cluster: str, tmp_path: Path) -> None:
        result = run("snapshot", "--from", cluster, "-o", str(tmp_path / "o"), "--format", "json", "--anonymize")
        data = json.loads(result.output)
        assert (data["counts"]["Node"], data["anonymized"]) == (2, True)
        assert b"web" not in gzip.decompress((tmp_path / "o").read_bytes())

    @pytest.mark.parametrize(("output", "form"), [("/dev/stdout", "text"), ("-", "text"), ("-", "json")])
    def test_a_copy_on_standard_output_is_nothing_but_the_copy(self, cluster: str, output: str, form: str) -> None:
        command = [str(Path(sys.executable).parent / "bayplan"), "snapshot", "--from", cluster, "-o", output]
        done = subprocess.run([*command, "--format", form], capture_output=True, timeout=60, check=True)
        assert gzip.decompress(done.stdout).startswith(b'{"format"')
        assert b"Node" in done.stderr

    def test_secrets_are_a_usage_error(self, tmp_path: Path) -> None:
        result = run("snapshot", "--include", "secrets", "-o", str(tmp_path / "o"))
        assert (result.exit_code, "never copied" in result.output) == (2, True)

    def test_a_file_is_not_overwritten_by_accident(self, cluster: str) -> None:
        result = run("snapshot", "--from", cluster, "-o", cluster)
        assert (result.exit_code, "--force" in result.output) == (1, True)
        assert run("snapshot", "--from", cluster, "-o", cluster, "--force").exit_code == 0

    def test_an_unreachable_cluster_is_an_error(self, tmp_path: Path) -> None:
        result = run("snapshot", "--kubeconfig", str(tmp_path / "none"), "-o", str(tmp_path / "o"))
        assert (result.exit_code, "--kubeconfig" in result.output) == (2, True)


class TestCapacity:
    def test_text_says_how_many_and_why_no_more(self, cluster: str) -> None:
        result = run("capacity", "--cluster", cluster, "--cpu", "500m", "--memory", "64Mi")
        assert result.exit_code == 0
        assert "7 more pods" in result.output
        assert "Insufficient cpu" in result.output

    def test_data_has_every_node(self, cluster: str) -> None:
        data = json.loads(run("capacity", "--cluster", cluster, "--cpu", "500m", "-o", "json").output)
        assert (data["fits"], data["perNode"]) == (7, {"a": 4, "b": 3})

    def test_too_few_is_a_negative_answer_with_the_nodes_missing(self, cluster: str) -> None:
        result = run("capacity", "--cluster", cluster, "--like", "default/web-1", "--replicas", "4", "-o", "yaml")
        data = yaml.safe_load(result.output)
        assert (result.exit_code, data["enough"], data["missing"]["nodes"]) == (1, False, 2)

    def test_a_shape_of_nodes(self, cluster: str) -> None:
        arguments = ("--cpu", "6", "--replicas", "4", "--shape", "cpu=12,memory=64Gi")
        result = run("capacity", "--cluster", cluster, *arguments, "-o", "json")
        assert json.loads(result.output)["missing"]["nodes"] == 2

    def test_a_pod_of_a_file(self, cluster: str, tmp_path: Path) -> None:
        file = tmp_path / "pod.yaml"
        spec = "{containers: [{name: c, image: x, resources: {requests: {cpu: '1'}}}]}"
        file.write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: mine}}\nspec: {spec}\n")
        assert json.loads(run("capacity", "--cluster", cluster, "--pod", str(file), "-o", "json").output)["fits"] == 3

    def test_a_mix(self, cluster: str) -> None:
        result = run(
            "capacity", "--cluster", cluster, "--mix", "default/web-1=1", "--mix", "default/web-2=2", "-o", "json"
        )
        assert json.loads(result.output)["sets"] == 1

    @pytest.mark.parametrize(
        "arguments",
        [(), ("--cpu", "1", "--like", "default/web-1"), ("--cpu", "1", "--shape", "cpu=1"), ("--mix", "web")],
    )
    def test_a_question_that_makes_no_sense_is_a_usage_error(self, cluster: str, arguments: tuple[str, ...]) -> None:
        assert run("capacity", "--cluster", cluster, *arguments).exit_code == 2

    @pytest.mark.parametrize("amount", ["lots", "-1"])
    def test_an_amount_that_is_none_is_named(self, cluster: str, amount: str) -> None:
        result = run("capacity", "--cluster", cluster, "--cpu", amount)
        assert (result.exit_code, f"cpu={amount}: " in result.output) == (2, True)
        shape = ("--shape", f"cpu={amount}", "--replicas", "99")
        result = run("capacity", "--cluster", cluster, "--cpu", "1", *shape)
        assert (result.exit_code, f"cpu={amount}: " in result.output) == (2, True)


class TestConsolidate:
    def test_text_names_the_node_and_where_its_pods_go(self, cluster: str) -> None:
        result = run("consolidate", "--cluster", cluster, "--moves")
        assert result.exit_code == 0
        assert "1 of 2 nodes can go" in result.output
        assert "default/web-2" in result.output

    def test_data_has_every_move(self, cluster: str) -> None:
        data = json.loads(run("consolidate", "--cluster", cluster, "-o", "json").output)
        assert data["steps"] == [{"node": "b", "moves": [{"pod": "default/web-2", "to": "a"}], "goWithTheNode": []}]
        assert data["nodes"] == {"before": 2, "after": 1}

    def test_nothing_to_remove_is_a_negative_answer(self, cluster: str) -> None:
        assert run("consolidate", "--cluster", cluster, "--keep", "2").exit_code == 1

    @pytest.mark.parametrize("selector", ["a in (", "pool=none"])
    def test_a_selector_that_selects_nothing_is_named(self, cluster: str, selector: str) -> None:
        result = run("consolidate", "--cluster", cluster, "-l", selector)
        assert (result.exit_code, f"--selector {selector}: " in result.output) == (2, True)


class TestFix:
    def test_text_names_the_changes_and_where_to_make_them(self, cluster: str) -> None:
        result = run("explain", "big", "--cluster", cluster, "--fix")
        assert result.exit_code == 0
        assert "lower the cpu request of container main from 6 to 2" in result.output

    def test_data(self, cluster: str) -> None:
        data = json.loads(run("explain", "big", "--cluster", cluster, "--fix", "-o", "json").output)
        assert data["fixes"][0]["changes"][0]["kind"] == "lower-request"
        assert data["tried"] > 3

    def test_nothing_helps_is_a_negative_answer(self, tmp_path: Path) -> None:
        file = tmp_path / "c"
        file.write_bytes(to_bytes(copy_of(node("a", pods="0"), pod("p", cpu="99"))))
        result = run("explain", "p", "--cluster", str(file), "--fix", "--like-node", "a")
        assert (result.exit_code, "Nothing helps" in result.output) == (1, True)

    def test_options_of_fix_need_fix(self, cluster: str) -> None:
        assert run("explain", "big", "--cluster", cluster, "--html", "x").exit_code == 2

    def test_reasons_stand_on_one_line_where_there_is_no_terminal(self, tmp_path: Path) -> None:
        file = tmp_path / "c"
        file.write_bytes(to_bytes(copy_of(node("a" * 40), pod("p", node_selector={"disk": "ssd"}))))
        line = run("explain", "p", "--cluster", str(file)).output.splitlines()[-1].strip()
        assert line.split(maxsplit=2)[1:] == ["NodeAffinity", "node(s) didn't match Pod's node affinity/selector"]

    def test_explain_takes_a_copy_too(self, cluster: str) -> None:
        result = run("explain", "big", "--cluster", cluster)
        assert (result.exit_code, "Insufficient cpu" in result.output) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("capacity", "--cpu", "1"),
        ("consolidate",),
        ("explain", "big", "--fix"),
        ("simulate", "--scale", "replicaset/default/web=1"),
        ("compare", "--scheduler-config", "CONFIG", "--seeds", "1"),
    ],
)
def test_every_verb_writes_a_report(cluster: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    page, config = tmp_path / "page.html", tmp_path / "CONFIG"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    asked = [str(config) if one == "CONFIG" else one for one in arguments]
    result = run(*asked, "--cluster", cluster, "--html", str(page))
    assert result.exit_code == 0
    assert page.read_text().startswith("<!doctype html>")
    result = run(*asked, "--cluster", cluster, "--html", str(tmp_path / "no" / "page"))
    assert (result.exit_code, "the report cannot be written" in result.output) == (1, True)


@pytest.mark.parametrize("verb", [("capacity", "--cpu", "1"), ("consolidate",), ("explain", "p")])
def test_a_cluster_that_is_not_there_is_named(verb: tuple[str, ...]) -> None:
    result = run(*verb, "--cluster", "/nowhere/at/all")
    assert (result.exit_code, "/nowhere/at/all" in result.output) == (2, True)


def test_a_cluster_that_holds_nothing_is_an_error() -> None:
    result = CliRunner().invoke(main, ["capacity", "--cluster", "-", "--cpu", "1"], input="")
    assert (result.exit_code, "standard input: holds no object" in result.output) == (2, True)


def test_standard_input(cluster: str) -> None:
    data = Path(cluster).read_bytes()
    result = CliRunner().invoke(main, ["capacity", "--cluster", "-", "--cpu", "1", "-o", "json"], input=data)
    assert json.loads(result.output)["fits"] == 3


def test_what_a_dump_left_out_is_said(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}]})
    )
    (tmp_path / "pods.json").write_text('{"kind": "PodList", "apiVersion": "v1", "items": [')
    result = run("capacity", "--cluster", str(tmp_path), "--cpu", "1")
    assert (result.exit_code, "warning: left out" in result.output) == (1, True)


def test_a_running_pod_is_asked_about_as_if_it_were_new(tmp_path: Path) -> None:
    file = tmp_path / "c"
    file.write_bytes(to_bytes(copy_of(node("a"), running("p", "a", cpu="1"))))
    assert json.loads(run("capacity", "--cluster", str(file), "--like", "default/p", "-o", "json").output)["fits"] == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("explain", "p"), 1), (("explain", "p", "--fix"), 2), (("capacity", "--like", "default/p"), 2)],
)
def test_a_pod_of_another_scheduler_says_what_to_configure(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    file = tmp_path / "c"
    file.write_bytes(to_bytes(copy_of(node("a"), pod("p", scheduler_name="mine"))))
    result = run(*arguments, "--cluster", str(file))
    assert (result.exit_code, "no profile has schedulerName 'mine'" in result.output) == (code, True)


@pytest.mark.parametrize("arguments", [("capacity", "--cpu", "1"), ("consolidate",), ("explain", "p", "--fix")])
def test_a_cluster_without_nodes_is_answered_about(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file, page = tmp_path / "c", tmp_path / "page.html"
    file.write_bytes(to_bytes(copy_of(pod("p", cpu="1"))))
    result = run(*arguments, "--cluster", str(file), "--html", str(page))
    assert result.exit_code == (0 if "--fix" in arguments else 1), result.output
    assert page.exists()


@pytest.mark.parametrize("name", ["pod/big", "pods/big", "po/big", "default/big"])
def test_a_pod_may_be_named_as_kubectl_prints_it(cluster: str, name: str) -> None:
    result = run("explain", name, "--cluster", cluster)
    assert (result.exit_code, "default/big: pending" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("web",), "did you mean web-1?"),
        (("bog",), "did you mean big?"),
        (("big", "-n", "shop"), "there is no pod big in namespace shop; there is one in namespace default"),
        (("other", "-n", "shop"), "it has 0 pods"),
    ],
)
def test_a_pod_that_is_not_there_is_looked_for(cluster: str, arguments: tuple[str, ...], hint: str) -> None:
    result = run("explain", *arguments, "--cluster", cluster)
    assert (result.exit_code, hint in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("apiVersion: v1\nkind: ConfigMap\n", "name or generateName is required"),
        ("apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: x}\n", "this server has no Gadget"),
    ],
)
def test_an_applied_object_that_is_refused_is_named_with_its_file(
    cluster: str, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(text)
    result = run("simulate", "--cluster", cluster, "--apply", str(file))
    assert (result.exit_code, said in result.output) == (1, True), result.output
    assert f"bayplan: {file}: " in result.output


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_an_output_that_takes_no_more_is_said_in_one_line(cluster: str, output: tuple[str, ...]) -> None:
    command = [str(Path(sys.executable).parent / "bayplan"), "explain", "big", "--cluster", cluster, *output]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "bayplan: the output cannot be written: No space left on device\n"

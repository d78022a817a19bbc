"""Command lines of the programs that envtest starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayplan.envtest import apiserver
from bayplan.envtest.apiserver import translated
from bayplan.envtest.arguments import ArgumentError, flags_of

KNOWN = ("authorization-mode", "secure-port", "v")


def test_flags_come_in_all_forms_of_go() -> None:
    words = ["--a=1", "-b=2", "--c", "3", "--on", "--d="]
    assert list(flags_of(words, ["on"])) == [("a", "1"), ("b", "2"), ("c", "3"), ("on", "true"), ("d", "")]


@pytest.mark.parametrize("words", [["stray"], ["--a"], ["-"], ["--"]])
def test_what_is_no_flag_is_refused(words: list[str]) -> None:
    with pytest.raises(ArgumentError):
        list(flags_of(words))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apiserver, "_store", lambda servers: f"sqlite:of {servers}")


@pytest.mark.usefixtures("store")
def test_flags_of_kube_apiserver_become_those_of_bayplan(tmp_path: Path) -> None:
    given = [
        ("authorization-mode", "RBAC"),
        ("etcd-prefix", "/x"),
        ("secure-port", "1"),
        ("etcd-servers", "http://e"),
        ("cert-dir", str(tmp_path)),
    ]
    own = [
        f"--cert-dir={tmp_path}/bayplan",
        f"--kubeconfig={tmp_path}/bayplan/kubeconfig",
        "--store=sqlite:of http://e",
    ]
    flags = ["--authorization-mode=RBAC", "--secure-port=1"]
    assert translated(given, KNOWN) == [*flags, *own]
    (tmp_path / "apiserver.crt").touch()
    pair = [f"--tls-cert-file={tmp_path}/apiserver.crt", f"--tls-private-key-file={tmp_path}/apiserver.key"]
    assert translated(given, KNOWN) == [*flags, *own[:2], *pair, own[2]]
    named = translated([*given, ("tls-cert-file", "/c"), ("tls-private-key-file", "/k")], KNOWN)
    assert named[4:6] == ["--tls-cert-file=/c", "--tls-private-key-file=/k"]


@pytest.mark.usefixtures("store")
def test_flags_that_kube_apiserver_does_not_have_are_refused() -> None:
    with pytest.raises(ArgumentError, match="unknown flag: --nope"):
        translated([("nope", "1")], KNOWN)


def test_an_etcd_of_others_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert apiserver.main(["--etcd-servers=http://127.0.0.1:1"]) == 1
    assert "is not the etcd that belongs to this kube-apiserver" in capsys.readouterr().err
    assert apiserver.main(["--secure-port=1"]) == 1
    assert "--etcd-servers must be specified" in capsys.readouterr().err
    assert apiserver.main(["--etcd-servers", "http://127.0.0.1:1", "--nope=1"]) == 1
    assert "unknown flag: --nope" in capsys.readouterr().err

"""Flags of the audit log."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import urllib.request
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bayplan.apiserver.audit.settings import AuditSettings, BatchSettings
from bayplan.cli.components.apiserver import command
from bayplan.cli.flags.audit_flags import AUDIT_FLAGS
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cli.output import Failure
from tests.integration.conftest import BAYPLAN

POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"


def settings(*flags: str) -> AuditSettings:
    found = api_server_settings(flags)[0].audit
    assert found is not None
    return found


def test_without_flags_there_is_no_audit_log() -> None:
    assert api_server_settings(())[0].audit is None


def test_defaults_are_those_of_kube_apiserver(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    found = settings(f"--audit-policy-file={policy}", "--audit-log-path=/x", "--audit-webhook-config-file=/y")
    assert found.policy is not None
    assert found.log is not None
    assert found.webhook is not None
    log, webhook = found.log, found.webhook
    assert (log.path, log.format, log.mode, log.compress) == ("/x", "json", "blocking", False)
    assert (log.max_age, log.max_backups, log.max_size) == (366, 100, 100)
    assert log.batch.max_size == 1
    assert not log.batch.throttle_enable
    assert (webhook.mode, webhook.initial_backoff, webhook.batch) == ("batch", 10.0, BatchSettings())
    assert not webhook.truncate.enabled


def test_all_can_be_set() -> None:
    found = settings(
        "--audit-log-path=-",
        "--audit-log-format=legacy",
        "--audit-log-mode=blocking-strict",
        "--audit-log-maxage=1",
        "--audit-log-maxbackup=2",
        "--audit-log-maxsize=3",
        "--audit-log-compress",
        "--audit-log-truncate-enabled",
        "--audit-log-truncate-max-event-size=1000",
        "--audit-webhook-config-file=/y",
        "--audit-webhook-batch-initial-backoff=2s",
        "--audit-webhook-batch-max-size=7",
        "--audit-webhook-batch-max-wait=1m",
        "--audit-webhook-batch-buffer-size=70",
        "--audit-webhook-batch-throttle-qps=0.5",
        "--audit-webhook-batch-throttle-burst=3",
        "--audit-webhook-batch-throttle-enable=false",
    )
    assert found.log is not None
    assert found.webhook is not None
    log, webhook = found.log, found.webhook
    assert (log.format, log.mode, log.max_age, log.max_backups, log.max_size) == ("legacy", "blocking-strict", 1, 2, 3)
    assert (log.compress, log.truncate.enabled, log.truncate.max_event_size) == (True, True, 1000)
    assert webhook.initial_backoff == 2.0
    assert webhook.batch == BatchSettings(
        buffer_size=70, max_size=7, max_wait=60.0, throttle_enable=False, throttle_qps=0.5, throttle_burst=3
    )


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--audit-log-mode=never", 'invalid audit log mode never, allowed modes are "batch,blocking,blocking-strict"'),
        ("--audit-log-format=xml", 'invalid audit log format xml, allowed formats are "legacy,json"'),
        ("--audit-log-maxage=-1", "--audit-log-maxage -1 can't be a negative number"),
        ("--audit-log-maxsize=x", 'invalid argument "x" for "--audit-log-maxsize" flag: strconv.ParseInt: parsing "x"'),
        ("--audit-log-compress=x", 'invalid argument "x" for "--audit-log-compress" flag: strconv.ParseBool'),
        ("--audit-webhook-batch-max-size=0", "invalid audit batch webhook max batch size 0, must be a positive number"),
        ("--audit-webhook-batch-buffer-size=0", "invalid audit batch webhook buffer size 0, must be a positive number"),
        ("--audit-webhook-batch-throttle-qps=-1", "invalid audit batch webhook throttle QPS -1, must be a positive"),
        ("--audit-log-truncate-max-event-size=0", "invalid audit truncate log max event size 0, must be a positive"),
        (
            "--audit-log-truncate-max-batch-size=1",
            r"invalid audit truncate log max batch size 1, must be greater than max event size \(102400\)",
        ),
        ("--audit-log-version=v2", r'invalid group version, allowed versions are \[{"audit.k8s.io" "v1"}\]'),
    ],
)
def test_what_makes_no_sense_is_told_in_kube_apiservers_words(flag: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=f"^{message}"):
        settings("--audit-log-path=/x", "--audit-webhook-config-file=/y", flag)


def test_batch_flags_do_not_matter_in_other_modes() -> None:
    found = settings("--audit-log-path=/x", "--audit-log-batch-max-size=0")
    assert found.log is not None


def test_bad_policy_files_are_told(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    why = f'loading audit policy file: failed to read file path "{path}": open {path}: no such file or directory'
    with pytest.raises(Failure, match=why):
        settings(f"--audit-policy-file={path}")
    path.write_text(POLICY.replace("Metadata", "All"))
    with pytest.raises(Failure) as refused:
        settings(f"--audit-policy-file={path}")
    assert str(refused.value) == (
        'loading audit policy file: rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", '
        f'"Request", "RequestResponse": from file {path}'
    )


def test_the_command_knows_all_of_them(tmp_path: Path) -> None:
    names = {name for parameter in command.params for name in parameter.opts}
    assert names >= AUDIT_FLAGS.keys()
    path = tmp_path / "policy.yaml"
    path.write_text("kind: Policy\n")
    arguments = ["--cert-dir", str(tmp_path / "pki"), "--audit-policy-file", str(path), "--audit-log-compress"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    assert result.output.startswith(
        "bayplan: loading audit policy file: failed decoding: Object 'apiVersion' is missing"
    )
    result = CliRunner().invoke(command, ["--cert-dir", str(tmp_path), "--audit-log-path=-", "--audit-log-mode=x"])
    assert result.exit_code == 2


def test_a_server_writes_its_log(tmp_path: Path) -> None:
    policy, log = tmp_path / "policy.yaml", tmp_path / "audit.log"
    policy.write_text(POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}", "--secure-port=0", f"--cert-dir={tmp_path}"]
    process = subprocess.Popen(
        [BAYPLAN, "apiserver", *flags, f"--kubeconfig={tmp_path}/kubeconfig"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        with urllib.request.urlopen(f"{url}/version", context=trust, timeout=10) as answer:
            assert json.load(answer)["major"] == "1"
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    found = [json.loads(line) for line in log.read_text().splitlines()]
    assert {one["requestURI"] for one in found} == {"/version"}
    assert [one["stage"] for one in found] == ["RequestReceived", "ResponseComplete"]

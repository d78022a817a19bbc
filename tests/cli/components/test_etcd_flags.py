"""Flags about etcd."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayplan.cli.flags.etcd_flags import split_etcd_flags
from bayplan.support.web.tls_files import TlsFiles


def test_flags_say_where_etcd_is_and_leave_the_others_alone(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text("PEM")
    etcd, rest = split_etcd_flags(
        [
            "--etcd-servers=https://a:1,https://b:2",
            f"--etcd-cafile={tmp_path}/ca",
            "--event-ttl=5m",
            f"--etcd-certfile={tmp_path}/cert",
            f"--etcd-keyfile={tmp_path}/key",
            "--etcd-prefix=mine/",
            "--etcd-compaction-interval=90s",
        ]
    )
    assert rest == ("--event-ttl=5m",)
    assert etcd.url == "etcd://https://a:1,https://b:2"
    assert etcd.options.tls == TlsFiles(f"{tmp_path}/ca", f"{tmp_path}/cert", f"{tmp_path}/key")
    assert (etcd.options.prefix, etcd.options.compaction_interval) == ("/mine", 90.0)


def test_without_flags_there_is_no_etcd() -> None:
    etcd, rest = split_etcd_flags([])
    assert (etcd.url, etcd.options.tls, rest) == ("", None, ())
    assert (etcd.options.prefix, etcd.options.compaction_interval) == ("/registry", 300.0)
    assert split_etcd_flags(["--etcd-compaction-interval=0"])[0].options.compaction_interval == 0.0


def test_some_resources_may_be_elsewhere() -> None:
    etcd, _ = split_etcd_flags(
        [
            "--etcd-servers=http://a:1",
            "--etcd-servers-overrides=/events#http://b:1;http://c:1,apps/deployments#http://d:1",
        ]
    )
    assert etcd.options.elsewhere == (("/events", "http://b:1,http://c:1"), ("apps/deployments", "http://d:1"))


@pytest.mark.parametrize(
    "value", ["/events", "events#http://b:1", "/events#", "/events#http://b:1;", "a/b/c#d", "/a#b#c"]
)
def test_where_resources_are_is_of_the_form_that_kube_apiserver_wants(value: str) -> None:
    with pytest.raises(
        click.UsageError, match="--etcd-servers-overrides invalid, must be of format: group/resource#serv"
    ):
        split_etcd_flags(["--etcd-servers=http://a:1", f"--etcd-servers-overrides={value}"])


def test_other_servers_for_some_resources_need_those_for_all_others() -> None:
    with pytest.raises(click.UsageError, match="needs --etcd-servers"):
        split_etcd_flags(["--etcd-servers-overrides=/events#http://b:1"])


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--etcd-cafile=/none", "no such file"),
        ("--etcd-certfile=/dev/null", "no such file"),
        ("--etcd-prefix=/", "must not be empty"),
        ("--etcd-compaction-interval=soon", "soon"),
    ],
)
def test_flags_that_make_no_sense_are_refused(flag: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        split_etcd_flags([flag])


def test_certificate_and_key_belong_together(tmp_path: Path) -> None:
    (tmp_path / "cert").write_text("PEM")
    with pytest.raises(click.UsageError, match="belong together"):
        split_etcd_flags([f"--etcd-certfile={tmp_path}/cert"])

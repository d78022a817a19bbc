"""Flags about etcd."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from bayplan.cli.flags.etcd_flags import split_etcd_flags
from bayplan.support.tls_files import TlsFiles


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

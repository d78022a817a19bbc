"""Reaching a live cluster from the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bayplan.client import Client

if TYPE_CHECKING:
    from bayplan.client.credentials import Credentials
    from bayplan.support.metrics.instruments import Registry

F = TypeVar("F", bound=Callable[..., Any])


def connection_options(function: F) -> F:
    """The options `--kubeconfig` and `--context`."""
    function = click.option("--context", default="", help="Context of the kubeconfig.  [default: the current one]")(
        function
    )
    return click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Kubeconfig of the cluster.  [default: $KUBECONFIG, then ~/.kube/config, then the service account of the pod]",
    )(function)


def kubeconfig_paths(given: Path | None) -> list[Path]:
    """The kubeconfigs that are meant: the one named, those of `$KUBECONFIG`, or kubectl's own."""
    from bayplan.client.kubeconfig import default_paths

    return [given] if given is not None else default_paths(os.environ)


def credentials_of(kubeconfig: Path | None, context: str = "") -> Credentials:
    """How a live cluster is reached, and as whom. Raises KubeconfigError."""
    from bayplan.client.in_cluster import is_in_pod, pod_credentials
    from bayplan.client.kubeconfig import load

    paths = kubeconfig_paths(kubeconfig)
    is_named = kubeconfig is not None or context or any(one.exists() for one in paths)
    return pod_credentials(os.environ) if not is_named and is_in_pod(os.environ) else load(paths, context)


def connect(
    kubeconfig: Path | None, context: str, *, user_agent: str = "bayplan", metrics: Registry | None = None
) -> Client:
    """A client for a live cluster, whose requests are counted in `metrics`. Raises KubeconfigError."""
    from bayplan.client.http import HttpTransport

    credentials = credentials_of(kubeconfig, context)
    transport = HttpTransport(credentials, user_agent=user_agent)
    if metrics is None:
        return Client(transport)
    from bayplan.client.metered import MeteredTransport
    from bayplan.support.clock import SystemClock

    host = credentials.server.partition("://")[2].rstrip("/")
    return Client(MeteredTransport(transport, metrics, SystemClock(), host))

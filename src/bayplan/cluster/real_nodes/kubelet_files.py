"""The files with which a real node's kubelet is started: its configuration, its kubeconfig, its command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bayplan.apiserver.certificates import KeyPair
from bayplan.cluster.real_nodes.settings import NAMESPACE, NodePlace
from bayplan.kubelet.node.bootstrap import write_kubeconfig
from bayplan.support.system.private_files import write_private


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """How nodes reach the API server: its URL, the authority (PEM) that vouches for it and for its clients, and who signs certificates: (user, groups) -> pair."""

    server: str
    authority: bytes
    sign: Callable[[str, tuple[str, ...]], KeyPair]


def kubelet_configuration(place: NodePlace, endpoint: str) -> dict[str, Any]:
    """A KubeletConfiguration for a node. endpoint: of its containerd."""
    settings, directory = place.settings, place.directory
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0" if settings.versions[0] == 4 else "::",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(directory / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": place.cgroup,
        "clusterDNS": list(settings.cluster_dns),
        "clusterDomain": settings.cluster_domain,
        "containerRuntimeEndpoint": endpoint,
        "failCgroupV1": False,
        "failSwapOn": False,
        "podLogsDir": str(directory / "logs" / "pods"),
        "staticPodPath": str(directory / "manifests"),
    }


def write_files(place: NodePlace, endpoint: str, api: ApiAccess) -> None:
    """Write a node's configuration and credentials, which are new ones each time. Raises OSError."""
    directory = place.directory
    for path in (
        directory / "kubelet",
        directory / "manifests",
        directory / "logs" / "pods",
        directory / "logs" / "containers",
    ):
        path.mkdir(parents=True, exist_ok=True)
    (directory / "kubelet.yaml").write_text(yaml.safe_dump(kubelet_configuration(place, endpoint), sort_keys=False))
    write_credentials(directory, "kubeconfig", api, f"system:node:{place.name}", ("system:nodes",))


def write_credentials(
    directory: Path, kubeconfig: str, api: ApiAccess, user: str, groups: tuple[str, ...] = ()
) -> None:
    """Write a kubeconfig with a new certificate for a user, and the authority's certificate. Raises OSError."""
    authority, certificate = directory / "ca.crt", directory / f"{kubeconfig}.pem"
    authority.write_bytes(api.authority)
    pair = api.sign(user, groups)
    write_private(certificate, pair.certificate + pair.key)
    cluster = {"server": api.server, "certificate-authority": str(authority)}
    write_kubeconfig(directory / kubeconfig, cluster, certificate)


def kubelet_command(place: NodePlace) -> tuple[str, ...]:
    """The kubelet's command line."""
    directory = place.directory
    flags: dict[str, object] = {
        "--config": directory / "kubelet.yaml",
        "--kubeconfig": directory / "kubeconfig",
        "--root-dir": directory / "kubelet",
        "--cert-dir": directory / "kubelet" / "pki",
        "--container-log-dir": directory / "logs" / "containers",
        "--hostname-override": place.name,
    }
    if place.settings.mode == NAMESPACE:
        flags["--node-ip"] = ",".join(place.addresses)
    elif len(place.settings.versions) > 1:  # it would find the first one only
        flags["--node-ip"] = ",".join(place.settings.gateways)
    return (*place.settings.kubelet, *(f"{name}={value}" for name, value in flags.items()))

"""Settings of a cluster in one process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bayplan.apiserver.authentication.request_headers import RequestHeaders
from bayplan.apiserver.settings import ApiServerSettings
from bayplan.controllers.settings import ControllerSettings
from bayplan.kubelet.simulator.settings import SimulatorSettings
from bayplan.store.etcd.options import EtcdOptions

CLUSTER_API = ApiServerSettings(
    authorization_modes=("Node", "RBAC"),
    publish_component_roles=True,
    runtime_config=("metrics.k8s.io/v1beta1=true",),
    kubelet_preferred_address_types=("InternalIP", "ExternalIP", "Hostname"),
    enable_admission_plugins=("NodeRestriction",),
)
"""The API server of a whole cluster, as kubeadm sets it up: users may do what roles say, nodes may change what is theirs, what pods use is known, and kubelets
are reached at their nodes' addresses."""

CLUSTER_CONTROLLERS = ControllerSettings(cluster_cidr=("10.128.0.0/9",))
"""The controllers of a whole cluster: nodes get their networks where simulated nodes have theirs."""


@dataclass(frozen=True, slots=True)
class SniFiles:
    """A certificate of the server for clients that ask for it by certain names."""

    certificate: Path
    """The certificate (PEM)."""
    key: Path
    """Its key (PEM)."""
    names: tuple[str, ...] = ()
    """Domain names, perhaps with `*.` in front; those in the certificate if there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What `bayplan up` starts."""

    store: str = "memory:"
    """URL of the store: `memory:`, `sqlite:PATH` or `etcd://HOST:PORT,...`."""
    etcd: EtcdOptions = field(default_factory=EtcdOptions)
    """What an etcd store needs to know besides; where which objects stand is added."""
    directory: Path | None = None
    """Where certificates and tokens are kept; None keeps them in memory for one run."""
    bind_address: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 0
    """Port to listen on; 0 lets the system choose."""
    further_addresses: tuple[str, ...] = ()
    """Addresses to listen on as well. To the first of them the `kubernetes` service leads, as pods can reach it."""
    certificate_addresses: tuple[str, ...] = ()
    """Further addresses that the server's own certificate is for."""
    nodes: SimulatorSettings = field(default_factory=SimulatorSettings)
    """The simulated nodes."""
    api: ApiServerSettings = CLUSTER_API
    """The API server."""
    scheduler_config: Path | None = None
    """A KubeSchedulerConfiguration; None for the defaults."""
    scheduler_plugins: tuple[Path, ...] = ()
    """Files of Python with scheduler plugins; those that no profile names are enabled in all of them."""
    are_plugins_followed: bool = True
    """Whether these files are taken anew when they change."""
    descheduler_policy: Path | None = None
    """A DeschedulerPolicy by which pods are evicted; None to run no descheduler."""
    descheduling_interval: float = 300.0
    """Seconds between two passes of the descheduler."""
    tokens: tuple[tuple[str, str, str, tuple[str, ...]], ...] = ()
    """Further static tokens: (token, user, uid, groups)."""
    anonymous: bool = True
    """Whether requests without credentials are taken, as `system:anonymous`, who may do little."""
    controllers: tuple[str, ...] = ("*", "bootstrap-signer-controller", "token-cleaner-controller")
    """Controllers to run, as in `--controllers`. Nodes may join with tokens, as in clusters that kubeadm makes."""
    controller: ControllerSettings = CLUSTER_CONTROLLERS
    """How patient they are."""
    tls_certificate: Path | None = None
    """The server's certificate (PEM); None for one signed by the cluster's own authority."""
    tls_key: Path | None = None
    """The key of that certificate."""
    sni_certificates: tuple[SniFiles, ...] = ()
    """Further certificates, for clients that ask for the server by certain names."""
    client_ca: Path | None = None
    """Authority of client certificates (PEM); None for the cluster's own."""
    kubelet_certificate: Path | None = None
    """With what the server shows kubelets who it is (PEM); None for a certificate of the cluster's own authority."""
    kubelet_key: Path | None = None
    """The key of that certificate."""
    proxy_client_certificate: Path | None = None
    """With what the server shows aggregated servers that it is the front proxy (PEM); None for a certificate of an own authority."""
    proxy_client_key: Path | None = None
    """The key of that certificate."""
    requestheader_ca: Path | None = None
    """Authority of the front proxy (PEM), which is published; None for an own one."""
    requestheader_names: tuple[str, ...] = ()
    """Names that the front proxy's certificate may have; any if there are none and the authority is given."""
    request_headers: RequestHeaders = field(default_factory=RequestHeaders)
    """In which headers front proxies say who asks."""
    kubelet_ca: Path | None = None
    """Authority of kubelets' certificates (PEM); None to take any certificate."""
    token_signing_key: Path | None = None
    """Private key (PEM) that signs service account tokens; None for the cluster's own."""
    token_keys: tuple[Path, ...] = ()
    """Further keys (PEM, private or public) whose service account tokens are taken."""
    cloud: str = "simulated"
    """The cloud that the cluster runs in: `simulated` or "" for none."""
    run_scheduler: bool = True
    """Whether to run the scheduler."""
    run_controllers: bool = True
    """Whether to run the controllers."""

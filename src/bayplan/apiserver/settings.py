"""Settings of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bayplan.apiserver.authentication.settings import AuthenticationSettings
from bayplan.apiserver.authorization.settings import AuthorizationSettings
from bayplan.apiserver.routing.forwards import Forward

if TYPE_CHECKING:
    from bayplan.apiserver.audit.settings import AuditSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServerSettings:
    """How one API server behaves. Names follow kube-apiserver's flags."""

    feature_gates: frozenset[str] = frozenset()
    """Bayplan's own feature gates that are on (`api.feature_gates`); without any the API is that of Kubernetes."""
    max_request_bytes: int = 3 * 1024 * 1024
    """Largest body that is read; more is answered with 413."""
    min_request_timeout: float = 1800.0
    """Seconds that a watch without `timeoutSeconds` lasts at least; the end is drawn between once and twice of it."""
    event_ttl: float = 3600.0
    """Seconds after which events are deleted."""
    service_cluster_ip_range: str = "10.96.0.0/16"
    """Where cluster IPs of services come from: a CIDR, or one of each family with a comma between, that of the default family first."""
    service_node_port_range: tuple[int, int] = (30000, 32767)
    """First and last node port of services."""
    authorization_modes: tuple[str, ...] = ("AlwaysAllow",)
    """Who may do what: authorizers in the order in which they are asked (AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node)."""
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    """The files of authorizers that need some."""
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    """Who knows users besides this server."""
    publish_component_roles: bool = False
    """Whether to publish the roles of Bayplan's own controllers and node simulator besides those of Kubernetes."""
    service_account_issuers: tuple[str, ...] = ("https://kubernetes.default.svc",)
    """Issuer of service account tokens; further ones are former issuers whose tokens are still taken."""
    api_audiences: tuple[str, ...] = ()
    """For whom tokens are that do not say it: names of this server; the issuer if empty."""
    service_account_max_token_seconds: int = 0
    """Longest life of a service account token; 0 for no limit."""
    service_account_extend_tokens: bool = True
    """Whether the tokens that pods get by default live for a year, so that clients that read them once go on working."""
    service_account_jwks_uri: str = ""
    """Where the keys of service account tokens are published; "" for this server's own address."""
    enable_admission_plugins: tuple[str, ...] = ()
    """Admission plugins to run besides the default ones."""
    disable_admission_plugins: tuple[str, ...] = ()
    """Default admission plugins not to run."""
    admission_configuration: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the admission configuration file says, by name of the plugin."""
    default_not_ready_toleration_seconds: int = 300
    """How long pods stay on a node that is not ready, unless they say it themselves."""
    default_unreachable_toleration_seconds: int = 300
    """How long pods stay on a node that cannot be reached, unless they say it themselves."""
    storage_media_type: str = "application/json"
    """In which objects are written to the store: this, or `application/vnd.kubernetes.protobuf`, as kube-apiserver does."""
    encryption_provider_config: str = ""
    """File that says which objects are encrypted in the store, with which keys; "" for none."""
    encryption_reload: bool = False
    """Whether to read that file again when it changes."""
    runtime_config: tuple[str, ...] = ()
    """Optional APIs to serve: `GROUP/VERSION=true`, `api/alpha=true`."""
    bookmark_interval: float = 60.0
    """Seconds between bookmarks of a watch that asked for them."""
    enable_priority_and_fairness: bool = True
    """Whether requests are weighed against each other by flow schemas and priority levels, which share the sum of the two numbers below."""
    max_requests_inflight: int = 400
    """Without priority and fairness: reading requests that are worked on at once; more are answered with 429. 0: no limit."""
    max_mutating_requests_inflight: int = 200
    """Without priority and fairness: changing requests that are worked on at once; more are answered with 429. 0: no limit."""
    request_timeout: float = 60.0
    """Seconds that a client may take to send a request's body, and to take its answer (watches excepted)."""
    header_timeout: float = 32.0
    """Seconds that a client may take for the TLS handshake, until its first request comes, and for the head of each request."""
    http2: bool = False
    """Whether clients that offer HTTP/2 get it."""
    http2_max_streams: int = 0
    """Requests that a client may have open at once on a connection of HTTP/2; 0: 100."""
    goaway_chance: float = 0.0
    """Of a response over HTTP/2: the chance that its connection ends after it, so that the client may find another server."""
    shutdown_delay_duration: float = 0.0
    """Seconds that the server goes on serving after it was told to stop; it is not ready in this time."""
    shutdown_send_retry_after: bool = False
    """Whether a server that stops goes on listening until all requests are answered, and answers new ones with 429."""
    enable_aggregator_routing: bool = True
    """Whether requests for aggregated servers go to an endpoint of their service, or else to its cluster IP. kube-apiserver's default is the cluster IP, which
    needs a service proxy on this machine."""
    forwards: tuple[Forward, ...] = ()
    """Services whose calls (of webhooks, aggregated servers and proxies) go to programs in their place."""
    simulated_webhooks: str = "skip"
    """What comes of a call for a webhook or an aggregated server whose pods are all simulated: `skip`, it counts as allowed, or is not served; `fail`, it fails as
    if nobody answered. Annotations `bayplan.dev/simulated-webhooks` win."""
    kubelet_preferred_address_types: tuple[str, ...] = (
        "Hostname",
        "InternalDNS",
        "InternalIP",
        "ExternalDNS",
        "ExternalIP",
    )
    """Which address of a node its kubelet is reached at: the first of these that the node has."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """The flags of the program, by name without dashes, as `/flagz` shows them."""
    tracing_config_file: str = ""
    """File that says which requests are traced, and where traces go; "" for none."""
    kubernetes_gates: tuple[tuple[str, str, bool], ...] = ()
    """Feature gates of Kubernetes, as metrics show them: name, stage (empty for GA), whether it is on."""
    profiling: bool = True
    """Whether `/debug/pprof/` and `/debug/flags/` are served."""
    audit: AuditSettings | None = None
    """The audit log; None if there is none."""
    max_object_bytes: int = 1536 * 1024
    """Largest object that is stored, in protobuf, as etcd counts it; a larger one is answered with 500."""

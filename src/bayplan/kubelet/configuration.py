"""KubeletConfiguration (kubelet.config.k8s.io/v1beta1): the file that `bayplan kubelet --config` reads, with Kubernetes' defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from bayplan.api import quantity
from bayplan.api.types import core_v1
from bayplan.kubelet.configuration_checks import configuration_errors
from bayplan.kubelet.errors import ConfigurationError
from bayplan.kubelet.resource_managers.cpus.cpu_set import parse_cpu_set
from bayplan.support.configuration import Duration, convert
from bayplan.support.durations import go_duration

API_VERSION: Final = "kubelet.config.k8s.io/v1beta1"
KIND: Final = "KubeletConfiguration"


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A part of the configuration."""


class X509Authentication(_Part):
    """Clients that show a certificate of `client_ca_file` (`clientCAFile`)."""

    client_ca_file: str = msgspec.field(default="", name="clientCAFile")


class WebhookAuthentication(_Part):
    """Bearer tokens that the API server knows (TokenReview)."""

    enabled: bool = True
    cache_ttl: Duration = msgspec.field(default=Duration(120), name="cacheTTL")


class AnonymousAuthentication(_Part):
    """Requests without credentials, as system:anonymous."""

    enabled: bool = False


class Authentication(_Part):
    """Who asks the kubelet."""

    x509: X509Authentication = msgspec.field(default_factory=X509Authentication)
    webhook: WebhookAuthentication = msgspec.field(default_factory=WebhookAuthentication)
    anonymous: AnonymousAuthentication = msgspec.field(default_factory=AnonymousAuthentication)


class WebhookAuthorization(_Part):
    """How long answers of the API server (SubjectAccessReview) are kept."""

    cache_authorized_ttl: Duration = msgspec.field(default=Duration(300), name="cacheAuthorizedTTL")
    cache_unauthorized_ttl: Duration = msgspec.field(default=Duration(30), name="cacheUnauthorizedTTL")


class Authorization(_Part):
    """Whether they may: mode is Webhook or AlwaysAllow."""

    mode: str = "Webhook"
    webhook: WebhookAuthorization = msgspec.field(default_factory=WebhookAuthorization)


class CrashLoopBackOff(_Part):
    """How long containers that fail wait at most."""

    max_container_restart_period: Duration = Duration(300)


class MemorySwap(_Part):
    """What pods may swap: NoSwap or LimitedSwap."""

    swap_behavior: str = ""


class UserNamespaces(_Part):
    """How many user ids a pod gets that has a user namespace."""

    ids_per_pod: int = msgspec.field(default=65536, name="idsPerPod")


class ShutdownGracePeriodByPodPriority(_Part):
    """Seconds that pods of at least this priority get when the node shuts down."""

    priority: int = 0
    shutdown_grace_period_seconds: int = 0


class MemoryReservation(_Part):
    """Memory of a NUMA node that pods do not get."""

    numa_node: int = 0
    limits: dict[str, str | int] = {}


class KubeletConfiguration(_Part):
    """The fields that have an effect, and those that Kubernetes has besides, so that its files load. Times are seconds."""

    api_version: str = API_VERSION
    kind: str = KIND
    enable_server: bool = True
    static_pod_path: str = ""
    pod_logs_dir: str = "/var/log/pods"
    sync_frequency: Duration = Duration(60)
    file_check_frequency: Duration = Duration(20)
    http_check_frequency: Duration = Duration(20)
    static_pod_url: str = msgspec.field(default="", name="staticPodURL")
    static_pod_url_header: dict[str, list[str]] = msgspec.field(default_factory=dict, name="staticPodURLHeader")
    address: str = "0.0.0.0"
    port: int = 10250
    read_only_port: int = 0
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: list[str] = []
    tls_curve_preferences: list[int] = []
    tls_min_version: str = ""
    rotate_certificates: bool = False
    server_tls_bootstrap: bool = msgspec.field(default=False, name="serverTLSBootstrap")
    authentication: Authentication = msgspec.field(default_factory=Authentication)
    authorization: Authorization = msgspec.field(default_factory=Authorization)
    registry_pull_qps: int = msgspec.field(default=5, name="registryPullQPS")
    registry_burst: int = 10
    image_pull_credentials_verification_policy: str = "NeverVerifyPreloadedImages"
    preloaded_images_verification_allowlist: list[str] = []
    event_record_qps: int = msgspec.field(default=50, name="eventRecordQPS")
    event_burst: int = 100
    enable_debugging_handlers: bool = True
    enable_contention_profiling: bool = False
    healthz_port: int = 10248
    healthz_bind_address: str = "127.0.0.1"
    oom_score_adj: int = -999
    cluster_domain: str = ""
    cluster_dns: list[str] = msgspec.field(default_factory=list, name="clusterDNS")
    streaming_connection_idle_timeout: Duration = Duration(4 * 3600)
    node_status_update_frequency: Duration | None = None
    node_status_report_frequency: Duration | None = None
    node_lease_duration_seconds: int = 40
    image_minimum_gc_age: Duration = msgspec.field(default=Duration(120), name="imageMinimumGCAge")
    image_maximum_gc_age: Duration = msgspec.field(default=Duration(0), name="imageMaximumGCAge")
    image_gc_high_threshold_percent: int = msgspec.field(default=85, name="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: int = msgspec.field(default=80, name="imageGCLowThresholdPercent")
    volume_stats_agg_period: Duration = Duration(60)
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    cgroup_root: str = ""
    cgroups_per_qos: bool = msgspec.field(default=True, name="cgroupsPerQOS")
    cgroup_driver: str = "cgroupfs"
    cpu_manager_policy: str = "none"
    single_process_oom_kill: bool | None = msgspec.field(default=None, name="singleProcessOOMKill")
    cpu_manager_policy_options: dict[str, str] = {}
    cpu_manager_reconcile_period: Duration = Duration(10)
    memory_manager_policy: str = "None"
    topology_manager_policy: str = "none"
    topology_manager_scope: str = "container"
    topology_manager_policy_options: dict[str, str] = {}
    qos_reserved: dict[str, str] = {}
    runtime_request_timeout: Duration = Duration(120)
    hairpin_mode: str = "promiscuous-bridge"
    max_pods: int = 110
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    pod_pids_limit: int = -1
    resolv_conf: str = "/etc/resolv.conf"
    run_once: bool = False
    cpu_cfs_quota: bool = msgspec.field(default=True, name="cpuCFSQuota")
    cpu_cfs_quota_period: Duration = msgspec.field(default=Duration(0.1), name="cpuCFSQuotaPeriod")
    node_status_max_images: int = 50
    max_open_files: int = 1_000_000
    content_type: str = "application/vnd.kubernetes.protobuf"
    kube_api_qps: int = msgspec.field(default=50, name="kubeAPIQPS")
    kube_api_burst: int = msgspec.field(default=100, name="kubeAPIBurst")
    serialize_image_pulls: bool | None = None
    max_parallel_image_pulls: int | None = None
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_pressure_transition_period: Duration = Duration(300)
    eviction_max_pod_grace_period: int = 0
    eviction_minimum_reclaim: dict[str, str] = {}
    merge_default_eviction_settings: bool = False
    pods_per_core: int = 0
    enable_controller_attach_detach: bool = True
    protect_kernel_defaults: bool = False
    make_iptables_util_chains: bool = msgspec.field(default=True, name="makeIPTablesUtilChains")
    iptables_masquerade_bit: int = msgspec.field(default=14, name="iptablesMasqueradeBit")
    iptables_drop_bit: int = msgspec.field(default=15, name="iptablesDropBit")
    feature_gates: dict[str, bool] = {}
    fail_swap_on: bool = True
    memory_swap: MemorySwap = msgspec.field(default_factory=MemorySwap)
    container_log_max_size: str = "10Mi"
    container_log_max_files: int = 5
    container_log_max_workers: int = 1
    container_log_monitor_interval: Duration = Duration(10)
    config_map_and_secret_change_detection_strategy: str = "Watch"
    system_reserved: dict[str, str] = {}
    kube_reserved: dict[str, str] = {}
    reserved_system_cpus: str = msgspec.field(default="", name="reservedSystemCPUs")
    show_hidden_metrics_for_version: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: list[str] = msgspec.field(default_factory=lambda: ["pods"])
    allowed_unsafe_sysctls: list[str] = []
    volume_plugin_dir: str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
    provider_id: str = msgspec.field(default="", name="providerID")
    kernel_memcg_notification: bool = False
    logging: dict[str, Any] = {}
    enable_system_log_handler: bool = True
    enable_system_log_query: bool = False
    shutdown_grace_period: Duration = Duration(0)
    shutdown_grace_period_critical_pods: Duration = Duration(0)
    shutdown_grace_period_by_pod_priority: list[ShutdownGracePeriodByPodPriority] = []
    crash_loop_back_off: CrashLoopBackOff = msgspec.field(default_factory=CrashLoopBackOff)
    reserved_memory: list[MemoryReservation] = []
    enable_profiling_handler: bool = True
    enable_debug_flags_handler: bool = True
    seccomp_default: bool = False
    memory_throttling_factor: float = 0.9
    memory_reservation_policy: str = "None"
    register_with_taints: list[core_v1.Taint] = []
    register_node: bool = True
    tracing: dict[str, Any] | None = None
    local_storage_capacity_isolation: bool = True
    container_runtime_endpoint: str = "unix:///run/containerd/containerd.sock"
    image_service_endpoint: str = ""
    fail_cgroup_v1: bool = msgspec.field(default=True, name="failCgroupV1")
    user_namespaces: UserNamespaces = msgspec.field(default_factory=UserNamespaces)

    def report_seconds(self) -> float:
        """How often the node's status is written although it did not change."""
        if self.node_status_report_frequency is not None:
            return self.node_status_report_frequency
        update = self.node_status_update_frequency
        return update if update is not None else 300.0

    def update_seconds(self) -> float:
        """How often the node's status is looked at."""
        return self.node_status_update_frequency if self.node_status_update_frequency is not None else 10.0

    def pulls_in_parallel(self) -> int | None:
        """How many images are pulled at once; None for any number."""
        most = self.max_parallel_image_pulls
        serial = self.serialize_image_pulls if self.serialize_image_pulls is not None else (most or 0) < 2
        return 1 if serial else most


def from_tree(tree: Any, source: str) -> KubeletConfiguration:
    """A configuration from what a file holds. source: the file, for errors. Raises ConfigurationError."""
    found = _parsed(tree, source)
    check(found, source)
    return found


def _parsed(tree: Any, source: str) -> KubeletConfiguration:
    """The same, whatever its values are."""
    if not isinstance(tree, dict) or tree.get("kind") != KIND or tree.get("apiVersion") != API_VERSION:
        raise ConfigurationError(f"{source}: expected kind {KIND} of {API_VERSION}")
    named = {name: value for name, value in tree.items() if value is not None}
    try:
        found = convert(named, KubeletConfiguration)
    except ValueError as error:
        raise ConfigurationError(f"{source}: {error}") from error
    return found


def check(configuration: KubeletConfiguration, source: str) -> None:
    """Raises ConfigurationError for values that make no sense together."""
    one_of = {
        "cgroupDriver": (configuration.cgroup_driver, ("cgroupfs", "systemd")),
        "authorization.mode": (configuration.authorization.mode, ("Webhook", "AlwaysAllow")),
        "cpuManagerPolicy": (configuration.cpu_manager_policy, ("none", "static")),
        "memoryManagerPolicy": (configuration.memory_manager_policy, ("None", "Static")),
        "topologyManagerPolicy": (
            configuration.topology_manager_policy,
            ("none", "best-effort", "restricted", "single-numa-node"),
        ),
        "topologyManagerScope": (configuration.topology_manager_scope, ("container", "pod")),
    }
    for name, (value, allowed) in one_of.items():
        if value not in allowed:
            raise ConfigurationError(f"{source}: {name}: {value!r} is none of {', '.join(allowed)}")
    low, high = configuration.image_gc_low_threshold_percent, configuration.image_gc_high_threshold_percent
    if not 0 <= low <= 100 or not 0 <= high <= 100 or low >= high:
        text = f"imageGCLowThresholdPercent {low} must be below imageGCHighThresholdPercent {high}, both from 0 to 100"
        raise ConfigurationError(f"{source}: {text}")
    for name, port in (("port", configuration.port), ("healthzPort", configuration.healthz_port)):
        if not 0 <= port <= 65535:
            raise ConfigurationError(f"{source}: {name}: {port} is not a port")
    _check_reservations(configuration, source)
    if configuration.max_pods < 0:
        raise ConfigurationError(f"{source}: maxPods: {configuration.max_pods} must not be negative")
    if (
        configuration.max_parallel_image_pulls is not None
        and configuration.max_parallel_image_pulls > 1
        and configuration.serialize_image_pulls
    ):
        raise ConfigurationError(
            f"{source}: maxParallelImagePulls: cannot be larger than 1 unless serializeImagePulls is false"
        )
    _check_shutdown(configuration, source)
    if errors := list(configuration_errors(configuration)):
        raise ConfigurationError(f"{source}: invalid configuration: {'; '.join(errors)}")


def _check_shutdown(configuration: KubeletConfiguration, source: str) -> None:
    whole, critical = configuration.shutdown_grace_period, configuration.shutdown_grace_period_critical_pods
    if critical > whole:
        text = f"shutdownGracePeriodCriticalPods {go_duration(critical)} must be <= shutdownGracePeriod {go_duration(whole)}"
        raise ConfigurationError(f"{source}: {text}")
    for name, period in (("shutdownGracePeriod", whole), ("shutdownGracePeriodCriticalPods", critical)):
        if period and period < 1:
            text = f"{name} {go_duration(period)} must be either zero or otherwise >= 1 sec"
            raise ConfigurationError(f"{source}: {text}")
    if configuration.shutdown_grace_period_by_pod_priority and (whole or critical):
        text = "Cannot specify both shutdownGracePeriodByPodPriority and shutdownGracePeriod at the same time"
        raise ConfigurationError(f"{source}: {text}")


def _check_reservations(configuration: KubeletConfiguration, source: str) -> None:
    if configuration.reserved_system_cpus:
        if configuration.system_reserved_cgroup or configuration.kube_reserved_cgroup:
            text = "can't use reservedSystemCPUs with systemReservedCgroup or kubeReservedCgroup"
            raise ConfigurationError(f"{source}: {text}")
        try:
            parse_cpu_set(configuration.reserved_system_cpus)
        except ValueError as error:
            text = f"reservedSystemCPUs: unable to parse {configuration.reserved_system_cpus}: {error}"
            raise ConfigurationError(f"{source}: {text}") from error
    seen: set[tuple[int, str]] = set()
    for each in configuration.reserved_memory:
        for name, amount in each.limits.items():
            place = f"{source}: reservedMemory: NUMA node {each.numa_node}"
            if name != "memory" and not name.startswith("hugepages-"):
                text = (
                    f"the limit type {name!r} is not supported, only memory and hugepages-<HugePageSize> are accepted"
                )
                raise ConfigurationError(f"{place}: {text}")
            if _bytes(place, name, amount) <= 0:
                raise ConfigurationError(f"{place}: reserved memory may not be zero for {name!r}")
            if (each.numa_node, name) in seen:
                raise ConfigurationError(f"{place}: the reserved memory has a duplicate value for {name!r}")
            seen.add((each.numa_node, name))


def _bytes(place: str, name: str, amount: str | int) -> int:
    try:
        return quantity.value(amount)
    except ValueError as error:
        raise ConfigurationError(f"{place}: {name}: {error}") from error


def load(path: Path | None, extra: Path | None = None) -> KubeletConfiguration:
    """The configuration of a file, with the files `*.conf` of a directory merged over it in order of their names. Raises ConfigurationError."""
    import yaml  # slow to import

    tree: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    paths = [path] if path is not None else []
    if extra is not None:
        paths += sorted(each for each in extra.iterdir() if each.suffix == ".conf")
    for each in paths:
        try:
            found = yaml.safe_load(each.read_text())
        except (OSError, yaml.YAMLError) as error:
            raise ConfigurationError(f"{each}: {error}") from error
        _parsed(found, str(each))
        tree = _merged(tree, found)
    return from_tree(tree, str(path or "flags"))


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged

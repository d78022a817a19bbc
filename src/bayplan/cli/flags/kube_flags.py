"""Flags of the Kubernetes binaries, under the same names, for the components that stand for them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from bayplan.cli.flags.audit_flags import AUDIT_FLAGS, audit_settings
from bayplan.cli.flags.authentication_flags import AUTHENTICATION_FLAGS, authentication_settings
from bayplan.cli.flags.authorization_flags import AUTHORIZATION_FLAGS, authorization_settings
from bayplan.cli.flags.feature_gates import own_gates
from bayplan.cli.flags.http2_flags import HTTP2_FLAGS, goaway_chance, is_http2_spoken
from bayplan.cli.output import Failure

if TYPE_CHECKING:
    from bayplan.apiserver.routing.forwards import Forward
    from bayplan.apiserver.settings import ApiServerSettings

Tokens = tuple[tuple[str, str, str, tuple[str, ...]], ...]

API_SERVER_FLAGS = {
    "--service-cluster-ip-range": "range of cluster IPs (CIDR), or one of each family with a comma between",
    "--service-node-port-range": "range of node ports, such as 30000-32767",
    "--authorization-mode": "who may do what: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node, in order",
    "--enable-admission-plugins": "admission plugins to run besides the default ones",
    "--disable-admission-plugins": "default admission plugins not to run",
    "--admission-control-config-file": "file with the configuration of admission plugins",
    "--storage-media-type": "in which objects are written to the store: application/json (the default) or application/vnd.kubernetes.protobuf",
    "--encryption-provider-config": "file that says which objects are encrypted in the store, with which keys",
    "--encryption-provider-config-automatic-reload": "whether to read that file again when it changes",
    "--default-not-ready-toleration-seconds": "how long pods stay on a node that is not ready, unless they say it themselves",
    "--default-unreachable-toleration-seconds": "how long pods stay on a node that cannot be reached, unless they say it themselves",
    "--max-request-bytes": "largest request body",
    "--enable-priority-and-fairness": "whether requests are weighed against each other by flow schemas and priority levels (the default)",
    "--max-requests-inflight": "requests that are worked on at once, together with the next flag; without priority and fairness: reading ones, 0 for no limit",
    "--max-mutating-requests-inflight": "requests that are worked on at once, as with the flag before; without priority and fairness: changing ones, 0 for no limit",
    "--request-timeout": "how long a client may take for a request, such as 1m0s",
    "--shutdown-delay-duration": "how long the server goes on serving, not ready, after it was told to stop, such as 10s",
    "--shutdown-send-retry-after": "whether a server that stops goes on listening until all requests are answered, and answers new ones with 429",
    **HTTP2_FLAGS,
    "--profiling": "whether profiles are served at /debug/pprof/, and the verbosity of the log can be changed at /debug/flags/v (the default)",
    "--tracing-config-file": "file that says which requests are traced, and where traces go (TracingConfiguration)",
    "--runtime-config": "optional APIs to serve: GROUP/VERSION=true, api/alpha=true, with commas between",
    "--event-ttl": "how long events are kept, such as 1h0m0s",
    "--min-request-timeout": "seconds that a watch lasts at least",
    "--service-account-issuer": "issuer of service account tokens, then former ones",
    "--api-audiences": "names of this server in service account tokens; the issuer if none are given",
    "--service-account-jwks-uri": "where the keys of service account tokens are published",
    "--service-account-max-token-expiration": "longest life of a service account token, such as 24h0m0s",
    "--service-account-extend-token-expiration": "whether the default tokens of pods live for a year",
    "--token-auth-file": "file with static tokens: token,user,uid,groups",
    "--enable-aggregator-routing": "whether requests for aggregated servers go to an endpoint of their service (the default here), or to its cluster IP",
    "--kubelet-preferred-address-types": "which address of a node its kubelet is reached at, such as InternalIP,Hostname",
    "--simulated-webhooks": "what comes of calls for webhooks in simulated pods: skip (they count as allowed) or fail",
    "--forward": "programs that answer for services, as in `bayplan up`, with commas between",
    "--anonymous-auth": "whether requests without credentials are taken, as system:anonymous",
    **AUTHENTICATION_FLAGS,
    **AUTHORIZATION_FLAGS,
    "--feature-gates": "feature gates, such as AffinityDuringExecution=true; those of Kubernetes can only have their defaults",
    **AUDIT_FLAGS,
}
"""Flags of the API server that change how it behaves: name -> meaning."""


def parse_flags(flags: Sequence[str], known: dict[str, str]) -> dict[str, str]:
    """`--name=value` (or `--name` for true) by name. Raises UsageError for a name that is not known, with the nearest one that is."""
    found = {}
    for flag in flags:
        name, equals, value = flag.partition("=")
        name = "--" + name.lstrip("-")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise click.UsageError(
                f"unknown flag {name}" + (f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}")
            )
        found[name] = value if equals else "true"
    return found


def seconds(text: str) -> float:
    """A Go duration such as `1h0m30s` in seconds. Raises UsageError."""
    from bayplan.support.durations import go_seconds

    try:
        return go_seconds(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def api_server_settings(
    flags: Sequence[str], base: ApiServerSettings | None = None
) -> tuple[ApiServerSettings, Tokens, bool]:
    """Settings, static tokens and whether anonymous requests are taken, from flags; `base` says what holds without a flag. Raises UsageError, Failure."""
    from bayplan.apiserver.authentication import TokenFileError, read_token_file
    from bayplan.apiserver.settings import ApiServerSettings

    given = parse_flags(flags, API_SERVER_FLAGS)
    settings = base or ApiServerSettings()
    changes: dict[str, Any] = {}
    for name, value in given.items():
        if value and name in _FIELDS:
            field, read = _FIELDS[name]
            try:
                changes[field] = read(value)
                if field == "enable_admission_plugins":  # besides those that a whole cluster has
                    changes[field] = tuple(dict.fromkeys((*settings.enable_admission_plugins, *changes[field])))
            except ValueError as error:
                raise click.UsageError(f"{name}: {value!r}: {error}") from error
    authentication = authentication_settings(flags, given)
    modes = changes.get("authorization_modes", settings.authorization_modes)
    authorization = authorization_settings(given, modes)
    settings = replace(
        settings, audit=audit_settings(given), authentication=authentication, authorization=authorization, **changes
    )
    _check_limits(settings)
    if text := given.get("--runtime-config"):
        settings = replace(settings, runtime_config=(*settings.runtime_config, *_runtime_config(text)))
    tokens: Tokens = ()
    if text := given.get("--token-auth-file"):
        try:
            tokens = tuple(read_token_file(Path(text)))
        except (OSError, TokenFileError) as error:
            raise Failure(f"--token-auth-file: {error}") from error
    return settings, tokens, given.get("--anonymous-auth", "true") != "false"


def _check_limits(settings: ApiServerSettings) -> None:
    """Priority and fairness has something to divide. Raises UsageError."""
    reading, mutating = settings.max_requests_inflight, settings.max_mutating_requests_inflight
    if settings.enable_priority_and_fairness and reading + mutating <= 0:
        raise click.UsageError(
            f"--max-requests-inflight={reading} and --max-mutating-requests-inflight={mutating} must add up to something positive; "
            "--enable-priority-and-fairness=false takes 0 for no limit"
        )


def _ranges(text: str) -> str:
    """One CIDR, or one of each family. Raises ValueError."""
    import ipaddress

    networks = [ipaddress.ip_network(part.strip()) for part in text.split(",")]
    if len(networks) > 2 or len({network.version for network in networks}) != len(networks):
        raise ValueError("at most one range per address family may be given")
    return ",".join(str(network) for network in networks)


def _address_types(text: str) -> tuple[str, ...]:
    """Types of node addresses, with commas between. Raises UsageError."""
    known = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
    given = _names(text)
    for one in given:
        if one not in known:
            raise click.UsageError(f"--kubelet-preferred-address-types: {one!r} is none of {', '.join(known)}")
    return given


def _simulated_webhooks(text: str) -> str:
    """Raises UsageError."""
    from bayplan.apiserver.simulated.webhooks import CHOICES

    if text not in CHOICES:
        raise click.UsageError(f"--simulated-webhooks: {text!r} is none of {', '.join(CHOICES)}")
    return text


def forwards_of(texts: Sequence[str]) -> tuple[Forward, ...]:
    """Forwards, of which each service has one. Raises UsageError."""
    from bayplan.apiserver.routing.forwards import ForwardError, parse_forward

    try:
        found = [parse_forward(text) for text in texts]
    except ForwardError as error:
        raise click.UsageError(f"--forward: {error}") from error
    services = [one.service for one in found]
    for service in services:
        if services.count(service) > 1:
            raise click.UsageError(f"--forward: {service} is given more than once")
    return tuple(found)


def _port_range(text: str) -> tuple[int, int]:
    """First and last port. Raises ValueError."""
    first, _, last = text.partition("-")
    return int(first), int(last)


def _not_negative(flag: str, text: str) -> float:
    """A Go duration in seconds. Raises UsageError."""
    found = seconds(text)
    if found < 0:
        raise click.UsageError(f"{flag} can not be negative value")
    return found


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1", "t")


def _https_url(text: str) -> str:
    """The address of keys, which nobody may change on the way. Raises ValueError."""
    if text and not text.lower().startswith("https://"):
        raise ValueError("the URL needs the scheme https, as clients believe what they find there")
    return text


def _media_type(text: str) -> str:
    from bayplan.apiserver.stored_forms import MEDIA_TYPES

    if text not in MEDIA_TYPES:
        raise ValueError(f"objects are kept as {' or '.join(MEDIA_TYPES)}, not as {text!r}")
    return text


def _admission_configuration(text: str) -> dict[str, dict[str, Any]]:
    """The configuration of each plugin in an AdmissionConfiguration, inline or in a file of its own. Raises Failure."""
    import yaml  # slow to import, and seldom needed

    path = Path(text)
    try:
        document = yaml.safe_load(path.read_text())
        _check_admission_head(document)
        found = {}
        for index, item in enumerate(document.get("plugins") or []):
            if not isinstance(item, dict) or not item.get("name"):
                raise ValueError(f"plugins[{index}].name: Required value")
            own = item.get("configuration")
            if own is None and item.get("path"):
                own = yaml.safe_load((path.parent / item["path"]).read_text())
            if not isinstance(own or {}, dict):
                raise ValueError(f"plugins[{index}].configuration: expected an object")
            found[str(item["name"])] = dict(own or {})
    except (OSError, yaml.YAMLError, TypeError, ValueError) as error:
        raise Failure(f"--admission-control-config-file: {path}: {error}") from error
    return found


def _check_admission_head(document: Any) -> None:
    """Raises ValueError for what is no AdmissionConfiguration: nobody should believe that a plugin is configured that is not."""
    kind, version = (document.get(name) for name in ("kind", "apiVersion")) if isinstance(document, dict) else ("", "")
    known = ("apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1")
    if kind != "AdmissionConfiguration" or version not in known:
        raise ValueError(
            f'no kind "{kind or ""}" is registered for version "{version or ""}"; expected AdmissionConfiguration of {" or ".join(known)}'
        )
    if not isinstance(document.get("plugins") or [], list):
        raise ValueError("plugins: expected a list")


def _runtime_config(text: str) -> tuple[str, ...]:
    """What to serve besides the default APIs. Raises UsageError."""
    from bayplan.api.optional_kinds import optional_kinds

    entries = _names(text)
    try:
        optional_kinds(entries)
    except ValueError as error:
        raise click.UsageError(f"--runtime-config: {error}") from error
    return entries


def _modes(text: str) -> tuple[str, ...]:
    """Authorization modes. Raises UsageError."""
    from bayplan.apiserver.authorization.chain import check_modes

    modes = _names(text)
    try:
        check_modes(modes)
    except ValueError as error:
        raise click.UsageError(f"--authorization-mode: {error}") from error
    return modes


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _limit_of(flag: str) -> Callable[[str], int]:
    """Reads a number of requests. The function raises ValueError, UsageError."""

    def read(text: str) -> int:
        number = int(text)
        if number < 0:
            raise click.UsageError(f"{flag} can not be negative value")
        return number

    return read


_FIELDS: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "--feature-gates": ("feature_gates", own_gates),
    "--service-cluster-ip-range": ("service_cluster_ip_range", _ranges),
    "--service-node-port-range": ("service_node_port_range", _port_range),
    "--default-not-ready-toleration-seconds": ("default_not_ready_toleration_seconds", int),
    "--default-unreachable-toleration-seconds": ("default_unreachable_toleration_seconds", int),
    "--max-request-bytes": ("max_request_bytes", int),
    "--enable-priority-and-fairness": ("enable_priority_and_fairness", _is_true),
    "--max-requests-inflight": ("max_requests_inflight", _limit_of("--max-requests-inflight")),
    "--max-mutating-requests-inflight": (
        "max_mutating_requests_inflight",
        _limit_of("--max-mutating-requests-inflight"),
    ),
    "--min-request-timeout": ("min_request_timeout", float),
    "--request-timeout": ("request_timeout", seconds),
    "--event-ttl": ("event_ttl", seconds),
    "--shutdown-delay-duration": (
        "shutdown_delay_duration",
        lambda text: _not_negative("--shutdown-delay-duration", text),
    ),
    "--shutdown-send-retry-after": ("shutdown_send_retry_after", _is_true),
    "--disable-http2-serving": ("http2", is_http2_spoken),
    "--http2-max-streams-per-connection": ("http2_max_streams", _limit_of("--http2-max-streams-per-connection")),
    "--goaway-chance": ("goaway_chance", goaway_chance),
    "--profiling": ("profiling", _is_true),
    "--tracing-config-file": ("tracing_config_file", str),
    "--enable-admission-plugins": ("enable_admission_plugins", _names),
    "--disable-admission-plugins": ("disable_admission_plugins", _names),
    "--admission-control-config-file": ("admission_configuration", _admission_configuration),
    "--storage-media-type": ("storage_media_type", _media_type),
    "--encryption-provider-config": ("encryption_provider_config", str),
    "--encryption-provider-config-automatic-reload": ("encryption_reload", _is_true),
    "--authorization-mode": ("authorization_modes", _modes),
    "--service-account-issuer": ("service_account_issuers", _names),
    "--api-audiences": ("api_audiences", _names),
    "--service-account-jwks-uri": ("service_account_jwks_uri", _https_url),
    "--service-account-extend-token-expiration": ("service_account_extend_tokens", _is_true),
    "--service-account-max-token-expiration": ("service_account_max_token_seconds", lambda text: int(seconds(text))),
    "--enable-aggregator-routing": ("enable_aggregator_routing", _is_true),
    "--simulated-webhooks": ("simulated_webhooks", _simulated_webhooks),
    "--forward": ("forwards", lambda text: forwards_of(_names(text))),
    "--kubelet-preferred-address-types": ("kubelet_preferred_address_types", _address_types),
}
"""Flag -> the field of the settings that it sets, and how its text is read, which raises ValueError, UsageError or Failure."""

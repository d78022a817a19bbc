"""`bayplan apiserver`: the API server alone, with kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from bayplan.cli.clusters.data_directory import make_directory
from bayplan.cli.clusters.kubeconfig_file import check_kubeconfig
from bayplan.cli.clusters.running_cluster import run_until_stopped
from bayplan.cli.clusters.running_group import run_group_until_stopped
from bayplan.cli.flags.audit_flags import audit_options
from bayplan.cli.flags.authentication_flags import authentication_options
from bayplan.cli.flags.authorization_flags import authorization_options
from bayplan.cli.flags.etcd_flags import EtcdFlags, etcd_options
from bayplan.cli.flags.feature_gates import gates_in_force
from bayplan.cli.flags.http2_flags import http2_options
from bayplan.cli.flags.kube_command import KubeCommand, flag_values
from bayplan.cli.flags.kube_flag_tables import API_SERVER
from bayplan.cli.flags.kube_flags import api_server_settings
from bayplan.cli.flags.serving_flags import ServingFlags, serving_options

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(cls=KubeCommand, table=API_SERVER)
@click.option(
    "--store",
    metavar="URL",
    default="memory:",
    show_default=True,
    help="Where objects are kept: memory:, sqlite:PATH or etcd://HOST:PORT,....",
)
@etcd_options
@click.option(
    "--secure-port", type=click.IntRange(0, 65535), default=6443, show_default=True, help="Port to listen on."
)
@click.option("--bind-address", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--cert-dir",
    type=click.Path(path_type=Path),
    default=Path("bayplan-certificates"),
    show_default=True,
    help="Where own certificates are kept.",
)
@click.option("--tls-cert-file", type=_FILE, help="Certificate of the server.")
@click.option("--tls-private-key-file", type=_FILE, help="Key of that certificate.")
@click.option("--client-ca-file", type=_FILE, help="Authority of client certificates.")
@click.option(
    "--proxy-client-cert-file", type=_FILE, help="Certificate that aggregated servers see; by default an own one."
)
@click.option("--proxy-client-key-file", type=_FILE, help="Its key.")
@click.option(
    "--requestheader-client-ca-file",
    type=_FILE,
    help="Authority of that certificate, which aggregated servers learn from the API; by default an own one.",
)
@click.option(
    "--requestheader-allowed-names",
    default="",
    help="Names, with commas, that certificates of that authority must have to be believed; by default any.",
)
@serving_options
@click.option("--kubelet-client-certificate", type=_FILE, help="Certificate that kubelets see; by default an own one.")
@click.option("--kubelet-client-key", type=_FILE, help="Key of that certificate.")
@click.option("--kubelet-certificate-authority", type=_FILE, help="Authority of kubelets' certificates.")
@click.option(
    "--kubelet-preferred-address-types", default="", help="Which address of a node its kubelet is reached at, in order."
)
@click.option("--token-auth-file", type=_FILE, help="Static tokens: token,user,uid,groups.")
@click.option(
    "--anonymous-auth",
    type=bool,
    help="Whether requests without credentials are taken, as system:anonymous.  [default: true]",
)
@click.option(
    "--authorization-mode",
    default="",
    help="Who may do what: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node, asked in the order given.  [default: AlwaysAllow]",
)
@authorization_options
@click.option("--service-account-signing-key-file", type=_FILE, help="Key that signs service account tokens.")
@click.option(
    "--service-account-key-file",
    type=_FILE,
    multiple=True,
    help="Key whose service account tokens are taken; repeatable.",
)
@click.option(
    "--service-account-issuer", multiple=True, help="Issuer of service account tokens; further ones are taken only."
)
@click.option("--api-audiences", default="", help="Names of this server in service account tokens.")
@click.option("--service-account-jwks-uri", default="", help="Where the keys of service account tokens are published.")
@click.option("--service-account-max-token-expiration", default="", help="Longest life of a service account token.")
@click.option(
    "--service-account-extend-token-expiration", default="", help="Whether the default tokens of pods live for a year."
)
@click.option("--enable-admission-plugins", default="", help="Admission plugins to run besides the default ones.")
@click.option("--disable-admission-plugins", default="", help="Default admission plugins not to run.")
@click.option("--admission-control-config-file", default="", help="File with the configuration of admission plugins.")
@click.option(
    "--storage-media-type",
    default="",
    help="In which objects are written to the store: application/json (the default) or application/vnd.kubernetes.protobuf.",
)
@click.option(
    "--encryption-provider-config",
    default="",
    help="File that says which objects are encrypted in the store, with which keys.",
)
@click.option(
    "--encryption-provider-config-automatic-reload",
    default="",
    metavar="BOOL",
    help="Whether to read that file again when it changes.",
)
@click.option(
    "--default-not-ready-toleration-seconds",
    default="300",
    show_default=True,
    metavar="SECONDS",
    help="How long pods stay on a node that is not ready, unless they say it themselves.",
)
@click.option(
    "--default-unreachable-toleration-seconds",
    default="300",
    show_default=True,
    metavar="SECONDS",
    help="How long pods stay on a node that cannot be reached, unless they say it themselves.",
)
@click.option("--runtime-config", default="", help="Optional APIs to serve: GROUP/VERSION=true, api/alpha=true.")
@click.option("--max-request-bytes", default="3145728", show_default=True, help="Largest request body.")
@click.option(
    "--min-request-timeout",
    default="1800",
    show_default=True,
    metavar="SECONDS",
    help="How long a watch lasts at least.",
)
@click.option(
    "--enable-aggregator-routing",
    default="true",
    show_default=True,
    metavar="BOOL",
    help="Whether requests for aggregated servers go to an endpoint of their service, or to its cluster IP.",
)
@click.option("--service-cluster-ip-range", default="10.96.0.0/16", show_default=True, help="Range of cluster IPs.")
@click.option("--service-node-port-range", default="30000-32767", show_default=True, help="Range of node ports.")
@click.option(
    "--enable-priority-and-fairness",
    default="",
    is_flag=False,
    flag_value="true",
    metavar="BOOL",
    help="Whether requests are weighed against each other by flow schemas and priority levels (the default).",
)
@click.option(
    "--max-requests-inflight",
    default="400",
    show_default=True,
    help="Requests that are worked on at once, together with the next; without priority and fairness those that read.",
)
@click.option(
    "--max-mutating-requests-inflight",
    default="200",
    show_default=True,
    help="Requests that are worked on at once, together with the former; without priority and fairness those that change something.",
)
@click.option("--request-timeout", default="1m0s", show_default=True, help="How long a client may take for a request.")
@click.option(
    "--shutdown-delay-duration",
    default="0s",
    show_default=True,
    help="How long the server goes on serving, not ready, after it was told to stop.",
)
@click.option(
    "--shutdown-send-retry-after",
    default="",
    is_flag=False,
    flag_value="true",
    help="Whether a server that stops goes on listening until all requests are answered, and answers new ones with 429.",
)
@http2_options
@click.option(
    "--tracing-config-file",
    default="",
    help="File that says which requests are traced, and where traces go (TracingConfiguration).",
)
@click.option(
    "--profiling",
    default="true",
    show_default=True,
    is_flag=False,
    flag_value="true",
    metavar="BOOL",
    help="Whether profiles are served at /debug/pprof/, and the verbosity of the log can be changed at /debug/flags/v.",
)
@click.option(
    "--simulated-webhooks",
    type=click.Choice(("skip", "fail")),
    default="skip",
    show_default=True,
    help="What comes of calls for webhooks in simulated pods: they count as allowed, or fail.",
)
@click.option(
    "--forward",
    multiple=True,
    metavar="SERVICE=TARGET",
    help="Send calls (of webhooks, to aggregated servers, of proxies) for a service to a program, such as service/NAMESPACE/NAME=localhost:9443; repeatable.",
)
@authentication_options
@audit_options
@click.option("--event-ttl", default="1h0m0s", show_default=True, help="How long events are kept.")
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    default=Path("bayplan.kubeconfig"),
    show_default=True,
    help="Where to write the administrator's kubeconfig.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many processes serve the API at the same address (Linux). With more than one a further process owns a SQLite or memory store.",
)
@click.option("--v", "v", type=int, default=0, help="Log verbosity, as in Kubernetes.")
def command(
    store: str,
    secure_port: int,
    bind_address: str,
    cert_dir: Path,
    tls_cert_file: Path | None,
    tls_private_key_file: Path | None,
    client_ca_file: Path | None,
    proxy_client_cert_file: Path | None,
    proxy_client_key_file: Path | None,
    requestheader_client_ca_file: Path | None,
    requestheader_allowed_names: str,
    kubelet_client_certificate: Path | None,
    kubelet_client_key: Path | None,
    kubelet_certificate_authority: Path | None,
    token_auth_file: Path | None,
    anonymous_auth: bool | None,
    service_account_signing_key_file: Path | None,
    service_account_key_file: tuple[Path, ...],
    service_account_issuer: tuple[str, ...],
    oidc_required_claim: tuple[str, ...],
    forward: tuple[str, ...],
    kubeconfig: Path,
    processes: int,
    v: int,
    etcd: EtcdFlags,
    serving: ServingFlags,
    **behaviour: str,
) -> None:
    """Run the API server alone."""
    from bayplan.cluster.settings import ClusterSettings
    from bayplan.support.logging import set_up_logging

    if (tls_cert_file is None) != (tls_private_key_file is None):
        raise click.UsageError("--tls-cert-file and --tls-private-key-file belong together")
    if (proxy_client_cert_file is None) != (proxy_client_key_file is None):
        raise click.UsageError("--proxy-client-cert-file and --proxy-client-key-file belong together")
    if proxy_client_cert_file is not None and requestheader_client_ca_file is None:
        raise click.UsageError(
            "--proxy-client-cert-file needs --requestheader-client-ca-file: aggregated servers check the one by the other"
        )
    if (kubelet_client_certificate is None) != (kubelet_client_key is None):
        raise click.UsageError("--kubelet-client-certificate and --kubelet-client-key belong together")
    set_up_logging(verbosity=v)
    check_kubeconfig(kubeconfig, cert_dir, follows_links=True)
    make_directory(cert_dir)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in behaviour.items() if value]
    flags += [f"--service-account-issuer={','.join(service_account_issuer)}"] if service_account_issuer else []
    flags += [f"--forward={','.join(forward)}"] if forward else []
    flags += [f"--token-auth-file={token_auth_file}"] if token_auth_file else []
    flags += [f"--oidc-required-claim={one}" for one in oidc_required_claim]
    flags += [f"--anonymous-auth={str(anonymous_auth).lower()}"] if anonymous_auth is not None else []
    api, tokens, anonymous = api_server_settings(flags)
    given = flag_values(click.get_current_context())
    api = replace(api, flags=given, kubernetes_gates=gates_in_force(api.feature_gates))
    settings = ClusterSettings(
        store=etcd.url or store,
        etcd=etcd.options,
        directory=cert_dir,
        bind_address=bind_address,
        port=secure_port,
        api=api,
        tokens=tokens,
        anonymous=anonymous,
        tls_certificate=tls_cert_file,
        tls_key=tls_private_key_file,
        client_ca=client_ca_file,
        proxy_client_certificate=proxy_client_cert_file,
        proxy_client_key=proxy_client_key_file,
        requestheader_ca=requestheader_client_ca_file,
        requestheader_names=tuple(name for each in requestheader_allowed_names.split(",") if (name := each.strip())),
        request_headers=serving.request_headers,
        sni_certificates=serving.sni_certificates,
        kubelet_certificate=kubelet_client_certificate,
        kubelet_key=kubelet_client_key,
        kubelet_ca=kubelet_certificate_authority,
        token_signing_key=service_account_signing_key_file,
        token_keys=service_account_key_file,
        run_scheduler=False,
        run_controllers=False,
    )
    if processes > 1:
        run_group_until_stopped(settings, processes, kubeconfig, f"API server alone, {processes} processes")
    else:
        run_until_stopped(settings, kubeconfig, (), "(API server alone)")

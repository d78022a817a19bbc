"""What the options of `bayplan up` describe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.clusters.data_directory import default_data_directory, make_directory
from bayplan.cli.output import Failure, plugins_in

if TYPE_CHECKING:
    from bayplan.cli.clusters.running_cluster import Contents
    from bayplan.cluster.real_nodes.settings import RealNodeSettings
    from bayplan.cluster.settings import ClusterSettings
    from bayplan.kubelet.simulator.nodes.groups import NodeGroupSettings
    from bayplan.ui.settings import UiSettings


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of `up`, by name."""

    nodes: int | None
    real_nodes: int
    real_node_mode: str
    real_node_outbound: bool
    real_node_network: str
    pod_infra_container_image: str | None
    real_node_registry_config: Path | None
    real_node_oci_runtime: str | None
    real_node_without: tuple[str, ...]
    source: str | None
    stages: tuple[Path, ...]
    pod_events: str
    missing_config: str
    node_group: tuple[str, ...]
    store: str | None
    data_dir: Path | None
    encrypt_secrets: bool
    bind: str
    port: int
    kubeconfig: Path | None
    scheduler_config: Path | None
    plugin_files: tuple[Path, ...]
    descheduler_policy: Path | None
    descheduling_interval: float
    scheduler_flag: tuple[str, ...]
    apply: tuple[Path, ...]
    apiserver_flag: tuple[str, ...]
    feature_gates: str | None
    controller_manager_flag: tuple[str, ...]
    cloud_provider: str
    simulated_webhooks: str | None
    forward: tuple[str, ...]
    processes: int | None
    servers: int
    ui: bool
    ui_port: int
    allow_changes: bool
    v: int

    def settings(self) -> ClusterSettings:
        """The cluster that they describe. Raises UsageError, Failure."""
        from bayplan.cli.clusters.simulated_pods import kwok_objects
        from bayplan.cli.flags.controller_flags import parsed_settings
        from bayplan.cli.flags.etcd_flags import split_etcd_flags
        from bayplan.cli.flags.kube_flags import api_server_settings
        from bayplan.cluster.settings import CLUSTER_API, CLUSTER_CONTROLLERS, ClusterSettings
        from bayplan.kubelet.simulator.settings import SimulatorSettings

        directory = self.directory
        if directory is not None:
            make_directory(directory)
        etcd, flags = split_etcd_flags(self._apiserver_flags)
        if etcd.url and self.store:
            raise click.UsageError("--store and --apiserver-flag=--etcd-servers name the same; give one of them")
        api, tokens, anonymous = api_server_settings(flags, CLUSTER_API)
        if self.encrypt_secrets:
            api = replace(api, encryption_provider_config=str(self._own_encryption(api.encryption_provider_config)))
        kwok = kwok_objects(self.stages)
        return ClusterSettings(
            etcd=etcd.options,
            store=etcd.url or self.store or (f"sqlite:{directory}/store.db" if directory else "memory:"),
            directory=directory / "pki" if directory else None,
            bind_address=self.bind,
            port=self.port,
            nodes=SimulatorSettings(
                nodes=self._own_nodes,
                groups=self._groups(),
                stages=kwok.stages,
                answers=kwok.answers,
                events=self.pod_events,
                missing_config=self.missing_config,
                adopts=self.source is not None,
            ),
            scheduler_config=self._scheduler_config(),
            scheduler_plugins=self._scheduler_plugins(),
            descheduler_policy=self._descheduler_policy(),
            descheduling_interval=self.descheduling_interval,
            api=api,
            tokens=tokens,
            anonymous=anonymous,
            controller=replace(
                parsed_settings(self.controller_manager_flag, CLUSTER_CONTROLLERS),
                feature_gates=api.feature_gates,
            ),
            cloud="" if self.cloud_provider == "none" else self.cloud_provider,
        )

    def _own_encryption(self, given: str) -> Path:
        """The file with the cluster's own key. Raises UsageError, Failure."""
        from bayplan.cluster.api_server.encryption import own_configuration

        if given:
            raise click.UsageError("--encrypt-secrets and --encryption-provider-config exclude each other")
        if self.directory is None:
            raise click.UsageError("--encrypt-secrets needs --data-dir: the key is kept there, and must not be lost")
        try:
            return own_configuration(self.directory)
        except OSError as error:
            raise Failure(f"{self.directory}: no key for secrets can be made: {error.strerror or error}") from error

    @property
    def _apiserver_flags(self) -> tuple[str, ...]:
        """The flags of the API server, those included that have options of their own. Raises UsageError."""
        own = [f"--simulated-webhooks={self.simulated_webhooks}"] if self.simulated_webhooks else []
        own += [f"--feature-gates={self.feature_gates}"] if self.feature_gates else []
        own += [f"--forward={','.join(self.forward)}"] if self.forward else []
        given = {flag.partition("=")[0] for flag in self.apiserver_flag}
        for flag in own:
            name = flag.partition("=")[0]
            if name in given:
                raise click.UsageError(f"{name} and --apiserver-flag={name} name the same; give one of them")
        return (*self.apiserver_flag, *own)

    def _scheduler_config(self) -> Path | None:
        """The scheduler's configuration, by whichever flag it is named. Raises UsageError."""
        from bayplan.cli.flags.kube_flags import parse_flags

        given = parse_flags(self.scheduler_flag, {"--config": "KubeSchedulerConfiguration."}).get("--config")
        if given is None:
            return self.scheduler_config
        if self.scheduler_config is not None:
            raise click.UsageError("--scheduler-config and --scheduler-flag=--config name the same; give one of them")
        if not Path(given).is_file():
            raise click.UsageError(f"--scheduler-flag=--config: {given}: no such file")
        return Path(given)

    def _scheduler_plugins(self) -> tuple[Path, ...]:
        """Files with plugins, read once for their errors. Raises Failure."""
        plugins_in(self.plugin_files)
        return tuple(path.absolute() for path in self.plugin_files)

    def _descheduler_policy(self) -> Path | None:
        """The descheduler's policy, read once for its errors. Raises UsageError."""
        if self.descheduler_policy is None:
            return None
        from bayplan.descheduler.errors import PolicyError
        from bayplan.descheduler.policy_reader import load_policy

        if self.descheduling_interval <= 0:
            raise click.UsageError("--descheduling-interval must be more than 0")
        try:
            load_policy(self.descheduler_policy)
        except PolicyError as error:
            raise click.UsageError(f"--descheduler-policy: {error}") from error
        return self.descheduler_policy

    def _groups(self) -> tuple[NodeGroupSettings, ...]:
        """The node groups. Raises UsageError."""
        from bayplan.kubelet.simulator.nodes.groups import NodeGroupSettingError, parse_groups

        try:
            return parse_groups(self.node_group)
        except NodeGroupSettingError as error:
            raise click.UsageError(f"--node-group: {error}") from error

    @property
    def _own_nodes(self) -> int:
        """How many nodes of its own the cluster has."""
        if self.nodes is not None:
            return self.nodes
        return 3 if self.source is None and not self.real_nodes else 0

    @property
    def directory(self) -> Path | None:
        """The data directory; None if a store is named, or if a copy is started that nobody wants kept."""
        if self.store or (self.source is not None and self.data_dir is None):
            return None
        return self.data_dir or default_data_directory()

    def real_node_settings(self, settings: ClusterSettings) -> RealNodeSettings | None:
        """The real nodes of a cluster; None for none. Raises UsageError, Failure."""
        if not self.real_nodes:
            return None
        from bayplan.cli.clusters.real_nodes import real_node_settings

        return real_node_settings(
            self.real_nodes,
            self.directory,
            settings,
            mode=self.real_node_mode,
            outbound=self.real_node_outbound,
            data_plane=self.real_node_network,
            sandbox_image=self.pod_infra_container_image,
            registry_config=self.real_node_registry_config,
            oci_runtime=self.real_node_oci_runtime,
            without=self.real_node_without,
        )

    def contents(self) -> Contents:
        """What the cluster begins with. Raises Failure."""
        if self.source is None:
            return []
        from bayplan.api.codec import DecodeError
        from bayplan.cli.questions.cluster_input import read_cluster
        from bayplan.simulation.snapshots.revival import revived
        from bayplan.support.clock import SystemClock

        try:
            return revived(read_cluster(self.source), SystemClock().now())
        except DecodeError as error:
            raise Failure(f"{self.source}: {error}") from error

    @property
    def page(self) -> UiSettings | None:
        """How the web page is served; None for none. Raises UsageError."""
        if not self.ui:
            if self.ui_port or self.allow_changes:
                raise click.UsageError("--ui-port and --allow-changes go with --ui")
            return None
        from bayplan.ui.settings import UiSettings

        return UiSettings(
            port=self.ui_port, allow_changes=self.allow_changes, scheduler_config=self._scheduler_config()
        )

    @property
    def kubeconfig_path(self) -> Path:
        """Where the kubeconfig goes."""
        if self.kubeconfig is not None:
            return self.kubeconfig
        return self.directory / "kubeconfig" if self.directory else Path("bayplan.kubeconfig")

"""`bayplan controller-manager`: the controllers against any cluster, with kube-controller-manager's flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bayplan.cli.components import component
from bayplan.cli.flags.controller_flags import DURATION, flag_options, settings_of
from bayplan.cli.flags.kube_command import KubeCommand
from bayplan.cli.flags.kube_flag_tables import CONTROLLER_MANAGER

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(cls=KubeCommand, table=CONTROLLER_MANAGER)
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    help="Controllers to run: '*' for all that are on by default, 'name' to enable, '-name' to disable.",
)
@click.option("--root-ca-file", type=_FILE, help="Authority that is published in every namespace.")
@click.option(
    "--service-account-private-key-file", type=_FILE, help="Private key (PEM) that signs tokens kept in secrets."
)
@click.option("--cluster-signing-cert-file", type=_FILE, help="Authority (PEM) that signs certificate requests.")
@click.option("--cluster-signing-key-file", type=_FILE, help="Its private key (PEM).")
@click.option(
    "--cluster-signing-duration",
    type=DURATION,
    default="8760h",
    show_default=True,
    help="How long certificates are valid at most.",
)
@flag_options
@component.component_options(10257)
def command(
    controllers: str,
    root_ca_file: Path | None,
    service_account_private_key_file: Path | None,
    cluster_signing_cert_file: Path | None,
    cluster_signing_key_file: Path | None,
    cluster_signing_duration: float,
    **options: Any,
) -> None:
    """Run the controllers against any cluster, Bayplan's or a real one.

    Without --root-ca-file the config map kube-root-ca.crt is not published; without the keys, tokens in secrets and certificate requests are not signed.
    """
    if (cluster_signing_cert_file is None) != (cluster_signing_key_file is None):
        raise click.UsageError("--cluster-signing-cert-file and --cluster-signing-key-file go together")
    settings = settings_of(options)

    def make(client: Any, clock: Any, randomness: Any, metrics: Any) -> Any:
        from bayplan.controllers.access.certificate_rules import Authority
        from bayplan.controllers.access.serviceaccount import RootCaPublisher
        from bayplan.controllers.manager import ControllerManager, controller_filter

        names = [name.strip() for name in controllers.split(",") if name.strip()]
        if root_ca_file is None:
            names.append(f"-{RootCaPublisher.name}")
        authority = None
        if cluster_signing_cert_file is not None and cluster_signing_key_file is not None:
            certificate, key = cluster_signing_cert_file.read_bytes(), cluster_signing_key_file.read_bytes()
            authority = Authority(certificate, key, cluster_signing_duration)
        return ControllerManager(
            client,
            clock=clock,
            randomness=randomness,
            root_ca=root_ca_file.read_text() if root_ca_file else "",
            token_signer=_token_signer(service_account_private_key_file),
            signing_authority=authority,
            enabled=controller_filter(names, settings),
            settings=settings,
            metrics=metrics,
        )

    component.run("kube-controller-manager", make, **options)


def _token_signer(key_file: Path | None) -> Any:
    """From claims to a signed token; None without a key."""
    if key_file is None:
        return None
    from bayplan.apiserver.service_account_tokens.keys import TokenKeys

    key = key_file.read_bytes()
    keys = TokenKeys(lambda: key)

    async def sign(claims: dict[str, Any]) -> str:
        return keys.sign(claims)

    return sign

"""What the plugin ServiceAccount checks of a pod's secrets: an account may say that its pods use only the secrets that it lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bayplan.api.types import core_v1

ENFORCE_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))


class SecretUse(NamedTuple):
    """One place where a pod names a secret."""

    where: str
    """As messages have it, up to the name."""
    name: str


def is_enforced(account: core_v1.ServiceAccount) -> bool:
    """Whether pods of the account may use only its secrets."""
    return account.metadata.annotations.get(ENFORCE_ANNOTATION, "") in _TRUE


def unlisted_secret(account: core_v1.ServiceAccount, spec: core_v1.PodSpec, *, ephemeral_only: bool) -> str:
    """What is wrong with the first secret that the account does not list; "" if all are listed."""
    listed = {secret.name for secret in account.secrets}
    name = account.metadata.name
    for use in _ephemeral_uses(spec) if ephemeral_only else _uses(spec):
        if use.name not in listed:
            return (
                f'{use.where}"{use.name}" is not allowed because service account {name} does not reference that secret'
            )
    if ephemeral_only:
        return ""
    pulled = {secret.name for secret in account.image_pull_secrets}
    for index, secret in enumerate(spec.image_pull_secrets):
        if secret.name not in pulled:
            reason = f"service account {name} does not reference that imagePullSecret"
            return f'imagePullSecrets[{index}].name="{secret.name}" is not allowed because {reason}'
    return ""


def _uses(spec: core_v1.PodSpec) -> Iterator[SecretUse]:
    for volume in spec.volumes:
        if volume.secret is not None:
            yield SecretUse("volume with secret.secretName=", volume.secret.secret_name)
    for container in spec.init_containers:
        yield from _environment("init container", container)
    for container in spec.containers:
        yield from _environment("container", container)


def _ephemeral_uses(spec: core_v1.PodSpec) -> Iterator[SecretUse]:
    for container in spec.ephemeral_containers:
        yield from _environment("ephemeral container", container)


def _environment(what: str, container: core_v1.Container | core_v1.EphemeralContainer) -> Iterator[SecretUse]:
    for variable in container.env:
        source = variable.value_from
        if source is not None and source.secret_key_ref is not None:
            where = f"{what} {container.name} with envVar {variable.name} referencing secret.secretName="
            yield SecretUse(where, source.secret_key_ref.name)
    for bulk in container.env_from:
        if bulk.secret_ref is not None:
            yield SecretUse(
                f"{what} {container.name} with envFrom referencing secret.secretName=", bulk.secret_ref.name
            )


def names_secrets(spec: core_v1.PodSpec) -> bool:
    """Whether a pod uses secrets in any way (mirror pods may not)."""
    if any(True for _ in _uses(spec)) or spec.image_pull_secrets:
        return True
    return any(
        source.secret is not None
        for volume in spec.volumes
        if volume.projected is not None
        for source in volume.projected.sources
    )

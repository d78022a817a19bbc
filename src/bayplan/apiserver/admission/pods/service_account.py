"""ServiceAccount: every pod runs as a service account that exists, and finds its token, the cluster's CA and its namespace in a volume."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from bayplan.api.errors import ApiError, forbidden_error
from bayplan.api.kinds import Kind
from bayplan.api.trusted import trust
from bayplan.api.types import core_v1
from bayplan.api.validation.values import formats
from bayplan.apiserver.admission.chain import CREATE, UPDATE, AdmissionPlugin, AdmissionRequest
from bayplan.apiserver.admission.pods.mountable_secrets import is_enforced, names_secrets, unlisted_secret

TOKEN_VOLUME = "kube-api-access-"
"""How the names of volumes with tokens begin."""
MIRROR = "kubernetes.io/config.mirror"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
_TRIES, _PAUSE = 10, 0.1
"""A namespace that was made a moment ago gets its service account soon: wait up to a second for it."""
_SOURCES = (
    core_v1.VolumeProjection(
        service_account_token=core_v1.ServiceAccountTokenProjection(expiration_seconds=TOKEN_SECONDS, path="token")
    ),
    core_v1.VolumeProjection(
        config_map=core_v1.ConfigMapProjection(
            name="kube-root-ca.crt", items=(core_v1.KeyToPath(key="ca.crt", path="ca.crt"),)
        )
    ),
    core_v1.VolumeProjection(
        downward_api=core_v1.DownwardAPIProjection(
            items=(
                core_v1.DownwardAPIVolumeFile(
                    path="namespace",
                    field_ref=core_v1.ObjectFieldSelector(api_version="v1", field_path="metadata.namespace"),
                ),
            )
        )
    ),
)
_PROJECTED = trust(core_v1.ProjectedVolumeSource(sources=_SOURCES, default_mode=0o644))


class ServiceAccount(AdmissionPlugin):
    """See the module."""

    name = "ServiceAccount"

    def handles(self, kind: Kind, operation: str, subresource: str) -> bool:
        if kind.kind != "Pod" or kind.group:
            return False
        return subresource == "ephemeralcontainers" if operation == UPDATE else operation == CREATE and not subresource

    def admit(self, request: AdmissionRequest) -> Awaitable[None] | None:
        """Fill in account, pull secrets and token volume; waits for an account that is just being made."""
        obj = request.obj
        if request.operation != CREATE or MIRROR in obj.metadata.annotations:
            return None
        spec = obj.spec
        spec.service_account_name = spec.service_account_name or spec.service_account or "default"
        spec.service_account = spec.service_account_name
        account = _account(request)
        if account is None:
            return self._wait(request)
        _fill_in(request, account)
        _check_secrets(request, account)  # before other plugins and validation say what they find
        return None

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse mirror pods that use what only the API server gives, and secrets that the account keeps from its pods."""
        is_new = request.operation == CREATE
        if is_new and MIRROR in request.obj.metadata.annotations:
            _check_mirror(request)
            return
        account = _account(request)
        if account is None:
            if is_new:
                raise _not_found(request)
            return
        _check_secrets(request, account)

    async def _wait(self, request: AdmissionRequest) -> None:
        for _ in range(_TRIES):
            await request.call.context.clock.sleep(_PAUSE)
            account = _account(request)
            if account is not None:
                _fill_in(request, account)
                _check_secrets(request, account)
                return
        raise _not_found(request)


def _check_secrets(request: AdmissionRequest, account: core_v1.ServiceAccount) -> None:
    """Raises ApiError (403) if the pod uses a secret that its account keeps from it."""
    if account.metadata.annotations and is_enforced(account):
        wrong = unlisted_secret(account, request.obj.spec, ephemeral_only=request.operation != CREATE)
        if wrong:
            raise forbidden_error("pods", "", request.name, wrong)


def _not_found(request: AdmissionRequest) -> ApiError:
    name = request.obj.spec.service_account_name
    wrong = formats.path_segment(name)
    problem = f'invalid resource name "{name}": [{" ".join(wrong)}]' if wrong else f'serviceaccount "{name}" not found'
    detail = f"error looking up service account {request.namespace}/{name}: {problem}"
    return forbidden_error("pods", "", request.name, detail)


def _check_mirror(request: AdmissionRequest) -> None:
    """A mirror pod only shows what a kubelet runs from a file. Raises ApiError (403)."""
    spec = request.obj.spec
    what = ""
    if spec.service_account_name:
        what = "reference service accounts"
    elif names_secrets(spec):
        what = "reference secrets"
    elif any(
        source.service_account_token is not None
        for volume in spec.volumes
        if volume.projected is not None
        for source in volume.projected.sources
    ):
        what = "use ServiceAccountToken volume projections"
    if what:
        raise forbidden_error("pods", "", request.name, f"a mirror pod may not {what}")


def _account(request: AdmissionRequest) -> Any:
    return request.call.context.find("ServiceAccount", request.namespace, request.obj.spec.service_account_name)


def _fill_in(request: AdmissionRequest, account: core_v1.ServiceAccount) -> None:
    spec = request.obj.spec
    if account.image_pull_secrets and not spec.image_pull_secrets:
        spec.image_pull_secrets = account.image_pull_secrets
    wanted = spec.automount_service_account_token
    if wanted is None:
        wanted = account.automount_service_account_token
    if wanted is not False:
        _mount_token(request, spec)


def _mount_token(request: AdmissionRequest, spec: core_v1.PodSpec) -> None:
    without = [one for one in spec.init_containers + spec.containers if not _has_mount(one)]
    if not without:
        return
    name = next((volume.name for volume in spec.volumes if volume.name.startswith(TOKEN_VOLUME)), "")
    if not name:
        name = TOKEN_VOLUME + request.call.context.randomness.suffix(5)
        spec.volumes = (*spec.volumes, core_v1.Volume(name=name, projected=_PROJECTED))
    mount = core_v1.VolumeMount(name=name, read_only=True, mount_path=MOUNT_PATH)
    for container in without:
        container.volume_mounts = (*container.volume_mounts, mount)


def _has_mount(container: core_v1.Container) -> bool:
    mounts = container.volume_mounts
    return bool(mounts) and any(one.mount_path == MOUNT_PATH for one in mounts)

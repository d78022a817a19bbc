"""projected: files of several sources in one volume, such as the token by which a pod knows the API server."""

from __future__ import annotations

from bayplan.api.types import core_v1
from bayplan.kubelet.objects import ObjectError
from bayplan.kubelet.volumes.atomic_writer import FileProjection
from bayplan.kubelet.volumes.config_map import config_map_payload
from bayplan.kubelet.volumes.downward_api import aggregate, downward_payload
from bayplan.kubelet.volumes.errors import SetUpError
from bayplan.kubelet.volumes.interface import Mounted, SetUp, VolumeSpec
from bayplan.kubelet.volumes.secret import secret_payload
from bayplan.kubelet.volumes.written import Payload, WrittenKind, needed_mode, write_volume

_PRIVATE = 0o600


class Projected(WrittenKind):
    """See the module."""

    name = "kubernetes.io/projected"

    def can_support(self, spec: VolumeSpec) -> bool:
        """See VolumeKind."""
        return spec.volume is not None and spec.volume.projected is not None

    async def set_up(self, context: SetUp) -> Mounted:
        """See VolumeKind."""
        source = context.spec.volume.projected if context.spec.volume is not None else None
        assert source is not None
        mode = needed_mode(source.default_mode)
        payload: Payload = {}
        errors = []
        for index, each in enumerate(source.sources):
            try:
                payload.update(await _files(context, each, index, mode))
            except (ObjectError, SetUpError) as error:
                errors.append(str(error))
        if errors:
            raise SetUpError(aggregate(errors))
        return await write_volume(context, payload, in_memory=self.in_memory)


async def _files(context: SetUp, source: core_v1.VolumeProjection, index: int, mode: int) -> Payload:
    """The files of one source. Raises SetUpError, ObjectError."""
    objects, pod = context.host.objects, context.pod
    namespace = pod.metadata.namespace
    if source.secret is not None:
        secret = source.secret
        optional = bool(secret.optional)
        return await secret_payload(objects, namespace, secret.name, secret.items, mode, optional=optional)
    if source.config_map is not None:
        return await config_map_payload(objects, namespace, source.config_map, mode)
    if source.downward_api is not None:
        return downward_payload(context.host, pod, source.downward_api.items, mode)
    if source.service_account_token is not None:
        wanted = source.service_account_token
        token = await objects.token(pod, wanted.audience, wanted.expiration_seconds)
        return {wanted.path: _private(context, token.text.encode(), mode)}
    if source.cluster_trust_bundle is not None:
        return await _trust_bundle(context, source.cluster_trust_bundle, mode)
    if source.pod_certificate is not None:
        return await _pod_certificate(context, source.pod_certificate, index, mode)
    return {}


def _private(context: SetUp, data: bytes, mode: int) -> FileProjection:
    """A file for the pod's user alone, where that is known; fsGroup opens it to the group afterwards."""
    restricted = context.fs_user is not None or context.fs_group is not None
    return FileProjection(data, _PRIVATE if restricted else mode, context.fs_user)


async def _trust_bundle(context: SetUp, source: core_v1.ClusterTrustBundleProjection, mode: int) -> Payload:
    if source.name is None and source.signer_name is None:
        raise SetUpError("ClusterTrustBundle projection requires either name or signerName to be set")
    anchors = await context.host.objects.trust_anchors(
        name=source.name,
        signer=source.signer_name,
        selector=source.label_selector,
        optional=bool(source.optional),
    )
    return {source.path: _private(context, anchors, mode)}


async def _pod_certificate(context: SetUp, source: core_v1.PodCertificateProjection, index: int, mode: int) -> Payload:
    key, chain = await context.host.objects.pod_certificate(context.pod, context.spec.outer_name, index)
    files = {source.credential_bundle_path: key + chain, source.key_path: key, source.certificate_chain_path: chain}
    return {path: _private(context, data, mode) for path, data in files.items() if path}
